// SPDX-License-Identifier: Apache-2.0
// Few rows of bf16 whose scores are sums of pairs of channels, and outputs of
// pairs of keys where probs may be rounded: right, of any shape that takes
// them, and the same whether the instruction makes them or multiply-adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/shared_conversions.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::OneOf;
using testing::ProblemOf;
using testing::RunOn;

using testing::kInfinity;

// A problem whose keys are whole vectors of pairs on every target: groups of 1
// to 8, odd numbers of keys, ropes, pages, blocks, masks, probs that may be
// rounded.
std::string AnyLine(Random& random) {
  const auto number = [&](int64_t first, int64_t last) {
    return std::to_string(random.Within(first, last));
  };
  const int64_t group = random.Within(1, 8), kv_heads = random.Within(1, 3);
  std::string line = "fwd bf16 h=" + std::to_string(group * kv_heads) + "/" +
                     std::to_string(kv_heads);
  line += OneOf<std::string>(random, {" d=32", " d=64", " d=96", " d=128",
                                      " d=64+32/64", " d=32+64/48"});
  line += " q=2x" + number(1, 3) + " k=" + number(1, 100) + "," + number(1, 60);
  line += OneOf<std::string>(
      random, {"", " paged:16", " paged:16 blocks:16", " paged:64"});
  line += OneOf<std::string>(
      random, {"", " causal", " mask", " window:20:0", " bias", " mask bias"});
  line += OneOf<std::string>(random, {"", " probs:bf16"});
  line += OneOf<std::string>(random, {"", " sink", " stats"});
  return line;
}

// With probs that may be rounded.
SmallCase Rounded(const SmallCase& small) {
  AttentionProblem problem = small.problem();
  problem.score.half_probs = true;
  SmallCase rounded(problem);
  rounded.CopyInputs(small);
  return rounded;
}

std::vector<PairDots> Here() {
  return testing::PairDotsHere(Decode().has_pair_dots);
}

class DecodePairs : public ::testing::TestWithParam<int64_t> {
 protected:
  ~DecodePairs() override { SetPairDotsForTest({}); }

  // The same by the instruction as by multiply-adds, but of NaN. Leaves
  // the results of the instruction.
  void ExpectSame(SmallCase& at_once) {
    SmallCase sums(at_once.problem());
    sums.CopyInputs(at_once);
    SetPairDotsForTest(PairDots::kMultiplyAdds);
    RunOn(kCpuDecode, sums);
    SetPairDotsForTest(Here().back());
    RunOn(kCpuDecode, at_once);
    testing::ExpectSameBy(Here().back(), sums, at_once);
  }

  const testing::OnTarget target_{GetParam()};
};

TEST_P(DecodePairs, AreRight) {
  for (const PairDots dots : Here()) {
    SetPairDotsForTest(dots);
    Random random(11);
    for (int n = 0; n < 150; ++n) {
      testing::ExpectRight(AnyLine(random), "cpu/decode",
                           static_cast<uint64_t>(n));
    }
    for (const char* line :
         {"fwd bf16 h=40/1 d=64 q=1 k=100", "fwd bf16 h=9/1 d=32 q=1 k=2000",
          "fwd bf16 h=4/1 d=64+16/64 q=1 k=50",
          "fwd bf16 h=4/1 d=64+8/64 q=1 k=50",
          "fwd bf16 h=4/1 d=64+4/64 q=1 k=50",
          "fwd bf16 h=4/1 d=64/48 q=1 k=51",
          "fwd bf16 h=40/1 d=64 q=1 k=101 probs:bf16",
          "fwd bf16 h=9/1 d=32 q=1 k=2001 out:f32 probs:bf16",
          "fwd bf16 h=8/1 d=64/96 q=1 k=1 probs:bf16",
          "fwd bf16 h=16/1 d=512+64/512 q=1 k=60 paged:16 shared probs:bf16",
          "fwd bf16 h=8/1 d=512+64/512 q=1 k=60 paged:16 shared"}) {
      testing::ExpectRight(line, "cpu/decode");
    }
  }
}

TEST_P(DecodePairs, ArePairs) {
  SmallCase pairs(ProblemOf("fwd bf16 h=32/8 d=128 q=1 k=90 stats"));
  Random random(3);
  pairs.FillInputs(random);
  SmallCase floats(pairs.problem());
  floats.CopyInputs(pairs);
  SetPairDotsForTest(PairDots::kMultiplyAdds);
  RunOn(kCpuDecode, pairs);
  SetPairDotsForTest(PairDots::kNone);
  SetSharedConversionsForTest(false);  // which have the bits of pairs
  RunOn(kCpuDecode, floats);
  SetSharedConversionsForTest({});
  // Their sums have another order.
  EXPECT_NE(pairs.bytes(Slot::kRowMax), floats.bytes(Slot::kRowMax));
}

