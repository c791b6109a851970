// SPDX-License-Identifier: Apache-2.0
// Small problems whose answers were worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "problem/problem_spec.h"
#include "tests/testing/small_case.h"

namespace flashacl {

using Numbers = std::vector<double>;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline void ExpectNear(const SmallCase& at, Slot slot, const Numbers& expected,
                       double error) {
  const Numbers found = at.Get(slot);
  ASSERT_EQ(found.size(), expected.size()) << Name(slot);
  for (size_t n = 0; n < found.size(); ++n) {
    EXPECT_NEAR(found[n], expected[n], error) << Name(slot) << " " << n;
  }
}

// One head, one channel, `rows` queries and `columns` keys of one sequence.
inline ProblemSpec OneHead(int64_t rows, int64_t columns) {
  ProblemSpec problem_spec;
  problem_spec.rows = {rows};
  problem_spec.columns = {columns};
  problem_spec.row_stats = true;
  return problem_spec;
}

}  // namespace flashacl
