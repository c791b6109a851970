// SPDX-License-Identifier: Apache-2.0
#include "acl/context.h"

#include <algorithm>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

// A handle, so that a context destroyed by another thread is noticed.
thread_local void* current = nullptr;

aclError FailContext(std::string_view function, const void* context) {
  return FailStale(HandleKind::kContext, function, "context", context);
}

aclError CreateContext(aclrtContext* context, int32_t device) {
  constexpr std::string_view kName = "aclrtCreateContext";
  if (context == nullptr) return FailNull(kName, "context");
  if (aclError error = RequireDevice(kName, device)) return error;
  const std::shared_ptr<Context> made = Context::Create(device, false);
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                "aclrtCreateContext failed because there are no handles left.");
  }
  SetCurrent(made.get());
  *context = made->handle();
  return ACL_SUCCESS;
}

aclError DestroyContext(aclrtContext context) {
  constexpr std::string_view kName = "aclrtDestroyContext";
  if (context == nullptr) return FailNull(kName, "context");
  const std::shared_ptr<Context> found = Find<Context>(context);
  if (found == nullptr) return FailContext(kName, context);
  if (found->is_default()) {
    return Fail(ACL_ERROR_RT_CONTEXT_NULL, Title::kReason,
                "aclrtDestroyContext failed because the default context is "
                "destroyed by aclrtResetDevice only.");
  }
  return found->Destroy() ? ACL_SUCCESS : FailContext(kName, context);
}

}  // namespace

std::shared_ptr<Context> Context::Create(int device, bool is_default) {
  std::shared_ptr<Context> context(new Context(device, is_default));
  context->streams_.reserve(1);  // what follows cannot throw in between
  context->handle_ = NewHandle(context);
  if (context->handle_ == nullptr) return nullptr;
  // What has a handle lives until it is destroyed.
  struct Unfinished {
    Context* context;
    ~Unfinished() {
      if (context != nullptr) context->Destroy();
    }
  } unfinished{context.get()};
  context->default_stream_ = Stream::Create(context, 0, true);
  if (context->default_stream_ == nullptr) return nullptr;
  context->streams_.push_back(context->default_stream_);
  unfinished.context = nullptr;
  return context;
}

std::vector<std::shared_ptr<Stream>> Context::Streams() {
  std::lock_guard lock(mutex);
  return streams_;
}

std::shared_ptr<Stream> Context::CreateStream(uint32_t flags) {
  std::lock_guard lock(mutex);
  // The room first: a stream that nobody knows would never be destroyed.
  if (streams_.size() == streams_.capacity()) {
    streams_.reserve(2 * streams_.size() + 1);
  }
  auto stream = Stream::Create(shared_from_this(), flags, false);
  if (stream != nullptr) streams_.push_back(stream);
  return stream;
}

void Context::Forget(const Stream* stream) {
  std::lock_guard lock(mutex);
  std::erase_if(streams_, [&](const auto& s) { return s.get() == stream; });
}

bool Context::Own(const void* owned, std::function<void()> end) {
  std::lock_guard lock(mutex);
  return !destroyed_ && owned_.emplace(owned, std::move(end)).second;
}

void Context::Disown(const void* owned) {
  std::function<void()> end;  // goes without the lock
  std::lock_guard lock(mutex);
  const auto found = owned_.find(owned);
  if (found == owned_.end()) return;
  end.swap(found->second);
  owned_.erase(found);
}

bool Context::Destroy() {
  if (Take<Context>(handle_) == nullptr) return false;
  std::vector<std::shared_ptr<Stream>> streams;
  std::map<const void*, std::function<void()>> owned;
  {
    std::lock_guard lock(mutex);
    streams.swap(streams_);
    owned.swap(owned_);
    destroyed_ = true;
  }
  for (const auto& [object, end] : owned) end();
  for (const std::shared_ptr<Stream>& stream : streams) stream->Destroy(false);
  return true;
}

std::shared_ptr<Context> CurrentContext() {
  if (current != nullptr) {
    if (auto context = Find<Context>(current)) return context;
    current = nullptr;
  }
  return DefaultDeviceContext();
}

void SetCurrent(const Context* context) {
  current = context == nullptr ? nullptr : context->handle();
}

aclError RequireContext(std::string_view function) {
  if (CurrentContext() != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_CONTEXT_NULL, Title::kCallSequence,
              Str("{} failed because the thread has no current context. Call "
                  "aclrtSetDevice or aclrtSetCurrentContext first.",
                  function));
}

aclError SynchronizeContext(Context& context, Deadline deadline,
                            std::string_view function) {
  aclError first = ACL_SUCCESS;
  for (const std::shared_ptr<Stream>& stream : context.Streams()) {
    const aclError error = stream->Synchronize(deadline, function);
    if (first == ACL_SUCCESS) first = error;
  }
  return first;
}

}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return a::GuardRuntime([&] { return a::CreateContext(context, deviceId); });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return a::GuardRuntime([&] { return a::DestroyContext(context); });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtSetCurrentContext";
    if (context == nullptr) return a::FailNull(kName, "context");
    const auto found = a::Find<a::Context>(context);
    if (found == nullptr) return a::FailContext(kName, context);
    a::SetCurrent(found.get());
    return ACL_SUCCESS;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtGetCurrentContext";
    if (context == nullptr) return a::FailNull(kName, "context");
    const auto found = a::CurrentContext();
    if (found == nullptr) return a::RequireContext(kName);
    *context = found->handle();
    return ACL_SUCCESS;
  });
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtCtxGetCurrentDefaultStream";
    if (stream == nullptr) return a::FailNull(kName, "stream");
    const auto found = a::CurrentContext();
    if (found == nullptr) return a::RequireContext(kName);
    *stream = found->default_stream()->handle();
    return ACL_SUCCESS;
  });
}

}  // extern "C"
