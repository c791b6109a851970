// SPDX-License-Identifier: Apache-2.0
// Scores share an element of a bias's gradient where its tensor has them share
// one, and sums are of all units or nobody's.
#include "verify/answer/score_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "problem/grid.h"
#include "problem/notation.h"

namespace flashacl::answer {
namespace {

// Sequence, head, row and column of what is stored.
using Place = std::tuple<int64_t, int64_t, int64_t, int64_t>;

// Two scores have the same place if and only if they have the same offset.
TEST(BiasAxes, AreThoseOfTheTensor) {
  for (const char* line :
       {"bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias grad:qb",
        "bwd f32 h=4/2 d=8 q=5,3 k=7,9 bias grad:qb",
        "bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias:ij grad:qb",
        "bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias:hj grad:qb",
        "bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias:bhj grad:qb",
        "bwd f32 h=2 d=8 q=2x9 k=2x9 bias:diagonal:4 causal grad:qb"}) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    const BiasAxes axes(*problem);
    const auto& sequences = problem->lengths.sequences;
    const Grid grid(BiasSpec(*problem, Slot::kGradBias), sequences);
    std::map<Place, int64_t> offsets;
    std::map<int64_t, Place> places;
    for (int64_t b = 0; b < problem->lengths.count(); ++b) {
      const Sequence& sequence = sequences[static_cast<size_t>(b)];
      for (int64_t h = 0; h < problem->heads; ++h) {
        for (int64_t i = 0; i < sequence.rows(); ++i) {
          const Band band =
              problem->mask.BandOf(b, sequence.rows(), sequence.columns());
          for (int64_t j = 0; j < sequence.columns(); ++j) {
            if (!band.Sees(i, j)) continue;
            const auto [row, column] = axes.Place(i, j);
            EXPECT_LT(row, axes.Rows(sequence));
            EXPECT_LT(column, axes.Columns(sequence));
            const Place place{axes.shares_sequences() ? 0 : b,
                              axes.shares_heads() ? 0 : h, row, column};
            const int64_t offset = grid.Plane(b, h).At(i, j);
            EXPECT_EQ(offsets.emplace(place, offset).first->second, offset);
            EXPECT_EQ(places.emplace(offset, place).first->second, place);
          }
        }
      }
    }
    EXPECT_FALSE(places.empty());
  }
}

Part SinkOf(int64_t head, double value) {
  return {Slot::kGradSink, 0, head, 1, {0}, {value}, {1}};
}

TEST(UnitSums, AreOfAllUnits) {
  const Result<AttentionProblem> problem =
      Parse("bwd f32 h=2 d=8 q=3x5 k=3x7 sink");
  ASSERT_TRUE(problem.ok());
  UnitSums sums(*problem, false);
  for (const auto& [head, value] : std::vector<std::pair<int64_t, double>>{
           {0, 1}, {1, 10}, {0, 2}, {1, 20}, {0, 4}}) {
    std::vector<Part> parts{SinkOf(head, value)};
    sums.Add(parts);
    EXPECT_TRUE(parts.empty());
  }
  std::vector<Part> parts;
  sums.Take(parts);
  ASSERT_EQ(parts.size(), 1u);  // head 1 lacks a sequence
  EXPECT_EQ(parts[0].head, 0);
  EXPECT_EQ(parts[0].values, std::vector<double>{7});
  EXPECT_EQ(parts[0].magnitudes, std::vector<double>{7});  // of one sign
}

}  // namespace
}  // namespace flashacl::answer