TEST_P(DecodePairs, AreTheSameByTheInstruction) {
  Random random(12);
  for (int n = 0; n < 100; ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    ExpectSame(small);
    for (const Slot slot : {Slot::kQuery, Slot::kQueryRope, Slot::kKey,
                            Slot::kKeyRope, Slot::kValue}) {
      if (!small.problem().has(slot) || random.OneIn(2)) continue;
      testing::PutSpecialPairs(
          small.count(slot), random,
          [&](int64_t n, double special) { small.Put(slot, n, special); });
    }
    ExpectSame(small);
  }
}

// An instruction that makes 0 of subnormals has every score 0.
TEST_P(DecodePairs, KeepSubnormals) {
  for (const auto& [tiny, large] : std::initializer_list<std::pair<Slot, Slot>>{
           {Slot::kQuery, Slot::kKey}, {Slot::kKey, Slot::kQuery}}) {
    SmallCase small(ProblemOf("fwd bf16 h=4/1 d=32 q=2x1 k=2x30 stats"));
    Random random(1);
    small.FillInputs(random);
    testing::FillTinyAndLarge(small, tiny, large);
    ExpectSame(small);
  }
}

// Infinity times a subnormal is infinity, and would be NaN.
TEST_P(DecodePairs, KeepInfinities) {
  SmallCase small(ProblemOf("fwd bf16 h=4/1 d=32 q=1 k=9 stats"));
  Random random(1);
  small.FillInputs(random);
  const AttentionProblem& problem = small.problem();
  for (int64_t h = 0; h < 4; ++h) {
    small.Put(Slot::kQuery, problem[Slot::kQuery].At(0, 0, h, 3), 0x1p-130);
  }
  small.Put(Slot::kKey, problem[Slot::kKey].At(0, 5, 0, 3), -kInfinity);
  ExpectSame(small);
  EXPECT_FALSE(std::isnan(small.Get(Slot::kOut, 0)));
}

// Outputs are of pairs of keys, which probs are rounded for, of more than four
// rows, and scores what they were.
TEST_P(DecodePairs, RoundProbsOfMoreThanFourRows) {
  SetPairDotsForTest(Here().back());
  for (int rows = 1; rows <= 9; ++rows) {
    SmallCase floats(ProblemOf("fwd bf16 h=" + std::to_string(rows) +
                               "/1 d=64 q=1 k=90 out:f32 stats"));
    Random random(3);
    floats.FillInputs(random);
    SmallCase rounded = Rounded(floats);
    RunOn(kCpuDecode, floats);
    RunOn(kCpuDecode, rounded);
    EXPECT_EQ(rounded.bytes(Slot::kOut) != floats.bytes(Slot::kOut), rows > 4)
        << rows << " rows";
    EXPECT_EQ(rounded.bytes(Slot::kRowMax), floats.bytes(Slot::kRowMax));
  }
}

// Values that an instruction makes 0, of some channels or of all, and their
// sums where later values are 0.
TEST_P(DecodePairs, KeepSubnormalValues) {
  for (const int64_t every : {1, 3, 40}) {
    for (const char* line :
         {"fwd bf16 h=7/1 d=64 q=1 k=61 out:f32 probs:bf16",
          "fwd bf16 h=6/1 d=64 q=2x1 k=61,50 paged:16 blocks:16 out:f32 "
          "probs:bf16"}) {
      SmallCase small(ProblemOf(line));
      Random random(1);
      small.FillInputs(random);
      for (int64_t n = 0; n < small.count(Slot::kValue); ++n) {
        const double tiny = testing::TinyNumber(n);
        const bool is_zero = n % 64 % every != 0 || n >= 48 * 64;
        small.Put(Slot::kValue, n, is_zero ? 0.0 : tiny);
      }
      ExpectSame(small);
      double most = 0;
      for (int64_t n = 0; n < small.count(Slot::kOut); ++n) {
        most = std::max(most, std::fabs(small.Get(Slot::kOut, n)));
      }
      EXPECT_GT(most, 0x1p-133);
    }
  }
}

