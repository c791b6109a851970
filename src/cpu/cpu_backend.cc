// SPDX-License-Identifier: Apache-2.0
// The CPU's implementations, best first, and its queue.
#include "cpu/cpu_backend.h"

#include <array>
#include <atomic>
#include <memory>

#include "base/fork.h"
#include "base/once.h"
#include "cpu/cpu_info.h"
#include "cpu/implementations.h"
#include "cpu/thread_pool.h"
#include "plan/host_memory.h"
#include "plan/host_queue.h"

namespace flashacl::cpu {
namespace {

// 0: as many as this process may run on.
std::atomic<int> worker_count{0};

struct Shared {
  Pool pool{worker_count.load()};
};

// All queues share the workers. A forked child has its own, for queues that it
// makes; with those of its parent, loops run on their callers alone.
Pool& ThePool() {
  static PerProcess<Shared> shared;
  return (*shared).pool;
}

std::unique_ptr<Queue> MakeQueue() {
  return std::make_unique<HostQueue>(ThePool());
}

}  // namespace

Backend ThisCpu() {
  static constinit MadeOnce<const std::array<Implementation, 7>> rows;
  static constinit MadeOnce<const std::unique_ptr<Queue>> queue;
  return {.name = "cpu",
          .device = DescribeThisCpu(),
          .implementations = rows.Get([] {
            return std::array{kCpuDecode,      kCpuMixed,      kCpuForward,
                              kCpuBackward,    kCpuTopKDecode, kCpuTopKForward,
                              kCpuTopKBackward};
          }),
          .memory = &HostMemory::Get(),
          .queue = queue.Get(&MakeQueue).get(),
          .make_queue = MakeQueue};
}

void SetWorkerCount(int count) {
  worker_count.store(count);
  ThePool().SetCount(count);
}

}  // namespace flashacl::cpu
