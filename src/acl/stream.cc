// SPDX-License-Identifier: Apache-2.0
#include "acl/stream.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <utility>

#include "acl/backend.h"
#include "acl/callback.h"
#include "acl/context.h"
#include "acl/device.h"
#include "acl/device_fault.h"
#include "acl/environment.h"
#include "acl/exception.h"
#include "acl/memcheck.h"
#include "acl/trace.h"
#include "base/check.h"
#include "base/contain.h"
#include "base/float_environment.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/thread.h"
#include "base/tsan.h"

namespace flashacl::acl {
namespace {

constexpr int kStreamsPerDevice = 1984;

// What all streams share.
struct Shared {
  std::array<std::atomic<int>, kMaxDevices> explicit_streams{};
  std::atomic<int32_t> next_id{0};
  std::atomic<bool> held{false};
  std::atomic<int> busy{0};  // tasks that run and do not wait for others
  std::mutex mutex;
  std::vector<Stream*> streams;  // under mutex
};

Shared& TheShared() {
  static PerProcess<Shared> shared;
  return *shared;
}

thread_local Stream* this_threads_stream = nullptr;

void HoldAtExit() {
  static constinit Once registered;
  registered.Do([] {
    std::atexit([] { HoldStreams(std::chrono::milliseconds(1000)); });
  });
}

}  // namespace

std::vector<std::shared_ptr<Stream>> AllStreams() {
  std::vector<std::shared_ptr<Stream>> all;
  std::lock_guard lock(TheShared().mutex);
  // First: nothing may throw while this may be a stream's last owner, which
  // would take the lock again.
  all.reserve(TheShared().streams.size());
  for (Stream* stream : TheShared().streams) {
    // Null for a stream whose last owner is just letting go of it.
    if (auto owned = stream->weak_from_this().lock()) {
      all.push_back(std::move(owned));
    }
  }
  return all;
}

Stream::Stream(const std::shared_ptr<Context>& context, uint32_t flags,
               bool is_default)
    : context_(context),
      device_(context->device()),
      flags_(flags),
      is_default_(is_default),
      id_(TheShared().next_id.fetch_add(1)) {}

std::shared_ptr<Stream> Stream::Create(const std::shared_ptr<Context>& context,
                                       uint32_t flags, bool is_default) {
  Shared& shared = TheShared();
  std::shared_ptr<Stream> stream(new Stream(context, flags, is_default));
  {
    std::lock_guard lock(shared.mutex);
    shared.streams.push_back(stream.get());
  }
  stream->handle_ = NewHandle(stream);
  if (stream->handle_ == nullptr || is_default) {
    return stream->handle_ == nullptr ? nullptr : stream;
  }
  // Counted last, as all else may throw.
  std::atomic<int>& count =
      shared.explicit_streams[static_cast<size_t>(context->device())];
  if (count.fetch_add(1) < kStreamsPerDevice) return stream;
  stream->GiveBack();
  Take<Stream>(stream->handle_);
  return nullptr;
}

void Stream::GiveBack() {
  if (is_default_) return;
  TheShared().explicit_streams[static_cast<size_t>(device_)].fetch_sub(1);
}

Stream::~Stream() {
  TsanAcquire(this);  // after whatever the count of owners orders before
  Shared& shared = TheShared();
  std::lock_guard lock(shared.mutex);
  std::erase(shared.streams, this);
}

bool Stream::IsThisThread() const { return this_threads_stream == this; }

int Stream::StartThread() {
  HoldAtExit();
  backend_queue_ = TheBackend().make_queue();
  auto owner = std::make_unique<std::shared_ptr<Stream>>(shared_from_this());
  const int error = StartDetached(&Stream::RunThread, owner.get());
  if (error == 0) owner.release();
  return error;
}

void* Stream::RunThread(void* stream) {
  std::unique_ptr<std::shared_ptr<Stream>> owner(
      static_cast<std::shared_ptr<Stream>*>(stream));
  pthread_setname_np(pthread_self(), "acl stream");
  KeepMessagesOnThisThread();
  this_threads_stream = owner->get();
  profile::SetStreamOfThisThread((*owner)->id(), (*owner)->device());
  SetCurrent((*owner)->context().get());
  (*owner)->Run();
  TsanRelease(owner->get());
  return nullptr;
}

void Stream::Run() {
  const uint32_t generation = ForkGeneration();
  Entry entry;
  while (Next(&entry)) {
    // A child that a task of the program forked: the stream is its parent's,
    // and this, its only thread, has nothing more to do.
    if (!RunOne(entry, generation)) return;
  }
}

bool Stream::Next(Entry* entry) {
  SpinUntil([this] {
    return pushed_.load(std::memory_order_acquire) !=
               finished_.load(std::memory_order_relaxed) &&
           !here_.load(std::memory_order_relaxed);
  });
  Shared& shared = TheShared();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!queue_.empty() && !here_.load()) {
      // Busy before the look at `held`, which HoldStreams sets before it looks
      // at `busy`: no task can start behind its back.
      shared.busy.fetch_add(1);
      if (!shared.held.load()) break;
      shared.busy.fetch_sub(1);
    } else if (ending_ && queue_.empty()) {
      return false;
    }
    sleeping_ = true;
    work_.wait(lock);
    sleeping_ = false;
  }
  *entry = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Stream::WakeThread() {
  work_.notify_one();
  TsanRelease(this);
}

