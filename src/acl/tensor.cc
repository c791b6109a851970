// SPDX-License-Identifier: Apache-2.0
// aclTensor: creating, destroying and asking. CANN aclnn base API.
#include "acl/tensor.h"

#include <algorithm>
#include <utility>

#include "acl/destroy.h"
#include "acl/error.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct TypeFact {
  aclDataType type;
  DType dtype;
  std::string_view name;
};

constexpr TypeFact kTypeFacts[] = {
    {ACL_FLOAT, DType::kF32, "FLOAT"},    {ACL_FLOAT16, DType::kF16, "FLOAT16"},
    {ACL_BF16, DType::kBf16, "BFLOAT16"}, {ACL_INT8, DType::kI8, "INT8"},
    {ACL_UINT8, DType::kU8, "UINT8"},     {ACL_BOOL, DType::kBool, "BOOL"},
    {ACL_INT32, DType::kI32, "INT32"},    {ACL_INT64, DType::kI64, "INT64"},
    {ACL_UINT64, DType::kU64, "UINT64"},  {ACL_DOUBLE, DType::kF64, "DOUBLE"},
    {ACL_INT4, DType::kI4x8, "INT4"},
};

// Those that attention does not compute with; other operators copy or compute
// with some of them.
struct OtherType {
  aclDataType type;
  int64_t bytes;  // of an element, or 0
  std::string_view name;
};

constexpr OtherType kOtherTypes[] = {
    {ACL_DT_UNDEFINED, 0, "DT_UNDEFINED"},
    {ACL_INT16, 2, "INT16"},
    {ACL_UINT16, 2, "UINT16"},
    {ACL_UINT32, 4, "UINT32"},
    {ACL_STRING, 0, "STRING"},
    {ACL_COMPLEX64, 8, "COMPLEX64"},
    {ACL_COMPLEX128, 16, "COMPLEX128"},
    {ACL_UINT1, 0, "UINT1"},
    {ACL_COMPLEX32, 4, "COMPLEX32"},
    {ACL_HIFLOAT8, 1, "HIFLOAT8"},
    {ACL_FLOAT8_E5M2, 1, "FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, 1, "FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, 1, "FLOAT8_E8M0"},
    {ACL_FLOAT6_E3M2, 0, "FLOAT6_E3M2"},
    {ACL_FLOAT6_E2M3, 0, "FLOAT6_E2M3"},
    {ACL_FLOAT4_E2M1, 0, "FLOAT4_E2M1"},
    {ACL_FLOAT4_E1M2, 0, "FLOAT4_E1M2"},
};

const OtherType* FindOther(aclDataType type) {
  const auto* const found =
      std::ranges::find(kOtherTypes, type, &OtherType::type);
  return found == std::end(kOtherTypes) ? nullptr : found;
}

// How many dimensions the last tensor had that this thread made in vain, until
// a phase one has asked: programs make all tensors of a call before it.
thread_local uint64_t refused_rank = 0;

// The arguments of aclCreateTensor, which are many.
struct Description {
  std::span<const int64_t> dims;
  aclDataType type;
  const int64_t* strides;  // null: contiguous
  int64_t offset;
  aclFormat format;
  std::span<const int64_t> storage_dims;
  void* data;
};

Status CheckDescription(const Description& of, bool dims_given,
                        bool storage_given) {
  if (!dims_given) return NullArgument("viewDims cannot be a NULL pointer");
  if (!storage_given) {
    return NullArgument("storageDims cannot be a NULL pointer");
  }
  if (of.dims.size() > kMaxRank) {
    refused_rank = of.dims.size();
    return Invalid("viewDimsNum: {} dimensions, expected at most {}",
                   of.dims.size(), kMaxRank);
  }
  for (const int64_t dim : of.dims) {
    if (dim < 0) {
      return Invalid("viewDims: [{}] has a negative extent",
                     Join(of.dims, ", "));
    }
  }
  return {};
}

