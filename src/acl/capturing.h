// SPDX-License-Identifier: Apache-2.0
// Which captures are under way, and what their modes forbid to the memory calls
// of other threads. With none, each question costs one load.
#pragma once

#include <memory>
#include <string_view>

#include "acl/acl_rt.h"

namespace flashacl::acl {

class Context;
class Stream;

// A capture that its owner has begun, until this goes.
class ActiveCapture {
 public:
  ActiveCapture(const Context& context, int mode, int32_t stream_id);
  ~ActiveCapture();
  ActiveCapture(const ActiveCapture&) = delete;
  ActiveCapture& operator=(const ActiveCapture&) = delete;

  bool IsOfThisThread() const;
  int mode() const { return mode_; }

 private:
  friend struct ActiveCaptures;
  const Context* const context_;  // only compared
  const int mode_;
  const int32_t stream_id_;  // for messages
  const uint64_t thread_;
};

bool AnyCapture();

// 0, or 107027 while a stream of `context` is captured.
aclError RequireNoCaptureIn(const Context& context, std::string_view function);

// The calling thread's mode becomes `mode`, from 0 to 2; the one before it.
int ExchangeCaptureMode(int mode);

// 0, or 107030 for a call that copies or fills at once, and 107041 for one that
// waits because host memory is not pinned: a capture in the current context
// forbids such calls, and the calling thread's mode does not free it.
aclError RequireSynchronousAllowed(std::string_view function);
aclError RequirePageableAllowed(std::string_view function);

// 107005: a persistent stream is given what no graph takes.
aclError FailUnbound(const Stream& stream, std::string_view function);

}  // namespace flashacl::acl
