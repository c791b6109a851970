// SPDX-License-Identifier: Apache-2.0
#include "acl/single_op/tensor_desc.h"

#include <span>
#include <utility>

#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/single_op/live.h"
#include "base/str.h"

namespace flashacl::acl {

size_t TensorDesc::ElementCount() const {
  uint64_t count = 1;
  for (const int64_t dim : origin.dims) {
    if (dim < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) {
      return 0;
    }
  }
  return count;
}

namespace {

// Extents that arrive as a count and a pointer.
aclError CheckDims(std::string_view function, int count, const int64_t* dims,
                   bool may_be_null) {
  if (count < 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, "numDims",
                     Str("{}", count), "0 or more");
  }
  if (dims == nullptr && !may_be_null) return FailNull(function, "dims");
  return ACL_SUCCESS;
}

std::vector<int64_t> Copy(int count, const int64_t* dims) {
  return {dims, dims + count};
}

aclError Make(int type, int count, const int64_t* dims, int format,
              aclTensorDesc** made) {
  constexpr std::string_view kFunction = "aclCreateTensorDesc";
  const aclError error = CheckDims(kFunction, count, dims, count == 0);
  if (error != ACL_SUCCESS) return error;
  auto desc = std::make_shared<TensorDesc>();
  desc->type = type;
  desc->origin = {format, Copy(count, dims)};
  desc->storage = desc->origin;
  return NewObject(kFunction, std::move(desc), made);
}

using Layout = TensorDesc::Layout TensorDesc::*;

aclError SetFormat(std::string_view function, aclTensorDesc* handle, int format,
                   Layout layout) {
  if (handle == nullptr) return ACL_SUCCESS;  // as programs expect
  return With<TensorDesc>(function, "desc", handle, [&](TensorDesc& desc) {
    (desc.*layout).format = format;
    return ACL_SUCCESS;
  });
}

aclError SetShape(std::string_view function, aclTensorDesc* handle, int count,
                  const int64_t* dims, Layout layout) {
  return With<TensorDesc>(
      function, "desc", handle, [&](TensorDesc& desc) -> aclError {
        const aclError error = CheckDims(function, count, dims, false);
        if (error == ACL_SUCCESS) (desc.*layout).dims = Copy(count, dims);
        return error;
      });
}

aclError SetRanges(std::string_view function, std::string_view parameter,
                   aclTensorDesc* handle, size_t count,
                   const int64_t (*ranges)[2],
                   TensorDesc::Ranges TensorDesc::*member) {
  return With<TensorDesc>(function, "desc", handle,
                          [&](TensorDesc& desc) -> aclError {
                            if (ranges == nullptr && count > 0) {
                              return FailNull(function, parameter);
                            }
                            TensorDesc::Ranges copy;
                            for (size_t n = 0; n < count; ++n) {
                              copy.push_back({ranges[n][0], ranges[n][1]});
                            }
                            desc.*member = std::move(copy);
                            return ACL_SUCCESS;
                          });
}

aclError SetPlacement(TensorDesc& desc, int number) {
  if (number < ACL_MEMTYPE_DEVICE ||
      number > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT) {
    return FailValue(ACL_ERROR_INVALID_PARAM, "aclSetTensorPlaceMent",
                     "memType", Str("{}", number), "0 to 2");
  }
  desc.placement = number;
  return ACL_SUCCESS;
}

aclError SetConstant(TensorDesc& desc, const void* data, size_t length) {
  constexpr std::string_view kFunction = "aclSetTensorConst";
  if (data == nullptr) return FailNull(kFunction, "dataBuffer");
  if (length == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "length", "0",
                     "1 or more");
  }
  const auto* bytes = static_cast<const std::byte*>(data);
  desc.constant.assign(bytes, bytes + length);
  return ACL_SUCCESS;
}

// What a getter without a status answers; `otherwise`, with a message, where
// `handle` is not live.
template <typename T, typename F>
T Ask(std::string_view function, const aclTensorDesc* handle, T otherwise,
      F&& question) {
  T answer = otherwise;
  With<TensorDesc>(function, "desc", handle,
                   [&](const TensorDesc& desc) -> aclError {
                     answer = question(desc);
                     return ACL_SUCCESS;
                   });
  return answer;
}