void Fill(const Description& of, Tensor& tensor) {
  tensor.acl_dtype = of.type;
  tensor.format = of.format;
  tensor.rank = of.dims.size();
  std::ranges::copy(of.dims, tensor.dims.begin());
  tensor.offset = of.offset;
  tensor.data = static_cast<std::byte*>(of.data);
  tensor.storage_dims = std::make_shared<const std::vector<int64_t>>(
      of.storage_dims.begin(), of.storage_dims.end());
  if (of.strides != nullptr) {
    std::copy_n(of.strides, tensor.rank, tensor.strides.begin());
    return;
  }
  int64_t stride = 1;
  for (size_t axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = stride;
    // Beyond any memory; users refuse such strides.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(tensor.dims[axis], 1),
                               &stride)) {
      stride = INT64_MAX;
    }
  }
}

// The get functions hand out arrays that the caller frees with delete[]; they
// are never null, not even for rank 0.
int64_t* NewCopy(std::span<const int64_t> values) {
  int64_t* copy = new int64_t[std::max<size_t>(values.size(), 1)]{};
  std::ranges::copy(values, copy);
  return copy;
}

// Runs body(tensor) for the tensor of a handle.
template <typename F>
aclnnStatus WithTensor(const aclTensor* handle, bool outputs_given,
                       std::string_view function, F&& body) {
  return Guard(kParamInvalid, [&]() -> Status {
    if (handle == nullptr || !outputs_given) {
      return NullArgument("{}: an argument is a NULL pointer", function);
    }
    const std::shared_ptr<Tensor> tensor = Find<Tensor>(handle);
    if (tensor == nullptr) {
      return Invalid("{}: tensor is not a live aclTensor{}", function,
                     IfParents<Tensor>(handle));
    }
    body(*tensor);
    return {};
  });
}

}  // namespace

DType Tensor::dtype() const {
  for (const TypeFact& fact : kTypeFacts) {
    if (fact.type == acl_dtype) return fact.dtype;
  }
  return DType::kNone;
}

int64_t Tensor::BytesOf(int64_t elements) const {
  if (acl_dtype == ACL_INT4) return elements / 2;
  if (const int64_t bytes = SizeOf(dtype()); bytes != 0) {
    return elements * bytes;
  }
  const OtherType* const other = FindOther(acl_dtype);
  return other != nullptr ? elements * other->bytes : 0;
}

std::string_view TypeText(aclDataType type) {
  for (const TypeFact& fact : kTypeFacts) {
    if (fact.type == type) return fact.name;
  }
  const OtherType* const other = FindOther(type);
  return other != nullptr ? other->name : "which no aclDataType is";
}

int64_t Tensor::elements() const {
  int64_t product = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    // Beyond any memory; the exact number no longer matters.
    if (__builtin_mul_overflow(product, dims[axis], &product)) {
      product = std::ranges::count(shape(), 0) > 0 ? 0 : INT64_MAX;
      break;
    }
  }
  return product;
}

int64_t Tensor::extent_bytes() const {
  if (empty()) return 0;
  int64_t extent = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t span = 0;
    if (__builtin_mul_overflow(dims[axis] - 1, strides[axis], &span) ||
        __builtin_add_overflow(extent, span, &extent)) {
      return INT64_MAX;
    }
  }
  // Of two elements, which are a byte of INT4.
  int64_t bytes = 0;
  if (__builtin_mul_overflow(extent, BytesOf(2), &bytes)) return INT64_MAX;
  return bytes / 2 + bytes % 2;
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (size_t axis = rank; axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    if (__builtin_mul_overflow(expected, std::max<int64_t>(dims[axis], 1),
                               &expected)) {
      expected = INT64_MAX;
    }
  }
  return true;
}

std::string WhyNull() {
  const uint64_t rank = std::exchange(refused_rank, 0);
  if (rank == 0) return {};
  return Str(
      " (aclCreateTensor made none of {} dimensions before, expected at most "
      "{})",
      rank, kMaxRank);
}

std::string ShapeText(const Tensor& tensor) {
  return Str("[{}]", Join(tensor.shape(), ", "));
}

}  // namespace flashacl::acl

// Outside the namespace, where the header's declarations are: only then do
// these inherit that they are exported.
using namespace flashacl::acl;
using namespace flashacl;

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum,
                           aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  aclTensor* handle = nullptr;
  (void)Guard(kParamInvalid, [&]() -> Status {
    const Description of{
        {viewDims, viewDims == nullptr ? 0 : viewDimsNum},
        dataType,
        stride,
        offset,
        format,
        {storageDims, storageDims == nullptr ? 0 : storageDimsNum},
        tensorData};
    FLASHACL_RETURN_IF_ERROR(
        CheckDescription(of, viewDims != nullptr || viewDimsNum == 0,
                         storageDims != nullptr || storageDimsNum == 0));
    auto tensor = std::make_shared<Tensor>();
    Fill(of, *tensor);
    return Create(std::move(tensor), &handle);
  });
  return handle;
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims,
                          uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset,
                          aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  return Guard(kParamInvalid, [&]() -> Status {
    if (tensor == nullptr) {
      return NullArgument("aclInitTensor: tensor is a NULL pointer");
    }
    const Description of{
        {viewDims, viewDims == nullptr ? 0 : viewDimsNum},
        dataType,
        stride,
        offset,
        format,
        {storageDims, storageDims == nullptr ? 0 : storageDimsNum},
        tensorDataAddr};
    FLASHACL_RETURN_IF_ERROR(
        CheckDescription(of, viewDims != nullptr || viewDimsNum == 0,
                         storageDims != nullptr || storageDimsNum == 0));
    const std::shared_ptr<Tensor> object = Find<Tensor>(tensor);
    if (object == nullptr) {
      return Invalid("aclInitTensor: tensor is not a live aclTensor{}",
                     IfParents<Tensor>(tensor));
    }
    Fill(of, *object);
    return {};
  });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Destroy<Tensor>(tensor, "aclDestroyTensor");
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims,
                            uint64_t* viewDimsNum) {
  return WithTensor(tensor, viewDims != nullptr && viewDimsNum != nullptr,
                    "aclGetViewShape", [&](const Tensor& of) {
                      *viewDims = NewCopy(of.shape());
                      *viewDimsNum = of.rank;
                    });
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                               uint64_t* storageDimsNum) {
  return WithTensor(tensor, storageDims != nullptr && storageDimsNum != nullptr,
                    "aclGetStorageShape", [&](const Tensor& of) {
                      *storageDims = NewCopy(*of.storage_dims);
                      *storageDimsNum = of.storage_dims->size();
                    });
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                              uint64_t* stridesNum) {
  return WithTensor(tensor, stridesValue != nullptr && stridesNum != nullptr,
                    "aclGetViewStrides", [&](const Tensor& of) {
                      *stridesValue = NewCopy({of.strides.data(), of.rank});
                      *stridesNum = of.rank;
                    });
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return WithTensor(tensor, offset != nullptr, "aclGetViewOffset",
                    [&](const Tensor& of) { *offset = of.offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return WithTensor(tensor, format != nullptr, "aclGetFormat",
                    [&](const Tensor& of) { *format = of.format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return WithTensor(tensor, dataType != nullptr, "aclGetDataType",
                    [&](const Tensor& of) { *dataType = of.acl_dtype; });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  return WithTensor(tensor, true, "aclSetRawTensorAddr", [&](Tensor& of) {
    of.data = static_cast<std::byte*>(addr);
  });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return WithTensor(tensor, addr != nullptr, "aclGetRawTensorAddr",
                    [&](const Tensor& of) { *addr = of.data; });
}

}  // extern "C"