// Values that an instruction makes 0, which the first four rows do not see, and
// then zeros: other rows' sums stay.
TEST_P(DecodePairs, KeepSubnormalSumsOfLaterRows) {
  for (const int rows : {5, 7, 8, 12}) {
    SmallCase small(ProblemOf("fwd bf16 h=" + std::to_string(rows) +
                              "/1 d=64 q=1 k=61 mask:hj out:f32 probs:bf16"));
    Random random(1);
    small.FillInputs(random);
    const TensorSpec& mask = small.problem()[Slot::kMask];
    for (int64_t h = 0; h < rows; ++h) {
      for (int64_t j = 0; j < 61; ++j) {
        small.Put(Slot::kMask, mask.At(0, h, 0, j), h < 4 && j < 48 ? 1 : 0);
      }
    }
    for (int64_t n = 0; n < small.count(Slot::kValue); ++n) {
      const bool tiny = n < 48 * 64 && n % 3 == 0;
      small.Put(Slot::kValue, n, tiny ? testing::TinyNumber(n) : 0.0);
    }
    ExpectSame(small);
    const TensorSpec& out = small.problem()[Slot::kOut];
    double most = 0;
    for (int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(small.Get(Slot::kOut, out.At(0, 0, 3, d)), 0);
      most = std::max(
          most, std::fabs(small.Get(Slot::kOut, out.At(0, 0, rows - 1, d))));
    }
    EXPECT_GT(most, 0x1p-133);
  }
}

// Rows that are alike have the same bits in every micro-tile, whether it is
// summed with another or not. The probs of a last row alone are summed in
// another order, but the same in all tiles that end with one.
TEST_P(DecodePairs, HaveTheSameBitsInEveryMicroTile) {
  const auto like = [](int64_t h) { return (h + h / 4) % 4; };
  for (const PairDots dots : Here()) {
    SetPairDotsForTest(dots);
    std::vector<double> single;
    for (int64_t rows = 5; rows <= 16; ++rows) {
      SmallCase small(ProblemOf("fwd bf16 h=" + std::to_string(rows) +
                                "/1 d=64/96 q=1 k=101 probs:bf16"));
      const AttentionProblem& problem = small.problem();
      const TensorSpec& query = problem[Slot::kQuery];
      const TensorSpec& out = problem[Slot::kOut];
      for (int64_t n = 0; n < small.count(Slot::kKey); ++n) {
        small.Put(Slot::kKey, n, static_cast<double>(n * 37 % 101 - 50) / 32);
      }
      for (int64_t n = 0; n < small.count(Slot::kValue); ++n) {
        small.Put(Slot::kValue, n, static_cast<double>(n * 53 % 97 - 48) / 32);
      }
      for (int64_t h = 0; h < rows; ++h) {
        for (int64_t d = 0; d < 64; ++d) {
          small.Put(
              Slot::kQuery, query.At(0, 0, h, d),
              static_cast<double>((d + 5) * (like(h) + 3) % 41 - 20) / 64);
        }
      }
      RunOn(kCpuDecode, small);
      const auto row = [&](int64_t h) {
        std::vector<double> channels(96);
        for (int64_t d = 0; d < 96; ++d) {
          channels[d] = small.Get(Slot::kOut, out.At(0, 0, h, d));
        }
        return channels;
      };
      const int64_t last = rows % 4 == 1 ? rows - 1 : rows;
      for (int64_t h = 4; h < last; ++h) {
        ASSERT_EQ(row(h), row(like(h))) << "row " << h << " of " << rows;
      }
      EXPECT_NE(row(0), row(1));
      if (last == rows) continue;
      // Rows 4, 8 and 12, which are like rows 1, 2 and 3.
      for (int64_t d = 0; d < 64; ++d) {
        small.Put(Slot::kQuery, query.At(0, 0, last, d),
                  small.Get(Slot::kQuery, query.At(0, 0, 0, d)));
      }
      RunOn(kCpuDecode, small);
      if (single.empty()) single = row(last);
      EXPECT_EQ(row(last), single) << rows;
    }
  }
}

// What a row does not see changes none of its bits, or on ARM, where a row that
// met an infinity is summed anew in another way, no more than roundings do.
TEST_P(DecodePairs, KeepRowsThatDoNotSeeAnInfinity) {
  for (const PairDots dots : Here()) {
    SetPairDotsForTest(dots);
    SmallCase small(
        ProblemOf("fwd bf16 h=4/1 d=32 q=2 k=9 causal out:f32 "
                  "probs:bf16"));
    Random random(1);
    small.FillInputs(random);
    SmallCase infinite(small.problem());
    infinite.CopyInputs(small);
    const TensorSpec& value = small.problem()[Slot::kValue];
    infinite.Put(Slot::kValue, value.At(0, 8, 0, 3), kInfinity);
    RunOn(kCpuDecode, small);
    RunOn(kCpuDecode, infinite);
    const TensorSpec& out = small.problem()[Slot::kOut];
    for (int64_t h = 0; h < 4; ++h) {
      EXPECT_EQ(infinite.Get(Slot::kOut, out.At(0, 1, h, 3)), kInfinity);
      for (int64_t d = 0; d < 32; ++d) {
        const int64_t n = out.At(0, 0, h, d);
        EXPECT_NEAR(infinite.Get(Slot::kOut, n), small.Get(Slot::kOut, n),
                    kInstructionSumsAsFloats ? 0.0 : 4e-6);
      }
    }
  }
}

