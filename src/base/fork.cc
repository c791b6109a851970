// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace flashacl {

// All of them, newest first.
struct ForkLocks {
  std::atomic<ForkLock*> first{nullptr};
  std::atomic<uint32_t> generation{0};
  ForkLock* held = nullptr;  // the first that the forking thread took

  void Add(ForkLock* lock) {
    lock->next_ = first.load();
    while (!first.compare_exchange_weak(lock->next_, lock)) {
    }
  }

  // All or none at a time, so that their order is nobody's concern.
  void LockAll() {
    for (;; sched_yield()) {
      ForkLock* const head = first.load();
      ForkLock* failed = head;
      while (failed != nullptr && failed->TryLock()) failed = failed->next_;
      if (failed == nullptr) {
        held = head;
        return;
      }
      Unlock(head, failed);
    }
  }

  void UnlockAll() { Unlock(held, nullptr); }

  void RenewAll() {
    generation.fetch_add(1);
    for (ForkLock* lock = first.load(); lock != nullptr; lock = lock->next_) {
      lock->Renew();
    }
  }

 private:
  static void Unlock(ForkLock* lock, const ForkLock* end) {
    for (; lock != end; lock = lock->next_) lock->Unlock();
  }
};

namespace {

constinit ForkLocks the_locks;

// The C library forgets the handlers when the library is unloaded.
const int registered =
    pthread_atfork([] { the_locks.LockAll(); }, [] { the_locks.UnlockAll(); },
                   [] { the_locks.RenewAll(); });

}  // namespace

void ForkLock::Register() { the_locks.Add(this); }

uint32_t ForkGeneration() {
  (void)registered;
  return the_locks.generation.load(std::memory_order_relaxed);
}

}  // namespace flashacl
