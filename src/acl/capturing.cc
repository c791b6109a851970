// SPDX-License-Identifier: Apache-2.0
#include "acl/capturing.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/stream.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

constexpr int kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
constexpr int kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
constexpr int kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
constexpr int kNone = kRelaxed + 1;  // the smaller the stricter

thread_local int this_threads_mode = kGlobal;

// Never used twice, as the system's numbers may be.
uint64_t ThisThreadsNumber() {
  static std::atomic<uint64_t> next{1};
  static thread_local const uint64_t number = next.fetch_add(1);
  return number;
}

}  // namespace

struct ActiveCaptures {
  std::atomic<int> count{0};
  std::mutex mutex;
  std::vector<const ActiveCapture*> all;  // under mutex

  // The strictest mode of the context's captures, and of those among them that
  // the calling thread began; kNone where there is none.
  // *stream_id is one of a stream with the strictest mode.
  void Strictest(const Context* context, int* of_all, int* of_thread,
                 int32_t* stream_id) {
    *of_all = *of_thread = kNone;
    std::lock_guard lock(mutex);
    for (const ActiveCapture* one : all) {
      if (one->context_ != context) continue;
      if (one->mode_ < *of_all) {
        *of_all = one->mode_;
        *stream_id = one->stream_id_;
      }
      if (one->IsOfThisThread()) *of_thread = std::min(*of_thread, one->mode_);
    }
  }
};

namespace {

ActiveCaptures& All() {
  static PerProcess<ActiveCaptures> captures;
  return *captures;
}

// Whether the calling thread may wait for memory that a capture may use.
bool Allowed(int32_t* stream_id) {
  if (!AnyCapture()) return true;
  const std::shared_ptr<Context> context = CurrentContext();
  int of_all = kNone;
  int of_thread = kNone;
  All().Strictest(context.get(), &of_all, &of_thread, stream_id);
  if (of_all == kNone || this_threads_mode == kRelaxed) return true;
  if (this_threads_mode == kGlobal) {
    return of_all != kGlobal && of_thread != kThreadLocal;
  }
  return of_thread != kGlobal && of_thread != kThreadLocal;
}

aclError Forbid(aclError code, std::string_view function, int32_t stream_id) {
  return Fail(
      code, Title::kCallSequence,
      Str("{} failed because stream {} is being captured in a mode that "
          "forbids calls which wait. Exchange the thread's mode by "
          "aclmdlRICaptureThreadExchangeMode, or capture with "
          "ACL_MODEL_RI_CAPTURE_MODE_RELAXED.",
          function, stream_id));
}

}  // namespace

ActiveCapture::ActiveCapture(const Context& context, int mode,
                             int32_t stream_id)
    : context_(&context),
      mode_(mode),
      stream_id_(stream_id),
      thread_(ThisThreadsNumber()) {
  ActiveCaptures& captures = All();
  std::lock_guard lock(captures.mutex);
  captures.all.push_back(this);
  captures.count.fetch_add(1);
}

ActiveCapture::~ActiveCapture() {
  ActiveCaptures& captures = All();
  std::lock_guard lock(captures.mutex);
  captures.count.fetch_sub(static_cast<int>(std::erase(captures.all, this)));
}

bool ActiveCapture::IsOfThisThread() const {
  return thread_ == ThisThreadsNumber();
}

bool AnyCapture() { return All().count.load(std::memory_order_acquire) != 0; }

aclError RequireNoCaptureIn(const Context& context, std::string_view function) {
  if (!AnyCapture()) return ACL_SUCCESS;
  int of_all = kNone;
  int of_thread = kNone;
  int32_t stream_id = 0;
  All().Strictest(&context, &of_all, &of_thread, &stream_id);
  if (of_all == kNone) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_CAPTURED, Title::kCallSequence,
              Str("{} failed because stream {} of the context is being "
                  "captured.",
                  function, stream_id));
}

int ExchangeCaptureMode(int mode) {
  const int before = this_threads_mode;
  this_threads_mode = mode;
  return before;
}

aclError RequireSynchronousAllowed(std::string_view function) {
  int32_t stream_id = 0;
  if (Allowed(&stream_id)) return ACL_SUCCESS;
  return Forbid(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, function, stream_id);
}

aclError RequirePageableAllowed(std::string_view function) {
  int32_t stream_id = 0;
  if (Allowed(&stream_id)) return ACL_SUCCESS;
  return Forbid(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, function, stream_id);
}

bool Stream::capturing() const {
  const auto by = recorder();
  return by != nullptr && by->captures();
}

bool Stream::bound() const {
  const auto by = recorder();
  return by != nullptr && by->kind() == RecorderKind::kBuild;
}

aclError RequireNotBound(const Stream& stream, std::string_view function) {
  if (!stream.bound()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because stream {} is bound to a graph. Call "
                  "aclmdlRIUnbindStream or aclmdlRIDestroy first.",
                  function, stream.id()));
}

aclError FailUnbound(const Stream& stream, std::string_view function) {
  return Fail(
      ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
      Str("{} failed because stream {}, of ACL_STREAM_PERSISTENT, takes "
          "tasks only while it is bound to a graph that is being "
          "built.",
          function, stream.id()));
}

aclError RequireNotCapturing(const Stream& stream, std::string_view function) {
  if (!stream.capturing()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_CAPTURED, Title::kCallSequence,
              Str("{} failed because stream {} is being captured.", function,
                  stream.id()));
}

}  // namespace flashacl::acl
