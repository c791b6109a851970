// SPDX-License-Identifier: Apache-2.0
#include "acl/latch.h"

namespace flashacl::acl {

Deadline DeadlineIn(int64_t ms) {
  if (ms < 0) return std::nullopt;
  return Clock::now() + std::chrono::milliseconds(ms);
}

void Latch::Open() {
  {
    std::lock_guard lock(mutex_);
    open_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

void Latch::Close() {
  std::lock_guard lock(mutex_);
  open_.store(false, std::memory_order_release);
}

void Latch::Poke() {
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

bool Latch::Wait(Deadline deadline, const std::atomic<bool>* stop) {
  const auto done = [&] { return open() || (stop != nullptr && stop->load()); };
  if (SpinUntil(done)) return open();
  std::unique_lock lock(mutex_);
  if (deadline.has_value()) {
    changed_.wait_until(lock, *deadline, done);
  } else {
    changed_.wait(lock, done);
  }
  return open();
}

}  // namespace flashacl::acl
