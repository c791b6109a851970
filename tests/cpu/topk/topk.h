// SPDX-License-Identifier: Apache-2.0
// Small problems of top-k lists.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"
#include "verify/compare.h"

namespace flashacl::testing {

// What lists come with: no bias, dropout or gradient of a sink.
inline Space TopKSpace(Direction direction) {
  Space space;
  space.forward = direction == Direction::kForward;
  space.backward = !space.forward;
  space.bias = space.dropout = space.caches = false;
  return space;
}

// Listed keys that repeat, point outside, or end a list in its middle.
inline void SpoilLists(SmallCase& small, Random& random) {
  const int64_t count = small.count(Slot::kTopK);
  for (int64_t n = 0; n < count; ++n) {
    if (!random.OneIn(6)) continue;
    const double other = small.Get(Slot::kTopK, random.Within(0, count - 1));
    small.Put(Slot::kTopK, n,
              OneOf<double>(random, {other, other, -1, -7, 1000000}));
  }
}

// Finite numbers as near as verify/compare.h derives for the problem, or
// infinities and NaNs alike. Both were rounded to the type of the result.
inline void ExpectAlike(const SmallCase& found, const SmallCase& expected) {
  for (const Slot slot : ResultsOf(found.problem())) {
    const std::vector<double> a = found.Get(slot), b = expected.Get(slot);
    double greatest = 0;
    for (const double x : b) {
      if (std::isfinite(x)) greatest = std::max(greatest, std::fabs(x));
    }
    const Tolerance near = ToleranceOf(found.problem(), slot, greatest);
    for (size_t n = 0; n < a.size(); ++n) {
      if (std::isnan(b[n]) || std::isnan(a[n])) {
        ASSERT_EQ(std::isnan(a[n]), std::isnan(b[n]))
            << Name(slot) << " " << n << ": " << a[n] << ", expected " << b[n];
      } else if (std::isinf(b[n]) || std::isinf(a[n])) {
        ASSERT_EQ(a[n], b[n]) << Name(slot) << " " << n;
      } else {
        const double allowed =
            2 * near.of_itself * std::fabs(b[n]) + near.absolute;
        ASSERT_NEAR(a[n], b[n], allowed) << Name(slot) << " " << n;
      }
    }
  }
}

}  // namespace flashacl::testing
