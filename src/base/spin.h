// SPDX-License-Identifier: Apache-2.0
// Looking for news for a while before a thread sleeps until they come.
#pragma once

#include <chrono>
#include <thread>

#include "base/thread.h"

namespace flashacl {

// How long a thread that expects news soon looks for it before it sleeps. Long
// enough to meet a task queued right after another, short enough to cost an
// idle process nothing.
inline constexpr std::chrono::microseconds kSpin{40};

// Looked up before main: what a thread would look up first during a fork, a
// child would wait for without end.
inline const bool kHasSeveralProcessors = AvailableProcessors() > 1;

// Whether looking makes sense: not on one CPU, where no news could arrive.
inline bool MaySpin() noexcept { return kHasSeveralProcessors; }

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
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) Pause();
    if (ready()) return true;
    // Who has the news may be waiting for this very CPU. On a busy machine,
    // looking without this delayed it by all of kSpin.
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace flashacl
