// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/timeline.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "acl/profile/trace_file.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/thread_owned.h"

namespace flashacl::acl::profile {

constinit std::atomic<State> state{State::kUndecided};

namespace {

constexpr size_t kMaxChunks = kMaxEvents / Chunk::kEvents;

struct Shared {
  std::mutex mutex;
  bool decided = false;  // whether the environment is a recorder
  int recorders = 0;
  std::vector<std::shared_ptr<Chunk>> chunks;
  std::atomic<bool> full{false};  // read without the mutex
};

// A forked child has a timeline of its own.
Shared& TheShared() {
  static PerProcess<Shared> shared;
  return *shared;
}

std::atomic<uint64_t> dropped{0};  // events since the timeline began

// Grows when a timeline begins anew: chunks of an earlier one take no more.
std::atomic<uint64_t> session{0};

// With the mutex held.
void AddRecorder(Shared& shared) {
  if (shared.recorders++ > 0) return;
  shared.chunks.clear();
  shared.full = false;
  dropped = 0;
  session.fetch_add(1);
}

// With the mutex held: what the state is in this process.
void Settle(Shared& shared) {
  if (!shared.decided && TraceIsAskedFor()) AddRecorder(shared);
  shared.decided = true;
  state.store(shared.recorders > 0 ? State::kOn : State::kOff);
}

thread_local int32_t stream_of_this_thread = kNoStream;
thread_local int device_of_this_thread = 0;

Track TrackOfThisThread() {
  Track track{.thread = static_cast<uint32_t>(syscall(SYS_gettid)),
              .stream = stream_of_this_thread,
              .device = device_of_this_thread};
  pthread_getname_np(pthread_self(), track.thread_name.data(),
                     track.thread_name.size());
  return track;
}

// Whether a function of this name is one whose calls are shown. Those that
// make marks are not: they would stand across the ranges that they begin.
bool IsShown(std::string_view function) {
  return function.starts_with("acl") && !function.starts_with("aclprof");
}

}  // namespace

// What one thread is in the middle of, and where it writes what is over.
class Thread {
 public:
  // The spans that are open, outermost first.
  void Begin(Event event) {
    if (depth_ < open_.size()) open_[depth_] = std::move(event);
    ++depth_;
  }
  void End(int64_t now) {
    --depth_;
    if (depth_ >= open_.size()) return CountDropped();
    open_[depth_].end_ns = now;
    Append(std::move(open_[depth_]));
  }
  // Null: none, or one too many.
  Event* innermost() {
    return depth_ == 0 || depth_ > open_.size() ? nullptr : &open_[depth_ - 1];
  }

  void Push(Event event) {
    if (pushed_.size() < kMaxPushed) pushed_.push_back(std::move(event));
  }
  void Pop(int64_t now) {
    if (pushed_.empty()) return;
    pushed_.back().end_ns = now;
    Append(std::move(pushed_.back()));
    pushed_.pop_back();
  }

  void Append(Event event) {
    if (session_ != session.load(std::memory_order_acquire) ||
        generation_ != ForkGeneration()) {
      chunk_ = nullptr;
    }
    if ((chunk_ == nullptr || chunk_->full()) && !TakeChunk()) {
      return CountDropped();
    }
    chunk_->Add(std::move(event));
  }

  static void CountDropped() { dropped.fetch_add(1); }

 private:
  static constexpr size_t kMaxPushed = 1024;

  bool TakeChunk() {
    Shared& shared = TheShared();
    if (shared.full.load(std::memory_order_relaxed)) return false;
    std::lock_guard lock(shared.mutex);
    Settle(shared);
    if (shared.recorders == 0) return false;
    if (shared.chunks.size() == kMaxChunks) {
      shared.full = true;
      return false;
    }
    auto chunk = std::make_shared<Chunk>(TrackOfThisThread());
    shared.chunks.push_back(chunk);
    session_ = session.load();
    generation_ = ForkGeneration();
    chunk_ = std::move(chunk);
    return true;
  }