void Stream::TellWaiters() {
  progress_.notify_all();
  TsanRelease(this);
}

bool Stream::skips() const {
  if (attributes.failure_mode.load() != ACL_STOP_ON_FAILURE) return false;
  std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

bool Stream::RunOne(Entry& entry, uint32_t generation) {
  if (AlwaysRuns(entry.kind) || !skips()) {
    BeginTask(id_, entry.number, entry.known);
    const auto run = [&] {
      const profile::Span span(profile::Kind::kRun, entry.function, id_,
                               entry.number);
      return span.Returned(entry.task());
    };
    const aclError code = GuardRuntime(run, entry.function);
    if (ForkGeneration() != generation) return false;
    if (code != ACL_SUCCESS) Fault(entry, code);
  }
  // What the task held is free before anyone learns that it is done.
  entry.task = nullptr;
  TheShared().busy.fetch_sub(1);
  Finish(entry.number);
  return true;
}

void Stream::Finish(uint64_t number) {
  TsanRelease(&finished_);
  // What ends an abort has the number of an older task, after which a submitter
  // may have gone on.
  uint64_t before = finished_.load();
  while (before < number && !finished_.compare_exchange_weak(before, number)) {
  }
  if (waiters_.load() > 0) {
    { std::lock_guard lock(mutex_); }
    TellWaiters();
  }
}

bool Stream::RunHere(FunctionRef<Status(Queue&)> work) {
  const uint64_t number = BeginHere();
  if (number == 0) return false;
  const bool done = Contain(
      [&] {
        const DefaultFloats as_on_its_thread;
        return work(*backend_queue_).ok();
      },
      [](bool) { return false; });
  EndHere(number);
  return done;
}

uint64_t Stream::BeginHere() {
  std::lock_guard lock(mutex_);
  // Its thread is there to run what others submit meanwhile.
  if (!has_thread_ || destroyed_ || recorder_ != nullptr || !queue_.empty() ||
      failure_ != nullptr || !Idle() || DeviceIsAborted(device_)) {
    return 0;
  }
  Shared& shared = TheShared();
  shared.busy.fetch_add(1);  // before the look at `held`, as in Next
  if (shared.held.load()) {
    shared.busy.fetch_sub(1);
    return 0;
  }
  here_.store(true);
  return pushed_.fetch_add(1) + 1;
}

void Stream::EndHere(uint64_t number) {
  TheShared().busy.fetch_sub(1);
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    here_.store(false);
    wake = sleeping_ && !queue_.empty();
  }
  Finish(number);
  if (wake) WakeThread();
}

// Allocates nothing: the failure may be that there is no memory.
void Stream::Fault(Entry& entry, aclError code) {
  TakeFailure(code, entry.failure.get());
  {
    std::lock_guard lock(mutex_);
    // An abort forgets failures; that of the task which it ends comes later.
    const bool free = failure_ == nullptr || failure_->reported.load();
    if (free && !aborting()) failure_ = std::move(entry.failure);
  }
  const bool of_replay = TakeDeviceFault();
  if (AlwaysRuns(entry.kind) && !of_replay) return;
  NoteFault(device_);
  (void)GuardRuntime([&] {  // it is the program's
    CallExceptionCallback({static_cast<uint32_t>(entry.number),
                           static_cast<uint32_t>(id_), entry.thread,
                           static_cast<uint32_t>(device_),
                           static_cast<uint32_t>(code)});
    return ACL_SUCCESS;
  });
}

bool Stream::Idle() const {
  if (finished_.load() != pushed_.load()) return false;
  TsanAcquire(&finished_);
  return true;
}

Stream::Ended Stream::WaitUntil(uint64_t number, Deadline deadline) {
  if (TheShared().held.load()) ReleaseStreams();
  const profile::Span span(profile::Kind::kWait, "wait", id_, number);
  const uint64_t aborts = aborts_.load();
  const auto ended = [&] {
    return finished_.load() >= number || aborts_.load() != aborts;
  };
  if (!SpinUntil(ended)) {
    // Announced before the last look at finished_, which RunOne stores before
    // it looks for waiters: one of the two sees the other.
    waiters_.fetch_add(1);
    std::unique_lock lock(mutex_);
    if (deadline.has_value()) {
      progress_.wait_until(lock, *deadline, ended);
    } else {
      progress_.wait(lock, ended);
    }
    lock.unlock();
    TsanRelease(this);
    waiters_.fetch_sub(1);
  }
  TsanAcquire(&finished_);
  if (aborts_.load() != aborts) return Ended::kAborted;
  return finished_.load() >= number ? Ended::kFinished : Ended::kTimeout;
}

