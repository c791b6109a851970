// SPDX-License-Identifier: Apache-2.0
// Opaque handles for the C API. A handle is a number dressed as a pointer: a
// slot, a generation and a kind, at an address no object can have. So a stale,
// foreign or mistyped handle is recognised, and never dereferenced.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_base.h"

namespace flashacl::acl {

enum class HandleKind : uint8_t {
  kContext,
  kStream,
  kEvent,
  kTensor,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kTensorList,
  kScalarList,
  kExecutor,
  kDataBuffer,
  kPhysicalMemory,
  kGraph,
  kTaskGroup,
  kCondition,
  kTensorDesc,
  kAttributes,
  kDataItem,
  kDataset,
  kGraphDumpOption,
  kNotify,
  kProfileConfig,
  kStamp,
  kStepInfo,
  kLabel,
  kLabelList,
  kCount
};

inline constexpr int kHandleKinds = static_cast<int>(HandleKind::kCount);

// "stream", "tensor list", ...
std::string_view Name(HandleKind kind);

enum class HandleState : uint8_t {
  kForeign,  // never one of ours, or of another kind
  kLive,
  kStale,    // was live, is destroyed
  kParents,  // of the process that forked this one
};

// Handles are never reused: a slot that is given out again has a new
// generation. All functions are thread-safe.
void* NewHandle(HandleKind kind, std::shared_ptr<void> object);
std::shared_ptr<void> FindHandle(HandleKind kind, const void* handle);

// Like FindHandle, and the handle is stale afterwards.
std::shared_ptr<void> TakeHandle(HandleKind kind, const void* handle);

HandleState StateOf(HandleKind kind, const void* handle);

// What a message says it expected where `handle` is no live one: "a stream that
// is not destroyed", or what to do after fork().
std::string ExpectedInsteadOf(HandleKind kind, const void* handle);

// Queues the message and returns 107000 of a runtime function whose argument
// `parameter` is no live handle of `kind`.
aclError FailStale(HandleKind kind, std::string_view function,
                   std::string_view parameter, const void* handle);

// What a message adds of a handle that is not live: what to do if it is one of
// the process that forked this one, else nothing.
std::string_view IfParents(HandleKind kind, const void* handle);

// How many handles of each kind are live.
std::array<int64_t, kHandleKinds> LiveHandles();

// Strict mode knows where those were made: the first few, in lines of their
// own.
std::string LeakedHandles();

// For a type with a `static constexpr HandleKind kHandleKind`.
template <typename T>
void* NewHandle(std::shared_ptr<T> object) {
  return NewHandle(T::kHandleKind, std::move(object));
}

template <typename T>
std::shared_ptr<T> Find(const void* handle) {
  return std::static_pointer_cast<T>(FindHandle(T::kHandleKind, handle));
}

template <typename T>
std::string_view IfParents(const void* handle) {
  return IfParents(T::kHandleKind, handle);
}

template <typename T>
std::shared_ptr<T> Take(const void* handle) {
  return std::static_pointer_cast<T>(TakeHandle(T::kHandleKind, handle));
}

}  // namespace flashacl::acl
