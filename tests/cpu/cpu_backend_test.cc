// SPDX-License-Identifier: Apache-2.0
// The CPU as a backend: its memory is the host's, its queues share workers.
#include "cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include "plan/host_memory.h"

namespace flashacl::cpu {
namespace {

TEST(CpuBackend, HasTheMemoryOfTheHost) {
  EXPECT_EQ(ThisCpu().memory, &HostMemory::Get());
}

TEST(CpuBackend, AllQueuesShareTheWorkers) {
  const Backend backend = ThisCpu();
  const auto another = backend.make_queue();
  SetWorkerCount(3);
  EXPECT_EQ(WorkersOf(*backend.queue), 3);
  EXPECT_EQ(WorkersOf(*another), 3);
  SetWorkerCount(0);
  EXPECT_GE(WorkersOf(*another), 1);
}

}  // namespace
}  // namespace flashacl::cpu
