// SPDX-License-Identifier: Apache-2.0
// What the laws share: problems small enough for thousands, and one way to
// walk over rows and to compare numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "problem/problem_spec.h"
#include "tests/testing/generator.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {

// Canonical problems with short rows, whose lengths are known.
inline Space LawSpace() {
  Space space;
  space.caches = false;  // laws of their own: cache_law_test.cc
  space.backward = false;
  space.most_sequences = 3;
  space.most_rows = 8;
  space.most_columns = 12;
  space.most_heads = 4;
  space.most_dim = 8;
  space.half_types = space.device_lengths = space.strides = false;
  space.inference = false;
  return space;
}

// One row of one head.
struct RowAt {
  int64_t sequence, head, i;
};

inline void ForEachRow(const AttentionProblem& problem,
                       FunctionRef<void(const RowAt&)> body) {
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const int64_t rows =
        problem.lengths.sequences[static_cast<size_t>(b)].rows();
    for (int64_t head = 0; head < problem.heads; ++head) {
      for (int64_t i = 0; i < rows; ++i) body({b, head, i});
    }
  }
}

inline int64_t ColumnsOf(const AttentionProblem& problem, int64_t sequence) {
  return problem.lengths.sequences[static_cast<size_t>(sequence)].columns();
}

// Calls body(Column) for every row of keys.
inline void ForEachKey(const AttentionProblem& problem,
                       FunctionRef<void(const SmallCase::Column&)> body) {
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    for (int64_t j = 0; j < ColumnsOf(problem, b); ++j) {
      for (int64_t g = 0; g < problem.kv_heads; ++g) body({b, j, g});
    }
  }
}

// Gives a row of keys the numbers of another: key, rope and value.
inline void CopyKey(const SmallCase& from, const SmallCase::Column& of,
                    SmallCase& to, const SmallCase::Column& at) {
  for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
    if (!to.problem().has(slot)) continue;
    for (int64_t d = 0; d < to.problem()[slot].dims[3]; ++d) {
      to.PutKey(slot, at, d, from.GetKey(slot, of, d));
    }
  }
}

// The channels of a row in a query-like slot.
inline std::vector<double> Channels(const SmallCase& at, Slot slot,
                                    const RowAt& row) {
  const TensorSpec& spec = at.problem()[slot];
  const Sequence& extent =
      at.problem().lengths.sequences[static_cast<size_t>(row.sequence)];
  std::vector<double> channels;
  for (int64_t d = 0; d < spec.dims[3]; ++d) {
    channels.push_back(at.Get(
        slot,
        spec.At(row.sequence, extent.queries.first + row.i, row.head, d)));
  }
  return channels;
}

// Row max or row sum.
inline double Statistic(const SmallCase& at, Slot slot, const RowAt& row) {
  return at.GetCell(slot, {row.sequence, row.head, row.i, 0});
}

inline bool SawNothing(const SmallCase& at, const RowAt& row) {
  const double sum = Statistic(at, Slot::kRowSum, row);
  return sum == 0 || sum == FLT_MAX;
}

constexpr double kExact = 1e-9;  // of numbers about 1, in fp64

inline void ExpectClose(double found, double expected, const char* what) {
  EXPECT_NEAR(found, expected, kExact * std::max(1.0, std::abs(expected)))
      << what;
}

inline void ExpectClose(const std::vector<double>& found,
                        const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t n = 0; n < found.size(); ++n) {
    ExpectClose(found[n], expected[n], what);
  }
}

// Out, row max and row sum of every row.
inline void ExpectSameResults(const SmallCase& found,
                              const SmallCase& expected) {
  ForEachRow(expected.problem(), [&](const RowAt& row) {
    ExpectClose(Channels(found, Slot::kOut, row),
                Channels(expected, Slot::kOut, row), "out");
    ExpectClose(Statistic(found, Slot::kRowMax, row),
                Statistic(expected, Slot::kRowMax, row), "row max");
    ExpectClose(Statistic(found, Slot::kRowSum, row),
                Statistic(expected, Slot::kRowSum, row), "row sum");
  });
}

}  // namespace flashacl::testing