aclError Stream::WaitFor(uint64_t number, Deadline deadline,
                         std::string_view function) {
  if (IsThisThread()) {
    return Fail(ACL_ERROR_RT_STREAM_NOT_COMPLETE, Title::kCallSequence,
                Str("{} failed because a task of stream {} called it, which "
                    "would wait for itself.",
                    function, id_));
  }
  if (RunsCallbackOf(handle_)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because a blocking callback of stream {} called "
                    "it, for whose end the stream waits.",
                    function, id_));
  }
  switch (WaitUntil(number, deadline)) {
    case Ended::kFinished:
      ProgramWaitedFor(id_);
      break;
    case Ended::kTimeout:
      return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, Title::kTimeout,
                  Str("{} failed because stream {} did not finish in time.",
                      function, id_));
    case Ended::kAborted:
      if (DeviceIsAborted(device_)) return FailAborted(function, device_);
      return Fail(
          ACL_ERROR_RT_STREAM_ABORT, Title::kRuntime,
          Str("{} failed because stream {} was aborted.", function, id_));
  }
  return ACL_SUCCESS;
}

aclError Stream::Synchronize(Deadline deadline, std::string_view function) {
  // Its work was dropped: there is nothing to wait for, and no success.
  if (DeviceIsAborted(device_)) return FailAborted(function, device_);
  const aclError waited = WaitFor(pushed_.load(), deadline, function);
  if (waited != ACL_SUCCESS) return waited;
  const aclError failed = Report();
  return failed == ACL_SUCCESS ? FindDamage(function) : failed;
}

std::shared_ptr<StreamFailure> Stream::failure() const {
  std::lock_guard lock(mutex_);
  const bool fresh = failure_ != nullptr && !failure_->reported.load();
  return fresh ? failure_ : nullptr;
}

// A stream that stops on failure reports it every time, until it is aborted:
// what is submitted meanwhile does not run.
aclError Stream::Report() {
  const bool stops = attributes.failure_mode.load() == ACL_STOP_ON_FAILURE;
  std::shared_ptr<StreamFailure> found;
  {
    std::lock_guard lock(mutex_);
    found = failure_;
    if (!stops) failure_ = nullptr;
  }
  if (found == nullptr) return ACL_SUCCESS;
  if (found->reported.exchange(true) && !stops) return ACL_SUCCESS;
  return Fail(found);
}

bool Stream::WaitInTask(Latch& latch, Deadline deadline, bool known) {
  if (latch.open()) {
    TsanAcquire(&latch);
    if (!known) LearnAll();
    return true;
  }
  return WaitInTask([&] { return latch.Wait(deadline, &aborting_); },
                    [&] { latch.Poke(); }, known);
}

bool Stream::WaitInTask(FunctionRef<bool()> wait, FunctionRef<void()> poke,
                        bool known) {
  const profile::Span span(profile::Kind::kWait, "wait");
  Waiting self{poke, nullptr};
  {
    std::lock_guard lock(mutex_);
    self.next = std::exchange(waiting_, &self);
  }
  TheShared().busy.fetch_sub(1);
  const bool ended = wait();
  if (!known) LearnAll();
  TheShared().busy.fetch_add(1);
  std::lock_guard lock(mutex_);
  Waiting** at = &waiting_;
  while (*at != &self) at = &(*at)->next;
  *at = self.next;
  return ended;
}

Stream& ThisStream() {
  FLASHACL_DCHECK(this_threads_stream != nullptr);
  return *this_threads_stream;
}

Queue& QueueOfThisStream() {
  FLASHACL_DCHECK(this_threads_stream != nullptr);
  return this_threads_stream->queue();
}

aclError SynchronizeAll() {
  aclError first = ACL_SUCCESS;
  for (const std::shared_ptr<Stream>& stream : AllStreams()) {
    const aclError error = stream->Synchronize(std::nullopt, "SynchronizeAll");
    if (first == ACL_SUCCESS) first = error;
  }
  return first;
}

uint32_t AvailableStreams(int device) {
  const int used =
      TheShared().explicit_streams[static_cast<size_t>(device)].load();
  return static_cast<uint32_t>(std::max(0, kStreamsPerDevice - used));
}

void HoldStreams(std::chrono::milliseconds patience) {
  Shared& shared = TheShared();
  shared.held.store(true);
  const int own = this_threads_stream != nullptr ? 1 : 0;
  const Clock::time_point end = Clock::now() + patience;
  while (shared.busy.load() > own && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool StreamsAreWatched() {
  return TheEnvironment().strict || Tracing() || profile::IsRecording();
}

void Stream::HoldInTask() {
  Shared& shared = TheShared();
  if (!shared.held.load(std::memory_order_relaxed)) return;
  const auto goes_on = [&] { return !shared.held.load() || aborting(); };
  std::unique_lock lock(mutex_);
  while (!goes_on()) {
    shared.busy.fetch_sub(1);
    work_.wait(lock, goes_on);
    shared.busy.fetch_add(1);  // before the look at `held`, as in Next
  }
}

void ReleaseStreams() {
  if (!TheShared().held.load(std::memory_order_relaxed)) return;
  TheShared().held.store(false);
  for (const std::shared_ptr<Stream>& stream : AllStreams()) {
    { std::lock_guard lock(stream->mutex_); }
    stream->WakeThread();
  }
}

}  // namespace flashacl::acl
