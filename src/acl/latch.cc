// SPDX-License-Identifier: Apache-2.0
#include "acl/latch.h"

#include "base/tsan.h"

namespace flashacl::acl {

Deadline DeadlineIn(int64_t ms) {
  if (ms < 0) return std::nullopt;
  return Clock::now() + std::chrono::milliseconds(ms);
}

// Whoever opens or waits shares ownership, whose count ThreadSanitizer does not
// see: to it their last use of the condition would race with its end.
Latch::~Latch() { TsanAcquire(&changed_); }

void Latch::Open() {
  {
    std::lock_guard lock(mutex_);
    TsanRelease(this);
    open_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  TsanRelease(&changed_);
}

void Latch::Close() {
  std::lock_guard lock(mutex_);
  open_.store(false, std::memory_order_release);
}

void Latch::Poke() {
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
  TsanRelease(&changed_);
}

bool Latch::Wait(Deadline deadline, const std::atomic<bool>* stop) {
  const auto done = [&] { return open() || (stop != nullptr && stop->load()); };
  if (SpinUntil(done)) {
    TsanAcquire(this);
    return open();
  }
  std::unique_lock lock(mutex_);
  if (deadline.has_value()) {
    changed_.wait_until(lock, *deadline, done);
  } else {
    changed_.wait(lock, done);
  }
  lock.unlock();
  TsanRelease(&changed_);
  return open();
}

}  // namespace flashacl::acl
