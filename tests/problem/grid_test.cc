// SPDX-License-Identifier: Apache-2.0
// Where the element of a score or a row is, for every placement.
#include "problem/grid.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace flashacl {
namespace {

const std::vector<Sequence> kSequences = {
    {{0, 3}, {0, 2}}, {{3, 3}, {2, 7}}, {{3, 7}, {7, 10}}};

TEST(Grid, StridedCountsFromTheSequence) {
  const TensorSpec spec = DenseSpec(DType::kU8, {3, 2, 4, 5});
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(2, 1).At(3, 4), ((2 * 2 + 1) * 4 + 3) * 5 + 4);
  EXPECT_EQ(grid.ElementsNeeded(), 3 * 2 * 4 * 5);
}

TEST(Grid, StrideZeroRepeats) {
  TensorSpec spec = DenseSpec(DType::kU8, {1, 1, 4, 5});
  spec.strides[0] = spec.strides[1] = 0;
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(2, 1).At(1, 2), 7);
  EXPECT_EQ(grid.ElementsNeeded(), 20);
}

TEST(Grid, TensorScoresCountFromTheTensor) {
  TensorSpec spec = DenseSpec(DType::kU8, {1, 1, 7, 10});
  spec.placement = Placement::kTensorScores;
  spec.strides[0] = spec.strides[1] = 0;
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(2, 0).At(1, 2), (3 + 1) * 10 + 7 + 2);
}

// Lanes do not move with the keys.
TEST(Grid, TensorRowsCountRowsOnly) {
  TensorSpec spec = DenseSpec(DType::kF32, {1, 7, 2, 8});
  spec.dims = {3, 2, 7, 8};  // [sequence, head, row, lane] of [row, head, lane]
  spec.strides = {0, 8, 16, 1};
  spec.placement = Placement::kTensorRows;
  EXPECT_EQ(Grid(spec, kSequences).Plane(2, 1).At(1, 3), 4 * 16 + 8 + 3);
}

TEST(Grid, BlocksFollowOneAnother) {
  TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
  spec.dims = {3, 2, TensorSpec::kPerSequence, TensorSpec::kPerSequence};
  const Grid grid(spec, kSequences);
  // Blocks of 2 x 3 x 2, 2 x 0 x 5 and 2 x 4 x 3.
  EXPECT_EQ(grid.Plane(0, 1).At(2, 1), 6 + 5);
  EXPECT_EQ(grid.Plane(2, 0).At(0, 0), 12);
  EXPECT_EQ(grid.Plane(2, 1).At(3, 2), 12 + 12 + 11);
  EXPECT_EQ(grid.ElementsNeeded(), 36);
}

TEST(Grid, BlocksMayBeSpaced) {
  TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
  spec.dims = {3, 2, TensorSpec::kPerSequence, TensorSpec::kPerSequence};
  spec.strides[3] = 3;
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(0, 1).At(2, 1), 3 * (6 + 5));
  EXPECT_EQ(grid.Plane(2, 1).At(3, 2), 3 * (12 + 12 + 11));
  EXPECT_EQ(grid.ElementsNeeded(), 35 * 3 + 1);
}

// Column 0 of the tensor is the first of as many last keys as there are rows.
TEST(Grid, TailsAreOfTheLastColumns) {
  const std::vector<Sequence> sequences{{{0, 2}, {0, 5}}, {{2, 5}, {5, 8}}};
  TensorSpec spec = DenseSpec(DType::kBool, {2, 1, 4, 4});
  spec.placement = Placement::kTail;
  const Grid planes(spec, sequences);
  EXPECT_EQ(planes.FirstColumn(0), 3);
  EXPECT_EQ(planes.FirstColumn(1), 0);
  EXPECT_EQ(planes.Plane(0, 0).At(1, 3), 4);
  EXPECT_EQ(planes.Plane(0, 0).At(1, 4), 5);
  EXPECT_EQ(planes.Plane(1, 0).At(2, 2), 16 + 8 + 2);

  TensorSpec blocks{.dtype = DType::kBool, .placement = Placement::kTailBlocks};
  blocks.dims = {2, 1, TensorSpec::kPerSequence, TensorSpec::kPerSequence};
  const Grid packed(blocks, sequences);
  EXPECT_EQ(packed.Plane(0, 0).At(1, 4), 3);
  EXPECT_EQ(packed.Plane(1, 0).At(1, 2), 4 + 3 + 2);
  EXPECT_EQ(packed.ElementsNeeded(), 4 + 9);
}

