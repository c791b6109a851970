// SPDX-License-Identifier: Apache-2.0
// Waiting for something that happens once, and time limits for waiting.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/spin.h"

namespace flashacl::acl {

using Clock = std::chrono::steady_clock;

// When to give up; none: never.
using Deadline = std::optional<Clock::time_point>;

// `ms` from now; none for -1.
Deadline DeadlineIn(int64_t ms);

// Stays open once it is, unless its owner closes it again. Open happens before
// the Wait that sees it.
class Latch {
 public:
  Latch() = default;
  ~Latch();
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;

  bool open() const { return open_.load(std::memory_order_acquire); }
  void Open();
  void Close();

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
