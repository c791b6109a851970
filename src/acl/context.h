// SPDX-License-Identifier: Apache-2.0
// Contexts: a device, a default stream, and the streams created in it. Each
// thread has at most one current context.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "acl/acl_base.h"
#include "acl/handle.h"
#include "acl/latch.h"

namespace flashacl::acl {

class Stream;

class Context : public std::enable_shared_from_this<Context> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kContext;

  // Also makes the default stream. The default context of a device (that of
  // aclrtSetDevice) is its owner's to destroy. Null if there are no handles
  // left.
  static std::shared_ptr<Context> Create(int device, bool is_default);

  void* handle() const { return handle_; }
  int device() const { return device_; }
  bool is_default() const { return is_default_; }
  const std::shared_ptr<Stream>& default_stream() const {
    return default_stream_;
  }

  // The streams created in this context that are not destroyed, the default
  // stream first.
  std::vector<std::shared_ptr<Stream>> Streams();

  // A new one of the context. Null if the device has as many as it may have.
  std::shared_ptr<Stream> CreateStream(uint32_t flags);
  void Forget(const Stream* stream);

  // `end` is called when the context is destroyed, unless it is disowned first.
  // False if it is destroyed already.
  bool Own(const void* owned, std::function<void()> end);
  void Disown(const void* owned);

  // Makes the handles of the context and its streams stale, after their tasks.
  // Only the first call does anything, and is told so by true.
  bool Destroy();

  // aclrtCtxSetSysParamOpt's values, under `mutex`.
  std::mutex mutex;
  std::array<std::optional<int64_t>, 3> system_parameters;

 private:
  Context(int device, bool is_default)
      : device_(device), is_default_(is_default) {}

  const int device_;
  const bool is_default_;
  void* handle_ = nullptr;
  std::shared_ptr<Stream> default_stream_;
  std::vector<std::shared_ptr<Stream>> streams_;        // under `mutex`
  std::map<const void*, std::function<void()>> owned_;  // under `mutex`
  bool destroyed_ = false;                              // under `mutex`
};

// Null when the calling thread has none, or when it was destroyed.
std::shared_ptr<Context> CurrentContext();
void SetCurrent(const Context* context);  // null: none

// 0, or 107002 with a message.
aclError RequireContext(std::string_view function);

// Waits for all streams of `context`; the first failure among them.
aclError SynchronizeContext(Context& context, Deadline deadline,
                            std::string_view function);

}  // namespace flashacl::acl
