// SPDX-License-Identifier: Apache-2.0
// aclScalar, the arrays and the lists. CANN aclnn base API.
#include "acl/array.h"

#include <algorithm>
#include <utility>

#include "acl/destroy.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/tensor.h"
#include "aclnn/aclnn_base.h"

namespace flashacl::acl {
namespace {

// A handle of type Handle to `Object` holding a copy of `count` values; null,
// with a message, if the values are missing.
template <typename Handle, typename Object, typename T>
Handle* NewArray(const T* values, uint64_t count, std::string_view function) {
  Handle* handle = nullptr;
  (void)Guard(kParamInvalid, [&]() -> Status {
    if (values == nullptr && count > 0) {
      return NullArgument("{}: value is a NULL pointer, size is {}", function,
                          count);
    }
    auto object = std::make_shared<Object>();
    const auto copy = [&](auto& to) {
      to.reserve(count);  // or the end of too many may be their beginning
      to.assign(values, values + count);
    };
    if constexpr (requires { object->values; }) {
      copy(object->values);
    } else {
      copy(object->members);
    }
    return Create(std::move(object), &handle);
  });
  return handle;
}

template <typename Object>
aclnnStatus SizeOfObject(const void* handle, uint64_t* size,
                         std::string_view function) {
  return Guard(kParamInvalid, [&]() -> Status {
    if (handle == nullptr || size == nullptr) {
      return NullArgument("{}: an argument is a NULL pointer", function);
    }
    const std::shared_ptr<Object> object = Find<Object>(handle);
    if (object == nullptr) {
      return Invalid("{}: this is not a live {}{}", function,
                     Name(Object::kHandleKind), IfParents<Object>(handle));
    }
    if constexpr (requires { object->values; }) {
      *size = object->values.size();
    } else {
      *size = object->members.size();
    }
    return {};
  });
}

// A list owns its members' destruction; members that are gone are skipped.
template <typename List, typename Member>
aclnnStatus DestroyList(const void* handle, std::string_view function) {
  const std::shared_ptr<List> list = Find<List>(handle);
  const aclnnStatus status = Destroy<List>(handle, function);
  if (status != 0 || list == nullptr) return status;
  for (const auto* member : list->members) {
    if (member != nullptr) (void)Take<Member>(member);
  }
  return status;
}

// What a value of the type takes. aclDataTypeSize answers 8 for types of less
// than a byte and for types it does not know; the caller's value may be
// shorter.
size_t ScalarBytes(aclDataType type) {
  constexpr int kFloat6E3M2 = 38;
  constexpr int kFloat4E1M2 = 41;
  const int raw = Raw(type);
  if (kFloat6E3M2 <= raw && raw <= kFloat4E1M2) return 1;
  return raw < kFloat6E3M2 ? aclDataTypeSize(type) : 0;
}

}  // namespace

}  // namespace flashacl::acl

// Outside the namespace, where the header's declarations are: only then do
// these inherit that they are exported.
using namespace flashacl::acl;
using namespace flashacl;

extern "C" {

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  aclScalar* handle = nullptr;
  (void)Guard(kParamInvalid, [&]() -> Status {
    if (value == nullptr) {
      return NullArgument("aclCreateScalar: value is a NULL pointer");
    }
    auto scalar = std::make_shared<Scalar>();
    const auto* bytes = static_cast<const uint8_t*>(value);
    scalar->type = dataType;
    scalar->bytes.assign(bytes, bytes + ScalarBytes(dataType));
    return Create(std::move(scalar), &handle);
  });
  return handle;
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return NewArray<aclIntArray, IntArray>(value, size, "aclCreateIntArray");
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return NewArray<aclFloatArray, FloatArray>(value, size,
                                             "aclCreateFloatArray");
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return NewArray<aclBoolArray, BoolArray>(value, size, "aclCreateBoolArray");
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value,
                                   uint64_t size) {
  return NewArray<aclTensorList, TensorList>(value, size,
                                             "aclCreateTensorList");
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value,
                                   uint64_t size) {
  return NewArray<aclScalarList, ScalarList>(value, size,
                                             "aclCreateScalarList");
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return Destroy<Scalar>(scalar, "aclDestroyScalar");
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Destroy<IntArray>(array, "aclDestroyIntArray");
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return Destroy<FloatArray>(array, "aclDestroyFloatArray");
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return Destroy<BoolArray>(array, "aclDestroyBoolArray");
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return DestroyList<TensorList, Tensor>(array, "aclDestroyTensorList");
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return DestroyList<ScalarList, Scalar>(array, "aclDestroyScalarList");
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return SizeOfObject<IntArray>(array, size, "aclGetIntArraySize");
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return SizeOfObject<FloatArray>(array, size, "aclGetFloatArraySize");
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return SizeOfObject<BoolArray>(array, size, "aclGetBoolArraySize");
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList,
                                 uint64_t* size) {
  return SizeOfObject<TensorList>(tensorList, size, "aclGetTensorListSize");
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList,
                                 uint64_t* size) {
  return SizeOfObject<ScalarList>(scalarList, size, "aclGetScalarListSize");
}

// There is nothing to set up: the aclnn base API works without aclInit, and a
// configuration it cannot use changes nothing.
aclnnStatus aclnnInit(const char* /*configPath*/) { return 0; }

aclnnStatus aclnnFinalize() { return 0; }

}  // extern "C"