size_t SizeOf(const TensorDesc& desc) {
  size_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(
      desc.ElementCount(), aclDataTypeSize(static_cast<aclDataType>(desc.type)),
      &bytes);
  return fits ? bytes : 0;
}

size_t RankOf(const TensorDesc& desc) {
  constexpr int64_t kUnknownRank = -2;
  const std::vector<int64_t>& dims = desc.origin.dims;
  if (!dims.empty() && dims[0] == kUnknownRank) return ACL_UNKNOWN_RANK;
  return dims.size();
}

aclError Dim(std::string_view function, const aclTensorDesc* handle,
             size_t index, int64_t* dim) {
  return With<TensorDesc>(
      function, "desc", handle, [&](const TensorDesc& desc) -> aclError {
        if (dim == nullptr) return FailNull(function, "dimSize");
        const std::vector<int64_t>& dims = desc.origin.dims;
        if (index >= dims.size()) {
          return FailValue(ACL_ERROR_INVALID_PARAM, function, "index",
                           Str("{}", index),
                           Str("less than {} dimensions", dims.size()));
        }
        *dim = dims[index];
        return ACL_SUCCESS;
      });
}

aclError DimRange(const TensorDesc& desc, size_t index, size_t count,
                  int64_t* range) {
  constexpr std::string_view kFunction = "aclGetTensorDescDimRange";
  if (range == nullptr) return FailNull(kFunction, "dimRange");
  if (index >= desc.shape_ranges.size()) {
    return FailValue(
        ACL_ERROR_INVALID_PARAM, kFunction, "index", Str("{}", index),
        Str("less than {} ranges that were set", desc.shape_ranges.size()));
  }
  if (count < ACL_TENSOR_SHAPE_RANGE_NUM) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "dimRangeNum",
                     Str("{}", count), "2 or more");
  }
  range[0] = desc.shape_ranges[index][0];
  range[1] = desc.shape_ranges[index][1];
  return ACL_SUCCESS;
}

aclError Translate(const aclTensorDesc* handle, aclTensorDesc** made) {
  constexpr std::string_view kFunction = "aclTransTensorDescFormat";
  return With<TensorDesc>(
      kFunction, "srcDesc", handle, [&](const TensorDesc&) -> aclError {
        if (made == nullptr) return FailNull(kFunction, "dstDesc");
        return Fail(ACL_ERROR_API_NOT_SUPPORT, Title::kNotSupported,
                    Str("{} is not supported: operators read plain strided "
                        "memory, whatever the format is called.",
                        kFunction));
      });
}

}  // namespace

std::shared_ptr<TensorDesc> FindTensorDesc(std::string_view function,
                                           std::string_view parameter,
                                           const aclTensorDesc* desc,
                                           aclError* error) {
  std::shared_ptr<TensorDesc> found = Find<TensorDesc>(desc);
  *error = found != nullptr ? ACL_SUCCESS
                            : FailHandle<TensorDesc>(function, parameter, desc);
  return found;
}

}  // namespace flashacl::acl

namespace acl = flashacl::acl;
using acl::TensorDesc;

extern "C" {

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims,
                                   const int64_t* dims, aclFormat format) {
  aclTensorDesc* made = nullptr;
  acl::GuardRuntime([&] {
    return acl::Make(acl::Raw(dataType), numDims, dims, acl::Raw(format),
                     &made);
  });
  return made;
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  if (desc == nullptr) return;
  acl::DestroyObject<TensorDesc>("aclDestroyTensorDesc", "desc", desc);
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return acl::SetFormat("aclSetTensorFormat", desc, acl::Raw(format),
                        &TensorDesc::storage);
}

aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
  return acl::SetFormat("aclSetTensorStorageFormat", desc, acl::Raw(format),
                        &TensorDesc::storage);
}

aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  return acl::SetFormat("aclSetTensorOriginFormat", desc, acl::Raw(format),
                        &TensorDesc::origin);
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims,
                           const int64_t* dims) {
  return acl::SetShape("aclSetTensorShape", desc, numDims, dims,
                       &TensorDesc::storage);
}

aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims,
                                  const int64_t* dims) {
  return acl::SetShape("aclSetTensorStorageShape", desc, numDims, dims,
                       &TensorDesc::storage);
}

aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims,
                                 const int64_t* dims) {
  return acl::SetShape("aclSetTensorOriginShape", desc, numDims, dims,
                       &TensorDesc::origin);
}

