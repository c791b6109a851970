// SPDX-License-Identifier: Apache-2.0
// Where a line puts keys and values: the canonical layouts.
#include <gtest/gtest.h>

#include "problem/notation.h"
#include "problem/problem_spec.h"

namespace flashacl {
namespace {

AttentionProblem Problem(const char* line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  return problem.ok() ? *problem : AttentionProblem();
}

// [page, head, block, row, channel of the block]: channel 17 of row 1 of a page
// is channel 1 of block 1.
TEST(KeySpec, BlocksOfChannelsLieWithinPagesAndHeads) {
  const AttentionProblem problem =
      Problem("fwd f16 h=4/2 d=32 q=1 k=8 paged:4 blocks:16");
  const TensorSpec& key = problem[Slot::kKey];
  EXPECT_EQ(key.dims, (std::array<int64_t, 4>{2, 4, 2, 32}));
  EXPECT_EQ(key.At(1, 1, 1, 17), (((1 * 2 + 1) * 2 + 1) * 4 + 1) * 16 + 1);
  EXPECT_EQ(key.ChannelSpan(), 64 + 15);
}

// Of sequences that lie one after the other: their rows say where they begin.
TEST(KeySpec, BlocksOfChannelsLieWithinPackedHeads) {
  const AttentionProblem problem =
      Problem("fwd f16 h=4/2 d=32 q=2x1 k=8,3 blocks:16");
  const TensorSpec& key = problem[Slot::kKey];
  EXPECT_EQ(key.dims, (std::array<int64_t, 4>{2, 11, 2, 32}));
  EXPECT_EQ(key.At(1, 9, 1, 17), ((1 * 2 + 1) * 11 + 9) * 16 + 1);
}

TEST(KeySpec, ScalesByRowCountSequencesOrPages) {
  AttentionProblem problem =
      Problem("fwd f16 h=4/2 d=32 q=2x1 k=8,3 int8:row-head/row+offset");
  EXPECT_EQ(problem[Slot::kKeyRowScale].dims,
            (std::array<int64_t, 4>{2, 8, 2, 1}));
  EXPECT_FALSE(problem.has(Slot::kKeyRowOffset));
  EXPECT_EQ(problem[Slot::kValueRowOffset].strides[2], 0);
  problem = Problem("fwd f16 h=4/2 d=32 q=2x1 k=8,3 paged:4 int8:page-row");
  EXPECT_TRUE(problem.kv.row_scales_in_pages);
  EXPECT_EQ(problem[Slot::kKeyRowScale].dims,
            (std::array<int64_t, 4>{3, 4, 1, 1}));
}

TEST(KeySpec, WordsOfFourBitsAreEightChannels) {
  AttentionProblem problem =
      Problem("fwd f16 h=4/2 d=64/32 q=2x1 k=8,3 prefix:5 int4:channel");
  const TensorSpec& key = problem[Slot::kKey];
  EXPECT_EQ(key.dtype, DType::kI4x8);
  EXPECT_EQ(key.dims, (std::array<int64_t, 4>{2, 11, 2, 8}));
  EXPECT_EQ(key.strides, (std::array<int64_t, 4>{0, 16, 8, 1}));
  EXPECT_EQ(key.channels(), 64);
  EXPECT_EQ(problem[Slot::kValue].dims[3], 4);
  EXPECT_EQ(problem[Slot::kKeyPrefix].dims[3], 8);
  EXPECT_EQ(problem[Slot::kKeyScale].dims[1], 64);
  EXPECT_EQ(problem[Slot::kValueScale].dims[1], 32);
  problem = Problem("fwd f16 h=2 d=128 q=1 k=8 paged:4 blocks:64 int4:row");
  EXPECT_EQ(problem[Slot::kKey].dims, (std::array<int64_t, 4>{2, 4, 2, 16}));
  EXPECT_EQ(problem[Slot::kKey].channel_block, 8);
  EXPECT_EQ(problem[Slot::kKey].block_stride, 4 * 8);
  EXPECT_EQ(SpecOf(problem).channel_block, 64);
  EXPECT_TRUE(SpecOf(problem).int4);
}

TEST(KeySpec, RopesBesideListsAreOneTensor) {
  const AttentionProblem problem =
      Problem("fwd f16 h=4/2 d=8+4 q=2x1 k=5,30 list");
  EXPECT_EQ(problem[Slot::kKeyRope].dims,
            (std::array<int64_t, 4>{2, 30, 2, 4}));
}

}  // namespace
}  // namespace flashacl
