// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/replay_queue.h"

#include <utility>

#include "acl/stream.h"

namespace flashacl::acl {

bool ReplayQueue::Enter(Stream& stream) {
  Waiting self;
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(taken_, true)) return true;
    (first_ == nullptr ? first_ : last_->next) = &self;
    last_ = &self;
  }
  (void)stream.WaitInTask(self.latch, std::nullopt);
  // Whoever opened the latch is done with it once it lets go of the lock.
  std::lock_guard lock(mutex_);
  if (self.latch.open()) return true;
  Waiting* before = nullptr;
  for (Waiting* one = first_; one != &self; one = one->next) before = one;
  (before == nullptr ? first_ : before->next) = self.next;
  if (last_ == &self) last_ = before;
  return false;
}

void ReplayQueue::Leave() {
  std::lock_guard lock(mutex_);
  Waiting* const next = first_;
  if (next == nullptr) {
    taken_ = false;
    return;
  }
  first_ = next->next;
  if (first_ == nullptr) last_ = nullptr;
  next->latch.Open();
}

}  // namespace flashacl::acl
