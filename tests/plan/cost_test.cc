// SPDX-License-Identifier: Apache-2.0
// Counted work against counting one by one, and against numbers by hand.
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "problem/notation.h"

namespace flashacl {
namespace {

TEST(Cost, VisiblePairsAreWhatSeesCounts) {
  std::mt19937 engine(1);
  const auto in = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 20000; ++round) {
    Band band;
    if (in(0, 3) > 0) band.lower = in(-15, 15);
    if (in(0, 3) > 0) band.upper = in(-15, 15);
    if (in(0, 1) > 0) band.prefix = in(-2, 20);
    const int64_t row = in(0, 10);
    const int64_t column = in(0, 10);
    const Range rows{row, row + in(-1, 15)};
    const Range cols{column, column + in(-1, 15)};
    double expected = 0;
    for (int64_t i = rows.first; i < rows.last; ++i) {
      for (int64_t j = cols.first; j < cols.last; ++j) {
        expected += band.Sees(i, j) ? 1 : 0;
      }
    }
    ASSERT_EQ(VisiblePairs(band, rows, cols), expected)
        << "band " << band.lower << ":" << band.upper << ":" << band.prefix
        << " rows " << rows.first << "-" << rows.last << " columns "
        << cols.first << "-" << cols.last;
  }
}

TEST(Cost, VisiblePairsOfLongSequencesAreExact) {
  const double n = 1 << 20;
  const Band causal = Causal().For(1 << 20, 1 << 20);
  EXPECT_EQ(VisiblePairs(causal, {0, 1 << 20}, {0, 1 << 20}), n * (n + 1) / 2);
  EXPECT_EQ(VisiblePairs({}, {0, 1 << 20}, {0, 1 << 20}), n * n);
}

// Two heads share one of keys; 3 queries, 5 keys, dims 4 and 8, bf16.
AttentionProblem Small() {
  AttentionProblem problem;
  problem.heads = 2;
  problem.kv_heads = 1;
  problem.qk_dim = 4;
  problem.v_dim = 8;
  problem.lengths.sequences = {{{0, 3}, {0, 5}}};
  problem[Slot::kQuery] = DenseSpec(DType::kBf16, {1, 3, 2, 4});
  problem[Slot::kKey] = DenseSpec(DType::kBf16, {1, 5, 1, 4});
  problem[Slot::kValue] = DenseSpec(DType::kBf16, {1, 5, 1, 8});
  problem[Slot::kOut] = DenseSpec(DType::kBf16, {1, 3, 2, 8});
  problem[Slot::kRowMax] = DenseSpec(DType::kF32, {1, 2, 3, 1});
  problem[Slot::kRowSum] = DenseSpec(DType::kF32, {1, 2, 3, 1});
  return problem;
}

TEST(Cost, ForwardByHand) {
  const Cost work = CountCost(Small());
  EXPECT_EQ(work.pairs, 2 * 15);
  EXPECT_EQ(work.all_pairs, 2 * 15);
  EXPECT_EQ(work.skipped(), 0);
  EXPECT_EQ(work.flops, 30 * (2 * 4 + 2 * 8));
  EXPECT_EQ(work.bytes_read, 2 * (3 * 2 * 4 + 5 * 4 + 5 * 8));
  EXPECT_EQ(work.bytes_written, 2 * 3 * 2 * 8 + 2 * 4 * 6);
  EXPECT_FALSE(work.upper_bound);
}

TEST(Cost, WhatNobodySeesIsNotRead) {
  AttentionProblem problem = Small();
  problem.mask.rules = {CausalTopLeft()};
  const Cost work = CountCost(problem);
  EXPECT_EQ(work.pairs, 2 * (1 + 2 + 3));
  EXPECT_DOUBLE_EQ(work.skipped(), 0.6);
  EXPECT_EQ(work.bytes_read, 2 * (3 * 2 * 4 + 3 * 4 + 3 * 8));
}

TEST(Cost, BackwardByHand) {
  AttentionProblem problem = Small();
  problem.direction = Direction::kBackward;
  problem[Slot::kGradOut] = problem[Slot::kOut];
  problem[Slot::kGradQuery] = problem[Slot::kQuery];
  problem[Slot::kGradKey] = problem[Slot::kKey];
  problem[Slot::kGradValue] = problem[Slot::kValue];
  const Cost work = CountCost(problem);
  EXPECT_EQ(work.flops, 30 * (6 * 4 + 4 * 8));
  const double qkv = 2 * (3 * 2 * 4 + 5 * 4 + 5 * 8);
  EXPECT_EQ(work.bytes_read, qkv + 2 * 2 * 3 * 2 * 8 + 2 * 4 * 6);
  EXPECT_EQ(work.bytes_written, qkv);
  EXPECT_EQ(ResultBytes(problem), qkv);
}

TEST(Cost, WhatRepeatsIsReadOnce) {
  AttentionProblem problem = Small();
  TensorSpec mask = DenseSpec(DType::kBool, {1, 2, 3, 5});
  mask.strides = {0, 0, 5, 1};
  problem[Slot::kMask] = mask;
  EXPECT_EQ(CountCost(problem).bytes_read, CountCost(Small()).bytes_read + 15);
  EXPECT_TRUE(CountCost(problem).upper_bound);
}

TEST(Cost, KeepBitsAreBits) {
  AttentionProblem problem = Small();
  problem[Slot::kKeep] = DenseSpec(DType::kU8, {1, 2, 3, 8});
  EXPECT_EQ(CountCost(problem).bytes_read, CountCost(Small()).bytes_read + 6);
}

TEST(Cost, ListsAndLengthsOfTheDeviceAreUpperBounds) {
  AttentionProblem lengths = Small();
  lengths.lengths.keys = Lengths::Device::kCounts;
  EXPECT_TRUE(CountCost(lengths).upper_bound);

  AttentionProblem listed = Small();
  listed.kv.selection = KvSource::Selection::kTopK;
  listed[Slot::kTopK] = DenseSpec(DType::kI32, {1, 3, 1, 2});
  const Cost work = CountCost(listed);
  EXPECT_TRUE(work.upper_bound);
  EXPECT_EQ(work.pairs, 2 * 3 * 2);
}

TEST(Cost, NothingCostsNothing) {
  AttentionProblem problem = Small();
  problem.lengths.sequences = {{{0, 0}, {0, 5}}, {{0, 0}, {5, 5}}};
  const Cost work = CountCost(problem);
  EXPECT_EQ(work.pairs, 0);
  EXPECT_EQ(work.skipped(), 0);
  EXPECT_EQ(work.bytes_read, 0);
}

// By what takes longer: 2 * (16 + 16) * 2 * 30 * 31 FLOP, or 15.5 KiB.
TEST(Cost, TimeOfOneThread) {
  const AttentionProblem problem = *Parse("fwd f32 h=2 d=16 q=30 k=31");
  EXPECT_DOUBLE_EQ(MicrosecondsOf(problem, 1), 119.04);
  const double bytes = 2 * 4 * 2 * 16 * (30 + 31);
  EXPECT_GE(MicrosecondsOf(problem, 1e6), bytes / 10 * 1e-3);
  EXPECT_LT(MicrosecondsOf(problem, 1e6), 1.2 * bytes / 10 * 1e-3);
  EXPECT_TRUE(std::isinf(MicrosecondsOf(problem, 0)));
  EXPECT_TRUE(
      std::isinf(MicrosecondsOf(*Parse("fwd f32 h=2 d=16 q=33x1 k=33x1"), 1)));
}

}  // namespace
}  // namespace flashacl
