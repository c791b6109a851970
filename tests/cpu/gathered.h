// SPDX-License-Identifier: Apache-2.0
// Small problems of top-k lists, and runs of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/compare.h"
#include "plan/geometry.h"
#include "plan/plan.h"
#include "plan/sample.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {

// What lists come with: no bias, dropout or gradient of a sink.
inline Space GatheredSpace(Direction direction) {
  Space space;
  space.forward = direction == Direction::kForward;
  space.backward = !space.forward;
  space.bias = space.dropout = false;
  return space;
}

// Entries that repeat, point outside, or end a list in its middle.
inline void SpoilLists(SmallCase& small, Random& random) {
  const int64_t count = small.count(Slot::kTopK);
  for (int64_t n = 0; n < count; ++n) {
    if (!random.OneIn(6)) continue;
    const double other = small.Get(Slot::kTopK, random.Within(0, count - 1));
    small.Put(Slot::kTopK, n,
              OneOf<double>(random, {other, other, -1, -7, 1000000}));
  }
}

inline Plan PlanOn(const Implementation& implementation,
                   const AttentionProblem& problem, int64_t workers = 1) {
  Plan plan;
  plan.problem = problem;
  DeviceInfo device;
  device.workers = workers;
  implementation.prepare(device, plan);
  return plan;
}

// What a workspace held before is nobody's business: it holds NaN.
inline void RunOn(const Implementation& implementation, const SmallCase& small,
                  int workers = 1, uint64_t seed = 1) {
  const Plan plan = PlanOn(implementation, small.problem(), workers);
  std::vector<std::byte> workspace(
      static_cast<size_t>(plan.workspace.bytes()) + 64, std::byte{0xFF});
  const size_t past = reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  ShuffledWorkers some(workers, seed);
  const Status status = implementation.launch(
      plan, small.bindings(), workspace.data() + (64 - past) % 64, some);
  ASSERT_TRUE(status.ok()) << status.message();
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

// Finite numbers that are about the same, or infinities and NaNs alike. bf16
// has neighbours 0.8 % apart; sums of many cancel.
inline void ExpectAlike(const SmallCase& found, const SmallCase& expected,
                        double tolerance) {
  for (const Slot slot : ResultsOf(found.problem())) {
    const std::vector<double> a = found.Get(slot), b = expected.Get(slot);
    for (size_t n = 0; n < a.size(); ++n) {
      if (std::isnan(b[n]) || std::isnan(a[n])) {
        ASSERT_EQ(std::isnan(a[n]), std::isnan(b[n]))
            << Name(slot) << " " << n << ": " << a[n] << ", expected " << b[n];
      } else if (std::isinf(b[n]) || std::isinf(a[n])) {
        ASSERT_EQ(a[n], b[n]) << Name(slot) << " " << n;
      } else {
        ASSERT_NEAR(a[n], b[n], tolerance * (1 + std::fabs(b[n])))
            << Name(slot) << " " << n;
      }
    }
  }
}

}  // namespace flashacl::testing
