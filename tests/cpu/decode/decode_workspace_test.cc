// SPDX-License-Identifier: Apache-2.0
// The workspace of few rows stays small, and whose tiles go side by side
// depends on how keys lie.
#include "cpu/decode/decode_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/decode/decode.h"
#include "cpu/tuning.h"
#include "tests/cpu/runs.h"
#include "tests/testing/fenced_tensors.h"

namespace flashacl::cpu {
namespace {

using testing::PlanOn;
using testing::ProblemOf;

int64_t WorkspaceOf(const std::string& line) {
  return PlanOn(kCpuDecode, ProblemOf(line), 2).workspace.bytes();
}

TEST(DecodeScratch, OnlyPartsGrowWithKeys) {
  const int64_t brief = WorkspaceOf("fwd f16 h=32/8 d=128 q=8x1 k=8x1024");
  EXPECT_EQ(brief, WorkspaceOf("fwd f16 h=32/8 d=128 q=8x1 k=8x1536"));
  const int64_t num_splits = 1000000 / kDecodeSplitKeys + 1;
  EXPECT_LE(WorkspaceOf("fwd f16 h=32/8 d=128 q=1 k=1000000"),
            brief + num_splits * 32 * (128 + 2) * 4 + 64);
  EXPECT_LT(brief, 2 << 20);
}

TEST(DecodeScratch, TilesHaveAllRowsOfASequence) {
  EXPECT_EQ(MaxPackedRows(ProblemOf("fwd f16 h=8/2 d=8 q=3,5,1 k=9,9,9")), 20);
  const TileShape shape =
      DecodeTileShape(ProblemOf("fwd f16 h=8/2 d=8 q=3,5,1 k=9,9,9"));
  EXPECT_EQ(shape.rows, 20);
  EXPECT_EQ(shape.split_rows, 20);
  EXPECT_EQ(shape.split_keys % shape.cols, 0);
}

// The eight tiles of a worker share what one uses at a time, and nothing else;
// workers share nothing.
TEST(DecodeScratch, OnlyTilesOfOneWorkerShare) {
  WorkspaceLayout layout;
  const DecodeWorkspace workspace =
      ReserveDecode(ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192"), 0,
                    {.workers = 2, .tiles_per_worker = 8}, layout);
  const auto& scratch = workspace.score;
  const auto& forward = workspace.forward;
  ASSERT_EQ(scratch.count(), 16);
  const testing::FencedBytes memory(
      RoundUp(layout.bytes(), WorkspaceLayout::kAlignmentBytes));
  for (int64_t a = 0; a < scratch.count(); ++a) {
    for (int64_t b = 0; b < a; ++b) {
      const ScoreScratch one = scratch.At(memory.data(), a);
      const ScoreScratch other = scratch.At(memory.data(), b);
      const bool same = a / 8 == b / 8;
      EXPECT_EQ(one.keys == other.keys, same) << a << " " << b;
      EXPECT_EQ(one.staging == other.staging, same) << a << " " << b;
      EXPECT_EQ(one.visible == other.visible, same) << a << " " << b;
      EXPECT_EQ(one.kept == other.kept, same) << a << " " << b;
      EXPECT_NE(one.query, other.query);
      const ForwardScratch mine = forward.At(memory.data(), a);
      const ForwardScratch theirs = forward.At(memory.data(), b);
      EXPECT_NE(mine.out, theirs.out);
      EXPECT_NE(mine.scores, theirs.scores);
      EXPECT_NE(mine.max, theirs.max);
      EXPECT_NE(one.query_rows, other.query_rows);
    }
  }
  // The rows of the last worker, and the zeros behind them, end in time.
  const ScoreScratch last = scratch.At(memory.data(), 15);
  const float* const first = scratch.At(memory.data(), 0).keys;
  EXPECT_EQ(last.keys - first, (kDecodeColumns + 1) * last.key_stride);
}

TEST(DecodeScratch, HeadsGoSideBySideWhereTheirKeysLieSo) {
  EXPECT_EQ(HeadBundleOf(ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192")), 8);
  EXPECT_EQ(HeadBundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x1 k=8x8192")), 32);
  EXPECT_EQ(
      HeadBundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x1 k=8x8192 int8:channel")),
      16);
  EXPECT_EQ(HeadBundleOf(ProblemOf("fwd f16 h=64/1 d=128 q=8x1 k=8x8192")), 1);
  AttentionProblem problem = ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192");
  TensorSpec& key = problem[Slot::kKey];
  key.strides = {0, 128, 65536 * 128, 1};
  EXPECT_EQ(HeadBundleOf(problem), 1);
  key.strides = {0, 160, 65536 * 160, 1};  // rows are longer than keys
  EXPECT_EQ(HeadBundleOf(problem), 1);
  key.strides = {0, 8 * 160, 160, 1};
  EXPECT_EQ(HeadBundleOf(problem), 8);
  problem[Slot::kValue].strides = {0, 128, 65536 * 128, 1};
  EXPECT_EQ(HeadBundleOf(problem), 1);
  // A short call is better shared among workers.
  EXPECT_EQ(HeadBundleOf(ProblemOf("fwd f16 h=32/8 d=128 q=1 k=512")), 1);
}

}  // namespace
}  // namespace flashacl::cpu
