// SPDX-License-Identifier: Apache-2.0
// A loop whose numbers are handed out one by one from a counter.
#include "cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace flashacl::cpu {
namespace {

// One loop, shared by the threads that run it.
struct Loop {
  const int64_t count;
  const FunctionRef<void(int64_t)> body;
  std::atomic<int64_t> next{0};

  void Share() {
    while (true) {
      const int64_t n = next.fetch_add(1, std::memory_order_relaxed);
      if (n >= count) return;
      body(n);
    }
  }
};

}  // namespace

void Pool::ForEach(int64_t count, FunctionRef<void(int64_t)> body) {
  if (count == 1) {  // nothing to share, nobody to wake
    body(0);
    return;
  }
  if (count <= 0) return;
  const std::shared_ptr<Arena> arena = this->arena();
  if (arena->threads() == 1) {
    for (int64_t n = 0; n < count; ++n) body(n);
    return;
  }
  Loop loop{count, body};
  arena->Run(
      static_cast<int>(std::min<int64_t>(count, arena->threads())),
      [](void* at) { static_cast<Loop*>(at)->Share(); }, &loop);
}

void Pool::SetCount(int count) {
  const int threads = count > 0 ? count : Arena::DefaultThreads();
  auto arena = std::make_shared<Arena>(threads);
  // The old arena is let go outside of the lock: by the last loop that uses it.
  const std::lock_guard lock(mutex_);
  std::swap(arena_, arena);
}

std::shared_ptr<Arena> Pool::arena() const {
  const std::lock_guard lock(mutex_);
  return arena_;
}

}  // namespace flashacl::cpu
