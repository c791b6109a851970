// SPDX-License-Identifier: Apache-2.0
// Laws of single tensors: what passes, and what does not.
#include "problem/tensor_checks.h"

#include <gtest/gtest.h>

#include "problem/grid.h"
#include "problem/notation.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

TEST(Needs, AreTheWidestAndTheLast) {
  const Result<AttentionProblem> problem =
      Parse("fwd f32 h=1 d=1 q=3,9,1 k=7,2,0");
  const Needs needs = NeedsOf(*problem);
  EXPECT_EQ(needs.sequences, 3);
  EXPECT_EQ(needs.rows, 9);
  EXPECT_EQ(needs.columns, 7);
  EXPECT_EQ(needs.row_end, 13);
  EXPECT_EQ(needs.key_end, 9);
}

TEST(Reaches, IsEnoughOrRepeats) {
  TensorSpec spec = DenseSpec(DType::kF32, {2, 3, 1, 1});
  EXPECT_TRUE(Reaches(Slot::kBias, spec, 1, 3).ok());
  EXPECT_FALSE(Reaches(Slot::kBias, spec, 1, 4).ok());
  spec.strides[1] = 0;
  EXPECT_TRUE(Reaches(Slot::kBias, spec, 1, 4).ok());
  spec.dims[1] = 0;  // nothing to repeat
  EXPECT_FALSE(Reaches(Slot::kBias, spec, 1, 4).ok());
}

TEST(CheckApart, ForbidsRepetitionAfterTheFirstAxis) {
  TensorSpec spec = DenseSpec(DType::kF32, {2, 3, 1, 4});
  spec.strides[0] = spec.strides[2] = 0;
  EXPECT_TRUE(CheckApart(Slot::kOut, spec).ok());
  spec.strides[1] = 0;
  EXPECT_FALSE(CheckApart(Slot::kOut, spec).ok());
}

// A grid that passes holds every element anybody may ask for.
TEST(CheckScoreGrid, WhatPassesHoldsEveryElement) {
  testing::ForRandomProblems(
      5000, {}, [](const AttentionProblem& problem, Random&) {
        for (Slot slot : {Slot::kMask, Slot::kKeep, Slot::kBias}) {
          const bool slopes =
              slot == Slot::kBias && IsAlibi(problem.score.bias);
          if (!problem.has(slot) || slopes) continue;
          const std::vector<Sequence>& sequences = problem.lengths.sequences;
          const Grid grid(problem[slot], sequences);
          const int64_t needed = grid.ElementsNeeded();
          for (int64_t b = 0; b < problem.lengths.count(); ++b) {
            const Sequence& sequence = sequences[static_cast<size_t>(b)];
            const int64_t rows = sequence.rows();
            const int64_t columns = sequence.columns();
            const Band band = problem.mask.BandOf(b, rows, columns);
            const GridPlane plane = grid.Plane(b, problem.heads - 1);
            for (int64_t i = 0; i < rows; ++i) {
              for (int64_t j = grid.FirstColumn(b); j < columns; ++j) {
                if (!band.Sees(i, j)) continue;
                ASSERT_GE(plane.At(i, j), 0) << Name(slot);
                ASSERT_LT(plane.At(i, j), needed) << Name(slot);
              }
            }
          }
        }
      });
}

}  // namespace
}  // namespace flashacl
