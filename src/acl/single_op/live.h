// SPDX-License-Identifier: Apache-2.0
// Finding the objects of single-operator calls, or saying what is wrong with
// their handles.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "acl/error.h"
#include "acl/handle.h"
#include "base/str.h"

namespace flashacl::acl {

// 100000: `handle` is null, destroyed or none of ours.
template <typename Object>
aclError FailHandle(std::string_view function, std::string_view parameter,
                    const void* handle) {
  if (handle == nullptr) return FailNull(function, parameter);
  return FailValue(ACL_ERROR_INVALID_PARAM, function, parameter,
                   Str("{}", handle),
                   ExpectedInsteadOf(Object::kHandleKind, handle));
}

// Runs body(object) -> aclError for the object of a handle.
template <typename Object, typename F>
aclError With(std::string_view function, std::string_view parameter,
              const void* handle, F&& body) {
  return GuardRuntime([&]() -> aclError {
    const std::shared_ptr<Object> object = Find<Object>(handle);
    if (object == nullptr) {
      return FailHandle<Object>(function, parameter, handle);
    }
    return body(*object);
  });
}

// A handle of `object`; null, with a message, if there are none left.
template <typename Handle, typename Object>
aclError NewObject(std::string_view function, std::shared_ptr<Object> object,
                   Handle** handle) {
  *handle = static_cast<Handle*>(NewHandle(std::move(object)));
  if (*handle != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
              Str("{} failed because there are no handles left.", function));
}

// 100000 unless the handle was live; it is not afterwards.
template <typename Object>
aclError DestroyObject(std::string_view function, std::string_view parameter,
                       const void* handle) {
  return GuardRuntime([&]() -> aclError {
    if (Take<Object>(handle) != nullptr) return ACL_SUCCESS;
    return FailHandle<Object>(function, parameter, handle);
  });
}

}  // namespace flashacl::acl
