// SPDX-License-Identifier: Apache-2.0
// Runs of one implementation on one case, and what must be true of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backends.h"
#include "plan/host_queue.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/testing/random.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"
#include "verify/fill.h"
#include "verify/verify.h"

namespace flashacl::testing {

// The problem a line names; a failure, and no problem, if it names none.
inline AttentionProblem ProblemOf(std::string_view line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << line << ": " << problem.status().message();
  return problem.ok() ? *problem : AttentionProblem();
}

// A device of which nothing else is known.
inline DeviceInfo DeviceWith(const char* vector_target) {
  DeviceInfo device;
  device.vector_target = vector_target;
  return device;
}

// Expects right answers if the implementation of that name takes the problem;
// returns whether it does.
inline bool ExpectRight(const AttentionProblem& problem, uint64_t seed,
                        std::string_view name) {
  const auto verdicts =
      Verify(CpuBackend(), problem, seed, name, [](std::string_view) {});
  EXPECT_TRUE(verdicts.ok()) << verdicts.status().message();
  if (!verdicts.ok()) return false;
  const Verdict& verdict = verdicts->front();
  for (const std::string& fault : verdict.faults) ADD_FAILURE() << fault;
  return verdict.refusal.empty();
}

inline void ExpectRight(std::string_view line, std::string_view name,
                        uint64_t seed = 3) {
  SCOPED_TRACE(line);
  EXPECT_TRUE(ExpectRight(ProblemOf(line), seed, name)) << name << " refuses";
}

inline Plan PlanOn(const Implementation& implementation,
                   const AttentionProblem& problem, const DeviceInfo& device) {
  Plan plan;
  plan.implementation = &implementation;
  plan.prepared = implementation.prepare(problem, device, plan.workspace);
  return plan;
}

inline Plan PlanOn(const Implementation& implementation,
                   const AttentionProblem& problem, int64_t workers = 1) {
  DeviceInfo device;
  device.workers = workers;
  return PlanOn(implementation, problem, device);
}

// Caches of any size, and some workers.
inline DeviceInfo AnyDevice(Random& random) {
  DeviceInfo device;
  device.l2_bytes = OneOf<int64_t>(
      random, {0, 1 << 14, 256 << 10, 512 << 10, 2 << 20, 64 << 20});
  device.workers = random.Within(1, 5);
  if (random.Within(0, 1) == 0) device.streamed_bytes = 0;
  return device;
}

// What a workspace held before is nobody's business: it holds NaN.
inline void RunOn(const Implementation& implementation, const SmallCase& small,
                  const DeviceInfo& device, uint64_t seed = 1) {
  const Plan plan = PlanOn(implementation, small.problem(), device);
  std::vector<std::byte> workspace(
      static_cast<size_t>(plan.workspace.bytes()) + 64, std::byte{0xFF});
  const size_t past = reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  ShuffledWorkers some(static_cast<int>(device.workers), seed);
  HostQueue queue(some);
  const Status status = plan.prepared->Run(
      small.bindings(), workspace.data() + (64 - past) % 64, queue);
  ASSERT_TRUE(status.ok()) << status.message();
}

inline void RunOn(const Implementation& implementation, const SmallCase& small,
                  int workers = 1, uint64_t seed = 1) {
  DeviceInfo device;
  device.workers = workers;
  RunOn(implementation, small, device, seed);
}

// Page numbers that are none, here and there within the lengths.
inline void SpoilTable(SmallCase& small, Random& random) {
  if (!small.problem().has(Slot::kBlockTable)) return;
  const auto pages = static_cast<double>(small.problem()[Slot::kKey].dims[0]);
  for (int64_t n = 0; n < small.count(Slot::kBlockTable); ++n) {
    if (!random.OneIn(5)) continue;
    small.Put(Slot::kBlockTable, n,
              OneOf<double>(random, {-1, pages, pages + 1,
                                     std::numeric_limits<int32_t>::max(),
                                     std::numeric_limits<int32_t>::min()}));
  }
}

inline std::vector<Slot> ResultsOf(const AttentionProblem& problem) {
  std::vector<Slot> slots;
  for (size_t n = 0; n < kSlots; ++n) {
    const Slot slot = static_cast<Slot>(n);
    if (problem.has(slot) && IsOutput(problem.direction, slot)) {
      slots.push_back(slot);
    }
  }
  return slots;
}

inline void ExpectSameBits(const SmallCase& a, const SmallCase& b) {
  for (const Slot slot : ResultsOf(a.problem())) {
    EXPECT_EQ(a.bytes(slot), b.bytes(slot)) << Name(slot);
  }
}

}  // namespace flashacl::testing
