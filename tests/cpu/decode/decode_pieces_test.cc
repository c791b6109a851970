// SPDX-License-Identifier: Apache-2.0
// Few rows: splits that one worker computes one after the other have the bits
// that each has by itself, whatever became of those before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/str.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/share_tuning.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"

namespace flashacl {
namespace {

using cpu::kFewRowsSplitKeys;
using cpu::PairDots;
using testing::OnTarget;
using testing::ProblemOf;
using testing::RunOn;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kManyWorkers = 192;
constexpr int64_t kSplits = 64;
constexpr int64_t kKeys = kSplits * kFewRowsSplitKeys;

class DecodePieces : public ::testing::TestWithParam<int64_t> {
 protected:
  ~DecodePieces() override { cpu::SetPairDotsForTest({}); }

  static cpu::PieceShape PieceOf(const AttentionProblem& problem,
                                 int64_t workers) {
    const TileShape shape = cpu::DecodeTileShape(problem);
    const Schedule schedule = cpu::KnownSchedule(problem, shape);
    return cpu::DecodePiece(problem, shape.rows, schedule.count(), workers);
  }

  // One worker takes pieces of several splits, and of several heads where there
  // are some; each of many takes a single split.
  static void ExpectTheBitsOfSplitsAlone(const SmallCase& together) {
    const AttentionProblem& problem = together.problem();
    const cpu::PieceShape piece = PieceOf(problem, 1);
    EXPECT_GE(piece.splits, 2);
    EXPECT_GE(piece.heads, std::min<int64_t>(problem.kv_heads, 2));
    EXPECT_EQ(PieceOf(problem, kManyWorkers).splits, 1);
    SmallCase alone(problem);
    alone.CopyInputs(together);
    RunOn(kCpuDecode, together);
    RunOn(kCpuDecode, alone, kManyWorkers);
    for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
      EXPECT_EQ(together.bytes(slot), alone.bytes(slot)) << Name(slot);
    }
  }

  const OnTarget target_{GetParam()};
};

TEST_P(DecodePieces, HaveTheBitsOfSplitsAlone) {
  const std::string keys = Str("q=1 k={}", kKeys);
  for (const std::string& line :
       {Str("fwd f32 h=2/1 d=16 {} stats sink", keys),
        Str("fwd bf16 h=8/4 d=32 {} stats sink", keys),
        Str("fwd bf16 h=6/1 d=64 {} causal", keys),
        Str("fwd f16 h=6/1 d=64 {} int8:channel+offset", keys),
        Str("fwd f16 h=1 d=64 {} int8:row+offset", keys),
        Str("fwd f16 h=2/1 d=24 {} mask", keys),
        Str("fwd bf16 h=4/4 d=64+32/64 {} shared causal sink", keys),
        Str("fwd f16 h=8/4 d=64 q=2x1 k={},20000 int8:row+offset paged:32",
            kKeys),
        Str("fwd f16 h=4/2 d=64 q=1x2 k={} int4:row+offset paged:32 causal "
            "stats",
            kKeys)}) {
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    Random random(3);
    small.FillInputs(random);
    ExpectTheBitsOfSplitsAlone(small);
  }
}

// Between a prefix and a window lie splits of which no row sees a key: at the
// beginning of a piece, and of the short sequences in its middle.
TEST_P(DecodePieces, HaveTheBitsOfSplitsAloneWhereSomeSeeNothing) {
  for (const std::string& line :
       {Str("fwd f16 h=4/2 d=64 q=1 k={} window:1000:0:16 stats sink", kKeys),
        std::string("fwd f16 h=4/2 d=64 q=32x1 k=32x3000 window:700:0:16 "
                    "stats sink"),
        Str("fwd f16 h=4/2 d=64 q=1 k={} prefix:900 stats sink", kKeys)}) {
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    Random random(3);
    small.FillInputs(random);
    ExpectTheBitsOfSplitsAlone(small);
  }
}

// Pages that are none are keys that do not exist, in some splits all of them.
TEST_P(DecodePieces, HaveTheBitsOfSplitsAloneWhereKeysAreAbsent) {
  SmallCase small(
      ProblemOf(Str("fwd bf16 h=8/4 d=32 q=1 k={} paged:128", kKeys)));
  Random random(4);
  small.FillInputs(random);
  testing::SpoilTable(small, random);
  for (int64_t n = 12; n < 24; ++n) small.Put(Slot::kBlockTable, n, -1);
  ExpectTheBitsOfSplitsAlone(small);
}

// Planned for the longest lengths there may be, and run with shorter ones.
TEST_P(DecodePieces, HaveTheBitsOfSplitsAloneOfLengthsOnTheDevice) {
  SmallCase small(
      ProblemOf(Str("fwd f16 h=4/2 d=32 q=4x1 k=4x{} counts:k", kKeys / 4)));
  Random random(6);
  small.FillInputs(random);
  SmallCase alone(small.problem());
  alone.CopyInputs(small);
  RunOn(kCpuDecode, small);
  RunOn(kCpuDecode, alone, kManyWorkers);
  EXPECT_EQ(small.bytes(Slot::kOut), alone.bytes(Slot::kOut));
}

// A split begins anew where a hidden value is infinite, or sums pass what
// floats hold; the next one must not.
TEST_P(DecodePieces, BeginOneSplitAnewAndNotTheNext) {
  for (const PairDots dots : {PairDots::kNone, PairDots::kMatrices}) {
    cpu::SetPairDotsForTest(dots);
    const AttentionProblem problem =
        ProblemOf(Str("fwd bf16 h=12/2 d=64 q=1 k={} mask stats", kKeys));
    SmallCase small(problem);
    Random random(5);
    small.FillInputs(random);
    const TensorSpec& value = problem[Slot::kValue];
    const auto key_of = [](int64_t split) {
      return split * kFewRowsSplitKeys + 5;
    };
    for (const int64_t split : {9, 10, 20}) {
      const int64_t j = key_of(split);
      small.PutCell(Slot::kMask, {0, 0, 0, j}, 1);
      small.Put(Slot::kValue, value.At(0, j, 1, 3), kInfinity);
    }
    for (const int64_t split : {20, 21, 30}) {
      for (int64_t j = key_of(split) + 1; j < key_of(split) + 300; ++j) {
        small.Put(Slot::kValue, value.At(0, j, 1, 4), 0x1.8p127);
      }
    }
    ExpectTheBitsOfSplitsAlone(small);
    for (int64_t h = 0; h < 12; ++h) {
      const double out =
          small.Get(Slot::kOut, problem[Slot::kOut].At(0, 0, h, 3));
      EXPECT_LT(std::abs(out), 10) << "of a hidden value";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodePieces,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl
