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
  std::atomic<int> makings{0};  // kForking: fork() lets none begin
  ForkLock* held = nullptr;     // the first that the forking thread took

  void Add(ForkLock* lock) {
    lock->next_ = first.load();
    while (!first.compare_exchange_weak(lock->next_, lock)) {
    }
  }

  // All or none at a time, so that their order is nobody's concern.
  void LockAll() {
    for (;; sched_yield()) {
      int none = 0;
      if (!makings.compare_exchange_weak(none, kForking)) continue;
      ForkLock* const head = first.load();
      ForkLock* failed = head;
      while (failed != nullptr && failed->TryLock()) failed = failed->next_;
      if (failed == nullptr) {
        held = head;
        return;
      }
      Unlock(head, failed);
      makings.store(0);
    }
  }

  void UnlockAll() {
    Unlock(held, nullptr);
    makings.store(0);
  }

  void RenewAll() {
    generation.fetch_add(1);
    for (ForkLock* lock = first.load(); lock != nullptr; lock = lock->next_) {
      lock->Renew();
    }
    makings.store(0);
  }

  void BeginMaking() {
    for (int now = makings.load();;) {
      if (now == kForking) {
        sched_yield();
        now = makings.load();
      } else if (makings.compare_exchange_weak(now, now + 1)) {
        return;
      }
    }
  }

 private:
  static constexpr int kForking = -1;

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

Making::Making() { the_locks.BeginMaking(); }
Making::~Making() { the_locks.makings.fetch_sub(1); }

void ForkLock::Register() { the_locks.Add(this); }

uint32_t ForkGeneration() {
  (void)registered;
  return the_locks.generation.load(std::memory_order_relaxed);
}

}  // namespace flashacl
