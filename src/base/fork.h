// SPDX-License-Identifier: Apache-2.0
// What survives fork(): a child has the memory of its parent, but none of its
// threads, and each mutex as some thread left it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace flashacl {

// How often this process became a child since the library was loaded: what a
// thread made in an earlier generation, no thread goes on with.
uint32_t ForkGeneration();

// While one is alive, fork() waits, and while fork() copies the process, none
// begins: a child finds whatever is made under one whole, or not begun.
class Making {
 public:
  Making();
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
};

// One of the mutexes that fork() takes before it copies the process.
class ForkLock {
 public:
  virtual bool TryLock() = 0;
  virtual void Unlock() = 0;
  virtual void Renew() = 0;  // in the child, whose threads' names changed

 protected:
  ForkLock() = default;
  ~ForkLock() = default;

  void Register();  // once the lock is whole: from now on fork() takes it

 private:
  friend struct ForkLocks;
  ForkLock* next_ = nullptr;
};

// A mutex of the whole process: static, never destroyed. A forked child finds
// it free, and what it guards whole.
template <typename Mutex>
class ProcessWide final : public ForkLock {
 public:
  ProcessWide() { Register(); }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void lock_shared() { mutex_.lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  bool TryLock() override { return mutex_.try_lock(); }
  void Unlock() override { mutex_.unlock(); }
  void Renew() override {
#ifdef __SANITIZE_THREAD__
    mutex_.unlock();  // as far as the sanitizer knows, fork() still holds it
#endif
    new (&mutex_) Mutex;
  }

  Mutex mutex_;
};

using ProcessMutex = ProcessWide<std::mutex>;

// State of threads that live as long as the process: made by the first use,
// made anew in a forked child, never destroyed, as threads may use it at exit.
template <typename T>
class PerProcess {
 public:
  T& operator*() {
    Made* made = made_.load(std::memory_order_acquire);
    const uint32_t generation = ForkGeneration();
    while (made == nullptr || made->generation != generation) {
      auto* const fresh = new Made{generation, made, {}};
      if (made_.compare_exchange_strong(made, fresh)) return fresh->value;
      delete fresh;
    }
    return made->value;
  }

  // Null where nobody has used it yet. Allocates nothing.
  T* IfMade() {
    Made* const made = made_.load(std::memory_order_acquire);
    const bool is = made != nullptr && made->generation == ForkGeneration();
    return is ? &made->value : nullptr;
  }

 private:
  struct Made {
    uint32_t generation;
    const Made* parents;  // never destroyed, and no leak
    T value;
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace flashacl
