// SPDX-License-Identifier: Apache-2.0
// What the first use makes, once per process. In place of the language's own
// statics of a function: where one of those is being made while another thread
// forks, the child waits for a thread that it does not have.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>

#include "base/fork.h"

namespace flashacl {

// Does something once. Static and constinit.
class Once {
 public:
  // The first call does it; others return once it is done. What `act` throws,
  // this throws, and the next call tries again. `act` may not fork, nor get
  // back to this object.
  template <typename Act>
  void Do(const Act& act) {
    if (done_.load(std::memory_order_acquire)) return;
    const Making making;  // first: else a fork could leave the mutex locked
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    act();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
};

// An object that the first use makes. Never destroyed, as threads and handlers
// may use it while the process exits. A forked child inherits it, whole.
template <typename T>
class MadeOnce {
 public:
  T& operator*() {
    return Get([] { return T(); });
  }

  // As `make` returns it. The same rules as for Once::Do.
  template <typename Make>
  T& Get(const Make& make) {
    once_.Do([&] { new (room_) Made(make()); });
    return *std::launder(reinterpret_cast<T*>(room_));
  }

 private:
  using Made = std::remove_const_t<T>;

  Once once_;
  // In place, as some are first asked for where no memory is left.
  alignas(T) std::byte room_[sizeof(T)]{};
};

}  // namespace flashacl
