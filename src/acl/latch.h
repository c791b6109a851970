// SPDX-License-Identifier: Apache-2.0
// Waiting for something that happens once, and time limits for waiting.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

namespace flashacl::acl {

using Clock = std::chrono::steady_clock;

// When to give up; none: never.
using Deadline = std::optional<Clock::time_point>;

// `ms` from now; none for -1.
Deadline DeadlineIn(int64_t ms);

// How long a thread that expects news soon looks for it before it sleeps. Long
// enough to meet a task queued right after another, short enough to cost an
// idle process nothing.
inline constexpr std::chrono::microseconds kSpin{40};

// Whether looking makes sense: not on one CPU, where no news could arrive.
bool MaySpin();

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks until `ready()` or kSpin is over; the last answer of `ready`.
template <typename F>
bool SpinUntil(F&& ready) {
  if (ready()) return true;
  if (!MaySpin()) return false;
  const Clock::time_point end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) Pause();
    if (ready()) return true;
    // Who has the news may be waiting for this very CPU. On a busy machine,
    // looking without this delayed it by all of kSpin.
    std::this_thread::yield();
  } while (Clock::now() < end);
  return false;
}

// Opens once and stays open. Open happens before the Wait that sees it.
class Latch {
 public:
  bool open() const { return open_.load(std::memory_order_acquire); }
  void Open();

  // Until open, `stop` is set, or the time is over; true if open.
  bool Wait(Deadline deadline, const std::atomic<bool>* stop = nullptr);

  // Makes waiting threads look at their `stop` again.
  void Poke();

 private:
  std::atomic<bool> open_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace flashacl::acl
