// SPDX-License-Identifier: Apache-2.0
// Runs between pages that nobody may touch.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/cpu/runs.h"
#include "tests/testing/fenced_tensors.h"

namespace flashacl::testing {

// Whatever the tensors, the workspace is fenced.
inline void LaunchFenced(const Implementation& implementation,
                         const AttentionProblem& problem,
                         const Bindings& bindings,
                         const DeviceInfo& device = {}) {
  const Plan plan = PlanOn(implementation, problem, device);
  const auto workers = static_cast<int>(device.workers);
  const FencedBytes workspace(
      RoundUp(plan.workspace.bytes(), WorkspaceLayout::kAlignmentBytes));
  ShuffledWorkers some(workers, static_cast<uint64_t>(workers));
  HostQueue queue(some);
  const Status status = plan.prepared->Run(bindings, workspace.data(), queue);
  EXPECT_TRUE(status.ok()) << status.message();
}

inline void ExpectSameBits(const SmallCase& small, const Bindings& bindings,
                           const std::vector<Slot>& slots) {
  for (const Slot slot : slots) {
    const auto& expected = small.bytes(slot);
    if (expected.empty()) continue;
    EXPECT_EQ(std::memcmp(expected.data(), bindings[slot], expected.size()), 0)
        << Name(slot);
  }
}

// Runs a case on one worker, and copies of it on as many as `workers` says, one
// copy each, whose tensors end at a fence or start at one in turn; results of
// the latter go past the caches, as far as they are lines. The copies are made
// before the case has results, which they would hold without anybody's writing
// them.
inline void ExpectStaysInside(const Implementation& implementation,
                              const SmallCase& small,
                              std::initializer_list<int> workers) {
  const AttentionProblem& problem = small.problem();
  std::vector<FencedTensors> copies;
  for (size_t n = 0; n < workers.size(); ++n) {
    copies.emplace_back(small, n % 2 == 0 ? FencedBytes::Side::kEnd
                                          : FencedBytes::Side::kStart);
  }
  LaunchFenced(implementation, problem, small.bindings());
  auto copy = copies.begin();
  for (const int count : workers) {
    DeviceInfo device;
    device.workers = count;
    if ((copy - copies.begin()) % 2 != 0) device.streamed_bytes = 0;
    LaunchFenced(implementation, problem, copy->bindings(), device);
    ExpectSameBits(small, (copy++)->bindings(), ResultsOf(problem));
  }
}

}  // namespace flashacl::testing
