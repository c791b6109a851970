// SPDX-License-Identifier: Apache-2.0
// Few rows: heads side by side, and the same bits however keys lie, workers
// share and sequences are batched.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/byte_dots.h"
#include "cpu/decode/decode_kernel.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"

namespace flashacl {
namespace {

using cpu::ByteDots;
using cpu::PairDots;
using testing::ExpectRight;
using testing::ExpectStaysInside;
using testing::OnTarget;
using testing::ProblemOf;
using testing::RunOn;

class Decode : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

// Heads side by side: four at a time, of the last line three.
TEST_P(Decode, IsRightOnBundles) {
  for (const char* line :
       {"fwd bf16 h=16/8 d=64+32/64 q=4x1 k=4x100",
        "fwd f16 h=8 d=64 q=4x1 k=4x130 causal stats",
        "fwd bf16 h=16/8 d=64+32/64 q=4x1 k=4x100 shared",
        "fwd f16 h=16/8 d=64 q=4x2 k=4x100 paged:16 causal sink",
        "fwd f16 h=8 d=128 q=4x1 k=4x100 int8:channel+offset",
        "fwd f16 h=32/16 d=64 q=4x1 k=4x100 int4:row-head+offset",
        "fwd bf16 h=32/8 d=40 q=4x1 k=100,3,0,49 mask bias"}) {
    SCOPED_TRACE(line);
    const AttentionProblem problem = ProblemOf(line);
    const int64_t rows = cpu::DecodeTileShape(problem).rows;
    const int64_t tiles = cpu::MostDecodeTiles(problem, TileShape::kAnyRows);
    EXPECT_GE(cpu::DecodePiece(problem, rows, tiles, 1).heads, 3);
    ExpectRight(line, "cpu/decode");
    SmallCase small(problem);
    Random random(7);
    small.FillInputs(random);
    ExpectStaysInside(kCpuDecode, small, {2, 3});
  }
}

TEST_P(Decode, LeavesOtherProblemsAlone) {
  for (const char* line :
       {"fwd f16 h=65/1 d=64 q=1 k=100", "fwd i8 h=2 d=16 q=1 k=40 int8:tensor",
        "fwd f16 h=1 d=8 q=1 k=40 topk:8"}) {
    SCOPED_TRACE(line);
    EXPECT_FALSE(kCpuDecode.supports(ProblemOf(line), {}).ok());
  }
}

TEST_P(Decode, HasTheSameBitsForAnyWorkerCount) {
  for (const char* line :
       {"fwd f16 h=8/2 d=64 q=3x1 k=4000,50,1600",
        "fwd bf16 h=6/6 d=40 q=2x2 k=3200,17 causal sink stats",
        "fwd f16 h=16/16 d=32 q=4x1 k=4x1700 int8:channel paged:32",
        "fwd f16 h=16/4 d=64 q=4x1 k=4x1700 int4:row+offset paged:32"}) {
    SCOPED_TRACE(line);
    SmallCase alone(ProblemOf(line));
    Random random(5);
    alone.FillInputs(random);
    RunOn(kCpuDecode, alone);
    for (const int workers : {2, 3, 5}) {
      SmallCase shared(alone.problem());
      shared.CopyInputs(alone);
      RunOn(kCpuDecode, shared, workers);
      EXPECT_EQ(shared.bytes(Slot::kOut), alone.bytes(Slot::kOut));
    }
  }
}

// Keys of one head after the other instead of all heads' side by side, and one
// sequence alone instead of three: with one micro-tile for each head, with two
// of which the last is smaller, and with keys of 8 KiB.
TEST_P(Decode, HasTheSameBitsHoweverKeysLie) {
  for (const char* line : {"fwd f16 h=32/16 d=32 q=3x1 k=3x2000",
                           "fwd bf16 h=28/4 d=64 q=3x1 k=3x500",
                           "fwd bf16 h=15/3 d=128 q=3x1 k=3x77",
                           "fwd f32 h=16/16 d=128 q=3x1 k=3x301"}) {
    SCOPED_TRACE(line);
    const AttentionProblem problem = ProblemOf(line);
    AttentionProblem apart = problem;
    const int64_t rows = 3 * problem.lengths.sequences[0].columns();
    const int64_t dim = problem.qk_dim, heads = problem.kv_heads;
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      apart[slot].strides = {0, dim, rows * dim, 1};
    }
    SmallCase side_by_side(problem), one_by_one(apart);
    Random random(6);
    side_by_side.FillInputs(random);
    one_by_one.Set(Slot::kQuery, side_by_side.Get(Slot::kQuery));
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      for (int64_t j = 0; j < rows; ++j) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < dim; ++d) {
            one_by_one.Put(
                slot, apart[slot].At(0, j, h, d),
                side_by_side.Get(slot, problem[slot].At(0, j, h, d)));
          }
        }
      }
    }
    AttentionProblem last = problem;
    last.lengths.sequences.erase(last.lengths.sequences.begin(),
                                 last.lengths.sequences.begin() + 2);
    SmallCase alone(last);
    alone.CopyInputs(side_by_side);
    RunOn(kCpuDecode, side_by_side, 2);
    RunOn(kCpuDecode, one_by_one, 2);
    RunOn(kCpuDecode, alone, 2);
    EXPECT_EQ(one_by_one.bytes(Slot::kOut), side_by_side.bytes(Slot::kOut));
    const std::vector<double> all = side_by_side.Get(Slot::kOut);
    const std::vector<double> own = alone.Get(Slot::kOut);
    const auto row = static_cast<size_t>(problem.heads * dim);
    for (size_t n = 0; n < row; ++n) {
      ASSERT_EQ(own[2 * row + n], all[2 * row + n]) << n;
    }
  }
}