aclError aclSetTensorShapeRange(
    aclTensorDesc* desc, size_t dimsCount,
    int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]) {
  return acl::SetRanges("aclSetTensorShapeRange", "dimsRange", desc, dimsCount,
                        dimsRange, &TensorDesc::shape_ranges);
}

aclError aclSetTensorValueRange(
    aclTensorDesc* desc, size_t valueCount,
    int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]) {
  return acl::SetRanges("aclSetTensorValueRange", "valueRange", desc,
                        valueCount, valueRange, &TensorDesc::value_ranges);
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc == nullptr) return;
  acl::With<TensorDesc>("aclSetTensorDescName", "desc", desc,
                        [&](TensorDesc& found) {
                          found.name = name == nullptr ? "" : name;
                          return ACL_SUCCESS;
                        });
}

const char* aclGetTensorDescName(aclTensorDesc* desc) {
  return acl::Ask("aclGetTensorDescName", desc, "",
                  [](const TensorDesc& found) { return found.name.c_str(); });
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  return acl::With<TensorDesc>(
      "aclSetTensorPlaceMent", "desc", desc, [&](TensorDesc& found) {
        return acl::SetPlacement(found, acl::Raw(memType));
      });
}

aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer,
                           size_t length) {
  return acl::With<TensorDesc>(
      "aclSetTensorConst", "desc", desc, [&](TensorDesc& found) {
        return acl::SetConstant(found, dataBuffer, length);
      });
}

aclError aclSetTensorDynamicInput(aclTensorDesc* desc,
                                  const char* dynamicInputName) {
  constexpr const char* kFunction = "aclSetTensorDynamicInput";
  return acl::With<TensorDesc>(
      kFunction, "desc", desc, [&](TensorDesc& found) -> aclError {
        if (dynamicInputName == nullptr) {
          return acl::FailNull(kFunction, "dynamicInputName");
        }
        found.dynamic_input = dynamicInputName;
        return ACL_SUCCESS;
      });
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return static_cast<aclDataType>(
      acl::Ask("aclGetTensorDescType", desc, int{ACL_DT_UNDEFINED},
               [](const TensorDesc& found) { return found.type; }));
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return static_cast<aclFormat>(
      acl::Ask("aclGetTensorDescFormat", desc, int{ACL_FORMAT_UNDEFINED},
               [](const TensorDesc& found) { return found.origin.format; }));
}

size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return acl::Ask("aclGetTensorDescSize", desc, size_t{0}, &acl::SizeOf);
}

size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  return acl::Ask("aclGetTensorDescElementCount", desc, size_t{0},
                  [](const TensorDesc& found) { return found.ElementCount(); });
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return acl::Ask("aclGetTensorDescNumDims", desc, size_t{0}, &acl::RankOf);
}

int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  int64_t dim = -1;
  acl::Dim("aclGetTensorDescDim", desc, index, &dim);
  return dim;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index,
                               int64_t* dimSize) {
  return acl::Dim("aclGetTensorDescDimV2", desc, index, dimSize);
}

aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index,
                                  size_t dimRangeNum, int64_t* dimRange) {
  return acl::With<TensorDesc>(
      "aclGetTensorDescDimRange", "desc", desc, [&](const TensorDesc& found) {
        return acl::DimRange(found, index, dimRangeNum, dimRange);
      });
}

aclTensorDesc* aclGetTensorDescByIndex(aclTensorDesc* desc, size_t index) {
  constexpr const char* kFunction = "aclGetTensorDescByIndex";
  aclTensorDesc* found = nullptr;
  acl::With<TensorDesc>(
      kFunction, "desc", desc, [&](const TensorDesc&) -> aclError {
        if (index > 0) {
          return acl::FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "index",
                                flashacl::Str("{}", index), "0");
        }
        found = desc;
        return ACL_SUCCESS;
      });
  return found;
}

void* aclGetTensorDescAddress(const aclTensorDesc* desc) {
  return acl::Ask("aclGetTensorDescAddress", desc, static_cast<void*>(nullptr),
                  [](const TensorDesc&) -> void* { return nullptr; });
}

aclError aclTransTensorDescFormat(const aclTensorDesc* srcDesc,
                                  aclFormat /*dstFormat*/,
                                  aclTensorDesc** dstDesc) {
  return acl::Translate(srcDesc, dstDesc);
}

}  // extern "C"