// Divided by its sum the prob of the last key is subnormal, of which the
// instruction would make 0, and NaN of infinity times that.
TEST_P(DecodePairs, KeepAnInfinityOfASmallProb) {
  SetPairDotsForTest(Here().back());
  SmallCase small(ProblemOf("fwd bf16 h=5/1 d=32 q=1 k=10 scale:1 probs:bf16"));
  Random random(1);
  small.FillInputs(random);
  const AttentionProblem& problem = small.problem();
  for (const Slot slot : {Slot::kQuery, Slot::kKey}) {
    for (int64_t n = 0; n < small.count(slot); ++n) small.Put(slot, n, 0);
  }
  for (int64_t h = 0; h < 5; ++h) {
    small.Put(Slot::kQuery, problem[Slot::kQuery].At(0, 0, h, 0), 1);
  }
  small.Put(Slot::kKey, problem[Slot::kKey].At(0, 9, 0, 0), -86);
  small.Put(Slot::kValue, problem[Slot::kValue].At(0, 9, 0, 3), kInfinity);
  RunOn(kCpuDecode, small);
  for (int64_t h = 0; h < 5; ++h) {
    const int64_t n = problem[Slot::kOut].At(0, 0, h, 3);
    EXPECT_EQ(small.Get(Slot::kOut, n), kInfinity);
    EXPECT_TRUE(std::isfinite(small.Get(Slot::kOut, n + 1)));
  }
}

// A row that is computed anew, as it sees an infinity, has the same bits
// whether another of its tile hides a key or not.
TEST_P(DecodePairs, KeepRowsThatSeeAnInfinity) {
  for (const PairDots dots : Here()) {
    SetPairDotsForTest(dots);
    const std::string line = "fwd bf16 h=4/1 d=32 q=2 k=9 out:f32 probs:bf16";
    SmallCase whole(ProblemOf(line)), causal(ProblemOf(line + " causal"));
    Random random(1);
    whole.FillInputs(random);
    const TensorSpec& value = whole.problem()[Slot::kValue];
    whole.Put(Slot::kValue, value.At(0, 0, 0, 3), kInfinity);
    causal.CopyInputs(whole);
    RunOn(kCpuDecode, whole);
    RunOn(kCpuDecode, causal);
    const TensorSpec& out = whole.problem()[Slot::kOut];
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t d = 0; d < 32; ++d) {
        const int64_t n = out.At(0, 1, h, d);
        EXPECT_EQ(causal.Get(Slot::kOut, n), whole.Get(Slot::kOut, n));
      }
    }
  }
}

TEST_P(DecodePairs, HaveTheSameBitsForAnyWorkerCount) {
  for (const char* line :
       {"fwd bf16 h=8/2 d=64 q=3x1 k=4000,51,1601",
        "fwd bf16 h=16/2 d=64 q=3x1 k=4000,51,1601 probs:bf16",
        "fwd bf16 h=12/4 d=96 q=2x2 k=3200,17 causal sink paged:32"}) {
    SCOPED_TRACE(line);
    for (const PairDots dots : Here()) {
      SetPairDotsForTest(dots);
      SmallCase alone(ProblemOf(line));
      Random random(5);
      alone.FillInputs(random);
      // Of one row, whose tile the instruction does not take.
      alone.Put(Slot::kQuery, alone.count(Slot::kQuery) - 1, 0x1p-130);
      RunOn(kCpuDecode, alone);
      for (const int workers : {2, 5}) {
        SmallCase shared(alone.problem());
        shared.CopyInputs(alone);
        RunOn(kCpuDecode, shared, workers);
        EXPECT_EQ(shared.bytes(Slot::kOut), alone.bytes(Slot::kOut));
      }
    }
  }
}

TEST_P(DecodePairs, StayInside) {
  SetPairDotsForTest(PairDots::kMultiplyAdds);
  Random random(13);
  for (int n = 0; n < 30; ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodePairs,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
