// SPDX-License-Identifier: Apache-2.0
// What the runtime tells the timeline while it works. While nobody records,
// each of these costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace flashacl {
struct Plan;
}

namespace flashacl::acl::profile {

class Thread;

inline constexpr int32_t kNoStream = -1;

enum class Kind : uint8_t {
  kCall,      // of a function of the C API
  kPlan,      // phase 1 of an operator
  kLaunch,    // phase 2
  kRun,       // of a task, by its stream
  kWait,      // for a task or an event
  kCallback,  // a function of the program
  // Of timeline.h:
  kPushed,      // a range of the program that begins and ends on one thread
  kRange,       // any other range of the program
  kMark,        // a moment that the program marked
  kSubmission,  // the moment at which a task is put into a stream
};

enum class State : uint8_t { kOff, kOn, kUndecided };
extern std::atomic<State> state;

// The first question of the process: whether its environment asks for a trace.
bool Decide() noexcept;

inline bool IsRecording() {
  const State now = state.load(std::memory_order_relaxed);
  return now != State::kOff && (now == State::kOn || Decide());
}

Thread* Begin(Kind kind, std::string_view name, int32_t stream,
              uint64_t task) noexcept;
void End(Thread* thread) noexcept;
void NoteCode(Thread* thread, int code) noexcept;
void AddBytes(uint64_t bytes) noexcept;
void AddPlan(const std::shared_ptr<const Plan>& plan) noexcept;
void AddSubmission(int32_t stream, uint64_t task) noexcept;

// The time from here to the end of the scope, on the calling thread.
class Span {
 public:
  // `name` lives forever. Of kCall, only names of the C API count. `stream` and
  // `task`: of what is run, or waited for.
  Span(Kind kind, std::string_view name, int32_t stream = kNoStream,
       uint64_t task = 0) noexcept
      : thread_(IsRecording() ? Begin(kind, name, stream, task) : nullptr) {}
  ~Span() {
    if (thread_ != nullptr) End(thread_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // Notes what the call or the task answers, and returns it.
  int Returned(int code) const {
    if (thread_ != nullptr && code != 0) NoteCode(thread_, code);
    return code;
  }

 private:
  Thread* const thread_;  // null: not recorded
};

// The following are about the innermost span of the calling thread.

// It copies or fills `bytes`, more than it is known to do already.
inline void NoteBytes(uint64_t bytes) {
  if (IsRecording()) AddBytes(bytes);
}

// It makes, or runs, this plan.
inline void NotePlan(const std::shared_ptr<const Plan>& plan) {
  if (IsRecording()) AddPlan(plan);
}

// It puts the task into the stream, which may start it only after this.
inline void Submitted(int32_t stream, uint64_t task) {
  if (IsRecording()) AddSubmission(stream, task);
}

// From now on, the calling thread runs the tasks of this stream.
void SetStreamOfThisThread(int32_t stream, int device);

}  // namespace flashacl::acl::profile
