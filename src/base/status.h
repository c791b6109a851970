// SPDX-License-Identifier: Apache-2.0
// How our functions fail: a Status says why in the caller's words, a Result is
// a value or the Status that explains its absence. Success costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/str.h"

namespace flashacl {

enum class Code : uint8_t {
  kOk,
  kNullArgument,     // a required pointer is null
  kInvalidArgument,  // an argument is outside of what it may be
  kContradiction,    // each argument is fine, but they do not fit together
  kUnsupported,      // meaningful, but no implementation takes it
  kOutOfMemory,
  kRuntime,   // the machine or the runtime failed
  kInternal,  // our mistake
};

std::string_view Name(Code code);

// Success is a null pointer. A message names the argument as the caller spells
// it, gives the value and what was expected; lower case, no full stop.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : error_(std::make_shared<const Error>(Error{code, std::move(message)})) {
  }

  bool ok() const { return error_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  const std::string& message() const;

 private:
  struct Error {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only when ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

template <typename... Args>
Status NullArgument(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kNullArgument, Str(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kInvalidArgument, Str(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Status Contradiction(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kContradiction, Str(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Status Unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kUnsupported, Str(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Status RuntimeFailure(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kRuntime, Str(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kInternal, Str(format, std::forward<Args>(args)...)};
}

}  // namespace flashacl

// Leaves the function with the status of `expression` if that is an error.
#define FLASHACL_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    if (::flashacl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                               \
    }                                                               \
  } while (false)
