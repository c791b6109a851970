// SPDX-License-Identifier: Apache-2.0
// The workspace of few rows stays small, and whose tiles go side by side
// depends on how keys lie.
#include "cpu/decode/decode_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/share_tuning.h"
#include "tests/cpu/runs.h"

namespace flashacl::cpu {
namespace {

using testing::PlanOn;
using testing::ProblemOf;

int64_t WorkspaceOf(const std::string& line) {
  return PlanOn(kCpuDecode, ProblemOf(line), 2).workspace.bytes();
}

TEST(DecodeWorkspace, OnlySplitsGrowWithKeys) {
  const int64_t brief = WorkspaceOf("fwd f16 h=32/8 d=128 q=8x1 k=8x700");
  EXPECT_EQ(brief, WorkspaceOf("fwd f16 h=32/8 d=128 q=8x1 k=8x768"));
  const int64_t num_splits = 1000000 / kFewRowsSplitKeys + 1;
  EXPECT_LE(WorkspaceOf("fwd f16 h=32/8 d=128 q=1 k=1000000"),
            brief + num_splits * 32 * (128 + 2) * 4 + 64);
  EXPECT_LT(brief, 2 << 20);
}

// Digits of queries, of each micro-tile of two workers, are only where there
// may be some (decode_bytes-inl.h).
TEST(DecodeWorkspace, HasDigitsWhereRowsOf8BitsAreMultiplied) {
  const auto with_digits = [](const char* line, const char* without) {
    const std::string shape = " d=128 q=1 k=100 ";
    return WorkspaceOf(line + shape + "int8:channel") -
           WorkspaceOf(line + shape + without);
  };
  EXPECT_EQ(with_digits("fwd f16 h=8/1", "int4:channel"),
            2 * 2 * ByteQueryWords(128) * 4);
  EXPECT_EQ(with_digits("fwd f16 h=2/1", "int4:channel"),
            2 * ByteQueryWords(128) * 4);
  EXPECT_EQ(with_digits("fwd f16 h=1/1", "int4:channel"),
            2 * ByteQueryWords(128) * 4);
  EXPECT_EQ(with_digits("fwd f32 h=8/1", "int4:channel"), 0);
}

TEST(DecodeWorkspace, TilesHaveAllRowsOfASequence) {
  EXPECT_EQ(PackedRowsOf(ProblemOf("fwd f16 h=8/2 d=8 q=3,5,1 k=9,9,9")).most,
            20);
  const TileShape shape =
      DecodeTileShape(ProblemOf("fwd f16 h=8/2 d=8 q=3,5,1 k=9,9,9"));
  EXPECT_EQ(shape.rows, 20);
  EXPECT_EQ(shape.split_rows, 20);
  EXPECT_EQ(shape.split_keys % shape.cols, 0);
}

PieceShape PieceOf(const AttentionProblem& problem, int64_t workers) {
  return DecodePiece(problem, DecodeTileShape(problem).rows,
                     MostDecodeTiles(problem, TileShape::kAnyRows), workers);
}

int64_t BundleOf(const AttentionProblem& problem) {
  return PieceOf(problem, /*workers=*/2).heads;
}

TEST(DecodeWorkspace, HeadsGoSideBySideWhereTheirKeysLieSo) {
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192")), 8);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x1 k=8x8192")), 32);
  EXPECT_EQ(
      BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x1 k=8x8192 int8:channel")),
      16);
  EXPECT_EQ(
      BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x1 k=8x8192 int4:channel")),
      32);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=64/1 d=128 q=8x1 k=8x8192")), 1);
  AttentionProblem problem = ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192");
  TensorSpec& key = problem[Slot::kKey];
  key.strides = {0, 128, 65536 * 128, 1};
  EXPECT_EQ(BundleOf(problem), 1);
  key.strides = {0, 160, 65536 * 160, 1};  // rows are longer than keys
  EXPECT_EQ(BundleOf(problem), 1);
  key.strides = {0, 8 * 160, 160, 1};
  EXPECT_EQ(BundleOf(problem), 8);
  problem[Slot::kValue].strides = {0, 128, 65536 * 128, 1};
  EXPECT_EQ(BundleOf(problem), 1);
  // A short call is better shared among workers.
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32/8 d=128 q=1 k=512")), 1);
}

// Queries and sums of many rows fill caches; and bundles are as even as can be.
TEST(DecodeWorkspace, FewerHeadsGoSideBySideOfManyRows) {
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x2 k=8x8192")), 32);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x4 k=8x8192")), 16);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x8 k=8x8192")), 8);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=32 d=128 q=8x64 k=8x8192")), 8);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=64/8 d=128 q=8x8 k=8x8192")), 8);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=12 d=128 q=8x40 k=8x8192")), 6);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=20 d=128 q=8x4 k=8x8192")), 10);
  EXPECT_EQ(BundleOf(ProblemOf("fwd f16 h=20 d=256 q=8x1 k=8x8192")), 10);
}

// Of 64 sequences planned for 32,768 keys each, one has them when it runs.
TEST(DecodeWorkspace, PiecesAreAsSmallAsTheTilesOfARunAsk) {
  EXPECT_EQ(SplitsOfPiece(/*tiles=*/64 * 43, /*heads=*/1, /*workers=*/16), 8);
  EXPECT_EQ(SplitsOfPiece(63 + 43, 1, 16), 1);
}

TEST(DecodeWorkspace, PiecesAreSmallerForMoreWorkers) {
  const AttentionProblem batch =
      ProblemOf("fwd f16 h=32/8 d=128 q=8x1 k=8x8192");
  EXPECT_EQ(PieceOf(batch, 1), (PieceShape{.heads = 8, .splits = 5}));
  EXPECT_EQ(PieceOf(batch, 2), (PieceShape{.heads = 8, .splits = 5}));
  EXPECT_EQ(PieceOf(batch, 3), (PieceShape{.heads = 8, .splits = 2}));
  EXPECT_EQ(PieceOf(batch, 16), (PieceShape{.heads = 5, .splits = 1}));
  EXPECT_EQ(PieceOf(batch, 192), (PieceShape{.heads = 1, .splits = 1}));
  const AttentionProblem head =
      ProblemOf("fwd f16 h=4/1 d=128 q=16x1 k=16x32768");
  EXPECT_EQ(PieceOf(head, 2), (PieceShape{.heads = 1, .splits = 8}));
  EXPECT_EQ(PieceOf(head, 64), (PieceShape{.heads = 1, .splits = 1}));
  const AttentionProblem brief = ProblemOf("fwd f16 h=32/8 d=128 q=1 k=512");
  EXPECT_EQ(PieceOf(brief, 2), (PieceShape{.heads = 1, .splits = 1}));
}

}  // namespace
}  // namespace flashacl::cpu
