// SPDX-License-Identifier: Apache-2.0
// How failures leave through the C API: as a number, with a message queued for
// aclGetRecentErrMsg. Also the one place where exceptions end.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_base.h"
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

// The same without allocating, for `text` that lives forever.
aclError FailFixed(aclError code, Title title, const char* text) noexcept;

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

// What a task on a stream left behind, kept until someone synchronises.
struct Failure {
  aclError code = 0;
  Title title = Title::kRuntime;
  std::string text;
};

// From now on, messages of the calling thread stay with it, whatever aclInit's
// file says. For threads of ours, whose failures others must report.
void KeepMessagesOnThisThread();

// Empties the calling thread's own messages into one failure: the newest text,
// under `code`.
Failure TakeFailure(aclError code);

// Where messages go that are not kept: to the thread, or to the process.
void SetProcessMessages(bool process);

// What aclGetRecentErrMsg returns; null when there is no message.
const char* TakeMessages();

// The calling thread's last runtime code; Take also clears it.
aclError PeekLastError();
aclError TakeLastError();

// Runs `body`, and `failed` if an exception comes out of it, with whether that
// says there is no memory. The only catch in src/.
template <typename F, typename G>
auto Contain(F&& body, G&& failed) noexcept -> decltype(body()) {
  try {
    return std::forward<F>(body)();
  } catch (const std::bad_alloc&) {
    return failed(true);
  } catch (...) {
    return failed(false);
  }
}

// Around every aclrt function: body() -> aclError.
template <typename F>
aclError GuardRuntime(F&& body) noexcept {
  return Contain(std::forward<F>(body), [](bool no_memory) -> aclError {
    return no_memory ? FailFixed(207001, Title::kRuntime, "out of host memory")
                     : FailFixed(500000, Title::kRuntime, "internal error");
  });
}

// Around every aclnn function: body() -> Status. `contradiction_status` is what
// the operator documents for arguments that do not fit together.
template <typename F>
int32_t Guard(int32_t contradiction_status, F&& body) noexcept {
  return Contain(
      [&]() -> int32_t {
        return FailStatus(contradiction_status, std::forward<F>(body)());
      },
      [](bool no_memory) -> int32_t {
        return no_memory
                   ? FailFixed(361001, Title::kAclnnRuntime,
                               "out of host memory")
                   : FailFixed(561000, Title::kAclnnInner, "internal error");
      });
}

}  // namespace flashacl::acl
