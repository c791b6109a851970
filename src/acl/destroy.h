// SPDX-License-Identifier: Apache-2.0
// Creating and destroying aclnn objects. Programs destroy lists and their
// members in either order, so a second destroy is forgiven unless strict mode
// asks to hear of it.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "acl/environment.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/handle.h"
#include "aclnn/acl_meta.h"

namespace flashacl::acl {

// What functions of the aclnn base API answer to a bad value.
inline constexpr aclnnStatus kParamInvalid = 161002;

// A new handle into `handle`, or why there is none: millions are live.
template <typename Handle, typename Object>
Status Create(std::shared_ptr<Object> object, Handle** handle) {
  *handle = static_cast<Handle*>(NewHandle(std::move(object)));
  if (*handle != nullptr) return {};
  return {Code::kOutOfMemory, "there are no handles left"};
}

// Null is fine; a handle that was never ours is not.
template <typename Object>
aclnnStatus Destroy(const void* handle, std::string_view function) {
  return Guard(kParamInvalid, [&]() -> Status {
    if (handle == nullptr || Take<Object>(handle) != nullptr) return {};
    const HandleState state = StateOf(Object::kHandleKind, handle);
    if (state == HandleState::kParents) return {};  // the parent destroys it
    const bool twice = state == HandleState::kStale;
    if (twice && !TheEnvironment().strict) return {};
    return Found(Invalid("{}: {} {}", function,
                         twice ? "double destroy of" : "this is not a live",
                         Name(Object::kHandleKind)));
  });
}

}  // namespace flashacl::acl