  std::array<Event, 16> open_;
  size_t depth_ = 0;
  std::vector<Event> pushed_;
  std::shared_ptr<Chunk> chunk_;
  uint64_t session_ = 0;
  uint32_t generation_ = 0;
};

namespace {

// Made when the library is loaded, as a key may be hard to get later.
ThreadOwned<Thread> threads;

// Runs `body` with the calling thread; counts what there is no memory for.
template <typename F>
void WithThread(F&& body) noexcept {
  (void)Contain(
      [&] {
        Thread* const thread = threads.Get();
        if (thread != nullptr) {
          body(*thread);
        } else {
          Thread::CountDropped();
        }
        return 0;
      },
      [](bool) { return 0; });
}

// With the mutex held.
Recorded Copy(const Shared& shared, int64_t begin_ns) {
  return {{shared.chunks.begin(), shared.chunks.end()},
          dropped.load(),
          begin_ns,
          Now()};
}

}  // namespace

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Decide() noexcept {
  return Contain(
      [] {
        std::lock_guard lock(TheShared().mutex);
        Settle(TheShared());
        return TheShared().recorders > 0;
      },
      [](bool) { return false; });
}

int64_t StartRecording() {
  Shared& shared = TheShared();
  std::lock_guard lock(shared.mutex);
  Settle(shared);
  AddRecorder(shared);
  Settle(shared);
  return Now();
}

Recorded StopRecording(int64_t begin_ns) {
  Shared& shared = TheShared();
  std::lock_guard lock(shared.mutex);
  // First, as nothing must have changed where there is no memory for it.
  Recorded recorded = Copy(shared, begin_ns);
  if (--shared.recorders > 0) return recorded;
  state.store(State::kOff);
  shared.chunks = {};
  return recorded;
}

Recorded Snapshot(int64_t begin_ns) {
  Shared& shared = TheShared();
  std::lock_guard lock(shared.mutex);
  return Copy(shared, begin_ns);
}

Thread* Begin(Kind kind, std::string_view name, int32_t stream,
              uint64_t task) noexcept {
  if (kind == Kind::kCall && !IsShown(name)) return nullptr;
  Thread* const thread = threads.Get();
  if (thread == nullptr) {
    Thread::CountDropped();
    return nullptr;
  }
  thread->Begin({.kind = kind,
                 .stream = stream,
                 .task = task,
                 .name = name,
                 .begin_ns = Now()});
  return thread;
}

void End(Thread* thread) noexcept {
  const int64_t now = Now();
  (void)Contain(
      [&] {
        thread->End(now);
        return 0;
      },
      [](bool) {
        Thread::CountDropped();
        return 0;
      });
}

void NoteCode(Thread* thread, int code) noexcept {
  if (Event* event = thread->innermost()) event->code = code;
}

void AddBytes(uint64_t bytes) noexcept {
  WithThread([&](Thread& thread) {
    Event* const event = thread.innermost();
    if (event == nullptr) return;
    event->bytes =
        (event->bytes < 0 ? 0 : event->bytes) + static_cast<int64_t>(bytes);
  });
}

void AddPlan(const std::shared_ptr<const Plan>& plan) noexcept {
  WithThread([&](Thread& thread) {
    if (Event* event = thread.innermost()) event->plan = plan;
  });
}

void AddSubmission(int32_t stream, uint64_t task) noexcept {
  WithThread([&](Thread& thread) {
    if (Event* event = thread.innermost()) {
      event->stream = stream;
      event->task = task;
    }
    const int64_t now = Now();
    thread.Append({.kind = Kind::kSubmission,
                   .stream = stream,
                   .task = task,
                   .begin_ns = now,
                   .end_ns = now});
  });
}

void SetStreamOfThisThread(int32_t stream, int device) {
  stream_of_this_thread = stream;
  device_of_this_thread = device;
}

void Add(Event event) noexcept {
  WithThread([&](Thread& thread) { thread.Append(std::move(event)); });
}

void Push(std::shared_ptr<const Said> said) noexcept {
  WithThread([&](Thread& thread) {
    thread.Push(
        {.kind = Kind::kPushed, .begin_ns = Now(), .said = std::move(said)});
  });
}

void Pop() noexcept {
  WithThread([](Thread& thread) { thread.Pop(Now()); });
}

}  // namespace flashacl::acl::profile
