// SPDX-License-Identifier: Apache-2.0
// oneTBB, and nothing else. Compiled without ThreadSanitizer, which cannot look
// into TBB's library and takes the memory of TBB's tasks for raced.
#include "cpu/tbb_arena.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <optional>

// Present when the process runs under ThreadSanitizer, else null.
extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
}

namespace flashacl::cpu {
namespace {

// What TBB guarantees, told to a checker that cannot see it: writes before
// Release(x) happen before reads after Acquire(x).
void Release(void* context) {
  if (__tsan_release != nullptr) __tsan_release(context);
}

void Acquire(void* context) {
  if (__tsan_acquire != nullptr) __tsan_acquire(context);
}

}  // namespace

struct Arena::Tbb {
  // TBB starts no more threads than there are processors unless told so. It
  // takes the least of all controls, so there is none where none is needed.
  std::optional<tbb::global_control> more_threads;
  tbb::task_arena arena;

  explicit Tbb(int threads) : arena(threads) {
    if (threads > DefaultThreads()) {
      more_threads.emplace(tbb::global_control::max_allowed_parallelism,
                           static_cast<size_t>(threads));
    }
  }
};

Arena::Arena(int threads)
    : threads_(std::max(threads, 1)), tbb_(std::make_unique<Tbb>(threads_)) {}

Arena::~Arena() = default;

void Arena::Run(int times, void (*share)(void*), void* context) {
  const auto one_share = [=](int) {
    Acquire(context);
    share(context);
    Release(context);
  };
  Release(context);
  tbb_->arena.execute([&] {
    // Isolated: a thread that waits here must not pick up a share of somebody
    // else, whose scratch memory it may be in the middle of using.
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(0, times, one_share, tbb::simple_partitioner());
    });
  });
  Acquire(context);
}

int Arena::DefaultThreads() { return tbb::info::default_concurrency(); }

}  // namespace flashacl::cpu
