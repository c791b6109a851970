// SPDX-License-Identifier: Apache-2.0
// The CPU's implementations, best first, and its queue.
#include "cpu/cpu_backend.h"

#include "cpu/backward/backward.h"
#include "cpu/cpu_info.h"
#include "cpu/decode/decode.h"
#include "cpu/forward/forward.h"
#include "cpu/roof.h"
#include "cpu/thread_pool.h"
#include "cpu/topk/topk_backward.h"
#include "cpu/topk/topk_forward.h"
#include "plan/host_memory.h"
#include "plan/host_queue.h"

namespace flashacl::cpu {
namespace {

// All queues share the workers.
Pool& ThePool() {
  static auto* const pool = new Pool;
  return *pool;
}

std::unique_ptr<Queue> MakeQueue() {
  return std::make_unique<HostQueue>(ThePool());
}

template <double (*kMeasure)(Workers&)>
double OnWorkers(Queue& queue) {
  double rate = 0;
  (void)queue.OnHost([&](Workers& workers) -> Status {
    rate = kMeasure(workers);
    return {};
  });
  return rate;
}

}  // namespace

Backend ThisCpu() {
  static const Implementation rows[] = {kCpuDecode, kCpuForward, kCpuBackward,
                                        kCpuTopKForward, kCpuTopKBackward};
  static auto* const queue = MakeQueue().release();
  return {.name = "cpu",
          .device = DescribeThisCpu(),
          .implementations = rows,
          .memory = &HostMemory::Get(),
          .queue = queue,
          .make_queue = MakeQueue,
          .roofs = {OnWorkers<MeasureFlops>, OnWorkers<MeasureReadBandwidth>}};
}

void SetWorkerCount(int count) { ThePool().SetCount(count); }

}  // namespace flashacl::cpu
