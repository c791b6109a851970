// SPDX-License-Identifier: Apache-2.0
// Submitting to a stream, and by its handle.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/device_fault.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/stream.h"
#include "base/fork.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

uint32_t ThreadId() {
  static thread_local uint32_t id = 0;
  static thread_local uint32_t process = 0;  // a forked child has another id
  if (id == 0 || process != ForkGeneration()) {
    id = static_cast<uint32_t>(syscall(SYS_gettid));
    process = ForkGeneration();
  }
  return id;
}

}  // namespace

std::shared_ptr<Recorder> Stream::recorder() const {
  if (!recorded_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  return recorder_;
}

bool Stream::ReplaceRecorder(const Recorder* expected,
                             std::shared_ptr<Recorder> next) {
  std::lock_guard lock(mutex_);
  if (recorder_.get() != expected || (destroyed_ && next != nullptr)) {
    return false;
  }
  recorder_.swap(next);  // the old one goes without the lock
  recorded_.store(recorder_ != nullptr, std::memory_order_release);
  return true;
}

aclError Stream::Push(Task task, std::string_view function, TaskKind kind,
                      uint64_t* number) {
  if (recorded_.load(std::memory_order_acquire)) {
    Submission submission{std::move(task), function, kind};
    aclError error = ACL_SUCCESS;
    // One that ends meanwhile is followed by none, or by another.
    while (const auto by = recorder()) {
      if (by->Take(*this, submission, &error)) return error;
    }
    task = std::move(submission.task);
  }
  return PushPastRecorder(std::move(task), function, kind, number);
}

aclError Stream::PushPastRecorder(Task task, std::string_view function,
                                  TaskKind kind, uint64_t* number) {
  if (persistent()) return FailUnbound(*this, function);
  bool wake = false;
  auto failure = std::make_shared<StreamFailure>();
  auto known = Known();
  {
    std::lock_guard lock(mutex_);
    if (destroyed_) {
      return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                  Str("{} failed because the stream is destroyed.", function));
    }
    // With the lock held: an abort either drops the task, or is seen here.
    if (DeviceIsAborted(device_)) return FailAborted(function, device_);
    if (!has_thread_) {
      if (const int error = StartThread(); error != 0) {
        return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                    Str("{} failed because the thread of the stream cannot be "
                        "started: {}. Look at the limit of threads (ulimit -u, "
                        "pids.max of the container) and of memory.",
                        function, std::strerror(error)));
      }
      has_thread_ = true;
    }
    const uint64_t next = pushed_.load(std::memory_order_relaxed) + 1;
    profile::Submitted(id_, next);
    queue_.push_back({std::move(task), next, kind, ThreadId(), function,
                      std::move(failure), std::move(known)});
    pushed_.store(next, std::memory_order_release);
    if (number != nullptr) *number = next;
    wake = sleeping_;
  }
  if (wake) WakeThread();
  return ACL_SUCCESS;
}

std::shared_ptr<Stream> FindStream(aclrtStream stream,
                                   std::string_view function, aclError* error) {
  if (stream == nullptr) {
    const std::shared_ptr<Context> context = CurrentContext();
    if (context != nullptr) return context->default_stream();
    *error = RequireContext(function);
    return nullptr;
  }
  std::shared_ptr<Stream> found = Find<Stream>(stream);
  if (found == nullptr) {
    *error = FailStale(HandleKind::kStream, function, "stream", stream);
  }
  return found;
}

aclError Enqueue(aclrtStream stream, Task task, std::string_view function,
                 TaskKind kind) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  return found->Push(std::move(task), function, kind);
}

aclError EnqueueAndWait(aclrtStream stream, Task task,
                        std::string_view function) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  uint64_t number = 0;
  if (found->capturing() || found->bound()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because it uses host memory that is not pinned, "
                    "and work on stream {} is recorded in a graph. Use memory "
                    "of aclrtMallocHost.",
                    function, found->id()));
  }
  error = RequirePageableAllowed(function);
  if (error != ACL_SUCCESS) return error;
  error = found->Push(std::move(task), function, TaskKind::kDevice, &number);
  if (error != ACL_SUCCESS) return error;
  return found->WaitFor(number, std::nullopt, function);
}

}  // namespace flashacl::acl
