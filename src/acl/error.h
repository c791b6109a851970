// SPDX-License-Identifier: Apache-2.0
// How failures leave through the C API: as a number, with a message queued for
// aclGetRecentErrMsg. Exceptions end here, too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_base.h"
#include "acl/profile/span.h"
#include "base/contain.h"
#include "base/status.h"

namespace flashacl::acl {

// The heading of a message.
enum class Title : uint8_t {
  kNullPointer,      // EH0008
  kInvalidArgument,  // EH0007: a value, and what was expected
  kReason,           // EH0009: a value, and why it will not do
  kNotSupported,     // EH0006
  kFile,             // EH0004
  kCallSequence,     // EE1018
  kStreamContext,    // EE1010
  kTimeout,          // EE1002
  kRuntime,          // EE9999: resources, tasks and the machine
  kAclnnParameter,   // EZ1001
  kAclnnRuntime,     // EZ9903
  kAclnnInner,       // EZ9999
};

// Queues `text` for the calling thread (or the process, if aclInit's file asked
// for that) and returns `code`. A runtime code (107xxx, 207xxx, 507xxx) also
// becomes the thread's last error.
aclError Fail(aclError code, Title title, std::string text) noexcept;

// The same without allocating, for texts that live forever; `subject`, if any,
// comes first.
aclError FailFixed(aclError code, Title title, const char* text,
                   std::string_view subject = {}) noexcept;

// 100000, "<function> failed because <parameter> cannot be a NULL pointer."
aclError FailNull(std::string_view function, std::string_view parameter);

// "<function> failed because value <value> for parameter <parameter> is
// invalid. Expected value: <expected>."
aclError FailValue(aclError code, std::string_view function,
                   std::string_view parameter, std::string value,
                   std::string_view expected);

// Queues the status's message under the number its code stands for, and returns
// that number: 161001, 161002, 361001, 561000, or `contradiction_status`.
int32_t FailStatus(int32_t contradiction_status, const Status& status) noexcept;

// What went wrong. Its text needs no memory where there may be none: it is
// either `text` or "subject: fixed (code)".
struct Failure {
  aclError code = 0;
  Title title = Title::kRuntime;
  std::string text;
  const char* fixed = nullptr;
  std::string_view subject;

  std::string Text() const;
};

// Queues somebody else's failure for the calling thread, without allocating.
aclError Fail(std::shared_ptr<const Failure> failure) noexcept;

// From now on, messages of the calling thread stay with it, whatever aclInit's
// file says. For threads of ours, whose failures others must report.
void KeepMessagesOnThisThread();

// Empties the calling thread's own messages into `*failure`: the newest text,
// under `code`. Does not allocate.
void TakeFailure(aclError code, Failure* failure) noexcept;

// Where messages go that are not kept: to the thread, or to the process.
void SetProcessMessages(bool process);

// What aclGetRecentErrMsg returns; null when there is no message. Where there
// is no memory for all of them, the newest text alone.
const char* TakeMessages() noexcept;

// The text of the newest of them, which stays; "" if there is none.
std::string NewestMessage();

// The calling thread's last runtime code; Take also clears it.
aclError PeekLastError();
aclError TakeLastError();

// Around every aclrt function and every task: body() -> aclError. `subject`
// lives forever; messages begin with it. `caller` is in the timeline if it is a
// function of the C API.
template <typename F>
aclError GuardRuntime(F&& body, std::string_view subject = {},
                      const char* caller = __builtin_FUNCTION()) noexcept {
  const profile::Span span(profile::Kind::kCall, caller);
  return span.Returned(
      Contain(std::forward<F>(body), [&](bool no_memory) -> aclError {
        return no_memory ? FailFixed(207001, Title::kRuntime,
                                     "out of host memory", subject)
                         : FailFixed(500000, Title::kRuntime, "internal error",
                                     subject);
      }));
}

// Around every aclnn function: body() -> Status. `contradiction_status` is what
// the operator documents for arguments that do not fit together; `caller` as
// that of GuardRuntime.
template <typename F>
int32_t Guard(int32_t contradiction_status, F&& body,
              const char* caller = __builtin_FUNCTION()) noexcept {
  const profile::Span span(profile::Kind::kCall, caller);
  return span.Returned(Contain(
      [&]() -> int32_t {
        return FailStatus(contradiction_status, std::forward<F>(body)());
      },
      [](bool no_memory) -> int32_t {
        return no_memory
                   ? FailFixed(361001, Title::kAclnnRuntime,
                               "out of host memory")
                   : FailFixed(561000, Title::kAclnnInner, "internal error");
      }));
}

}  // namespace flashacl::acl