TEST(Grid, TailsOfSequencesWithoutKeysBeginAtColumnZero) {
  TensorSpec spec = DenseSpec(DType::kBool, {1, 1, 2, 2});
  spec.placement = Placement::kTail;
  const std::vector<Sequence> sequences{{{0, 2}, {0, 0}}};
  EXPECT_EQ(Grid(spec, sequences).FirstColumn(0), 0);
}

// 10 channels in blocks of 4 that are 12 elements apart.
TEST(Grid, BlocksOfChannelsNeedAllThatLiesBetween) {
  TensorSpec spec{.dtype = DType::kF32, .dims = {1, 3, 1, 10}};
  spec.strides = {0, 4, 0, 1};
  spec.channel_block = 4;
  spec.block_stride = 12;
  EXPECT_EQ(Grid(spec, kSequences).ElementsNeeded(), 2 * 4 + 2 * 12 + 3 + 1);
}

TEST(Grid, BlocksMayShareHeadsAndRows) {
  TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
  spec.dims = {3, 1, 1, TensorSpec::kPerSequence};
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(2, 1).At(3, 2), 2 + 5 + 2);
  EXPECT_EQ(grid.ElementsNeeded(), 10);
}

TEST(Grid, BlocksHaveLanes) {
  TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
  spec.dims = {3, 2, TensorSpec::kPerSequence, 8};
  const Grid grid(spec, kSequences);
  EXPECT_EQ(grid.Plane(2, 1).At(1, 7), 2 * 3 * 8 + 4 * 8 + 8 + 7);
  EXPECT_EQ(grid.ElementsNeeded(), 2 * 7 * 8);
}

// Every element of every block has a place of its own, and none is left over.
TEST(Grid, BlocksAreDenseForAnySequences) {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    std::vector<Sequence> sequences;
    for (int64_t n = random.Within(0, 4); n > 0; --n) {
      sequences.push_back({{0, random.Within(0, 5)}, {0, random.Within(0, 5)}});
    }
    const int64_t heads = random.Within(1, 3);
    TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
    spec.dims = {0, heads, TensorSpec::kPerSequence, TensorSpec::kPerSequence};
    const Grid grid(spec, sequences);
    std::set<int64_t> places;
    int64_t count = 0;
    for (size_t b = 0; b < sequences.size(); ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const GridPlane plane = grid.Plane(static_cast<int64_t>(b), h);
        for (int64_t i = 0; i < sequences[b].rows(); ++i) {
          for (int64_t j = 0; j < sequences[b].columns(); ++j) {
            places.insert(plane.At(i, j));
            ++count;
          }
        }
      }
    }
    ASSERT_EQ(static_cast<int64_t>(places.size()), count);
    ASSERT_EQ(grid.ElementsNeeded(), count);
    ASSERT_TRUE(count == 0 || *places.rbegin() == count - 1);
  }
}

// A stored Toeplitz matrix answers for all rows as the whole one would.
TEST(Grid, DiagonalsStandForTheWholeMatrix) {
  constexpr int64_t kSide = 12;
  constexpr int64_t kStored = 5;
  TensorSpec spec = DenseSpec(DType::kF32, {1, 1, kStored, kSide});
  spec.placement = Placement::kDiagonal;
  const std::vector<Sequence> whole = {{{0, kSide}, {0, kSide}}};
  const GridPlane plane = Grid(spec, whole).Plane(0, 0);
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t at = plane.At(i, j);
      ASSERT_GE(at, 0);
      ASSERT_LT(at, kStored * kSide);
      const int64_t row = at / kSide + kSide - kStored;
      ASSERT_EQ(row - at % kSide, i - j) << i << " " << j;
    }
  }
}

// The examples of the format: 1024 rows of a matrix of 1536.
TEST(Grid, DiagonalExamples) {
  TensorSpec spec = DenseSpec(DType::kF32, {1, 1, 1024, 1536});
  spec.placement = Placement::kDiagonal;
  const std::vector<Sequence> sequences = {{{0, 1536}, {0, 1536}}};
  const GridPlane plane = Grid(spec, sequences).Plane(0, 0);
  EXPECT_EQ(plane.At(512, 0), 0);
  EXPECT_EQ(plane.At(1535, 1535), 1023 * 1536 + 1535);
  EXPECT_EQ(plane.At(0, 0), 512);
  EXPECT_EQ(plane.At(100, 40) % 1536 - plane.At(100, 40) / 1536, 452);
  const std::vector<Sequence> shorter = {{{0, 1200}, {0, 1200}}};
  EXPECT_EQ(Grid(spec, shorter).Plane(0, 0).At(1199, 0), 687 * 1536);
}

}  // namespace
}  // namespace flashacl