// Pages of channel blocks, some of them missing, hold what pages of rows hold:
// of 1 to 4 rows and of several micro-tiles, with pieces that products read
// where they lie, and with such that are joined. Matrix registers take rows
// alone, which have other bits there.
TEST_P(Decode, HasTheSameBitsInBlocksOfChannels) {
  for (const char* line :
       {"fwd bf16 h=4/1 d=128 q=3x1 k=100,3,49 paged:16 blocks:16",
        "fwd f16 h=6/2 d=64/96 q=2x1 k=2x100 paged:32 blocks:16 causal",
        "fwd f16 h=2/1 d=32 q=3x1 k=70,1,48 paged:16 blocks:16",
        "fwd bf16 h=1 d=96/32 q=2x1 k=2x130 paged:64 blocks:16",
        "fwd bf16 h=5/1 d=64 q=2x3 k=2x130 paged:16 blocks:16 causal",
        "fwd f16 h=4/1 d=48/16 q=2x1 k=2x60 paged:16 blocks:16",
        "fwd f16 h=4/1 d=64+32/64 q=2x1 k=2x60 paged:16 blocks:16",
        "fwd bf16 h=4/1 d=128/64 q=2x1 k=2x90 paged:16 shared blocks:16",
        "fwd bf16 h=4/1 d=128 q=2x1 k=2x90 paged:16 blocks:32 int8:channel",
        "fwd f16 h=3/1 d=64 q=2x1 k=2x90 paged:16 blocks:32 int8:page-row-head",
        "fwd f16 h=1 d=64 q=2x1 k=2x90 paged:16 blocks:32 int8:row+offset",
        "fwd f32 h=4/1 d=64 q=2x1 k=2x90 paged:16 blocks:8"}) {
    SCOPED_TRACE(line);
    const std::string_view text = line;
    const size_t from = text.find(" blocks:");
    const size_t to = text.find(' ', from + 1);
    std::string in_rows(text.substr(0, from));
    if (to != std::string_view::npos) in_rows += text.substr(to);
    SmallCase blocks(ProblemOf(line)), rows(ProblemOf(in_rows));
    Random random(8);
    blocks.FillInputs(random);
    const AttentionProblem& problem = blocks.problem();
    for (size_t slots = 0; slots < kSlots; ++slots) {
      const Slot slot = static_cast<Slot>(slots);
      const TensorSpec& spec = problem[slot];
      if (!problem.has(slot) || IsOutput(problem.direction, slot)) continue;
      if (spec.channel_block == 0) {
        rows.Copy(slot, blocks);
        continue;
      }
      const std::array<int64_t, 4>& dims = spec.dims;
      for (int64_t n = 0; n < dims[0] * dims[1] * dims[2] * dims[3]; ++n) {
        const int64_t d = n % dims[3], h = n / dims[3] % dims[2];
        const int64_t page = n / dims[3] / dims[2] / dims[1];
        const int64_t row = n / dims[3] / dims[2] % dims[1];
        rows.Put(slot, rows.problem()[slot].At(page, row, h, d),
                 blocks.Get(slot, spec.At(page, row, h, d)));
      }
    }
    for (const bool missing : {false, true}) {
      if (missing) {
        blocks.Put(Slot::kBlockTable, 1, -1);
        rows.Put(Slot::kBlockTable, 1, -1);
      }
      cpu::SetByteDotsForTest(ByteDots::kNone);
      for (const PairDots dots : {PairDots::kNone, PairDots::kMultiplyAdds}) {
        cpu::SetPairDotsForTest(dots);
        RunOn(kCpuDecode, blocks, 2);
        RunOn(kCpuDecode, rows, 2);
        EXPECT_EQ(blocks.bytes(Slot::kOut), rows.bytes(Slot::kOut));
      }
      cpu::SetByteDotsForTest({});
      cpu::SetPairDotsForTest({});
    }
    ExpectStaysInside(kCpuDecode, blocks, {2, 3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Decode,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl
