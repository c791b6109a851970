// SPDX-License-Identifier: Apache-2.0
// Keys and values of 8 and 4 bits on matrix registers: right on random problems
// and special numbers, and the same bits however tiles are cut; on every
// instruction set, emulated where that has none.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/pair_dots.h"
#include "cpu/support.h"
#include "tests/cpu/on_matrices.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::OneOf;
using testing::ProblemOf;
using testing::SeenOften;
using testing::Space;

int TermsOf(const char* line) { return TileMatrixTerms(ProblemOf(line)); }

TEST(IntegerDots, TakeRowsThatFillMatrices) {
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:tensor"), 1);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=64/32 q=9 k=9 int8:channel"), 1);
  EXPECT_EQ(TermsOf("fwd i8 h=2 d=64 q=9 k=9 int8:tensor"), 1);
  EXPECT_EQ(TermsOf("fwd i8 h=2 d=64 q=9 k=9 int8:tensor out:int8:tensor"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64+16/64 q=9 k=9 int8:tensor query:int8"),
            1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 paged:16 int8:tensor blocks:32"),
            1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:tensor+offset"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:row"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:row/channel"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int4:tensor"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:row+offset"), 0);
  EXPECT_EQ(MatrixTerms(ProblemOf("fwd bf16 h=2 d=64 q=9 k=9 int8:row")), 0);
  EXPECT_EQ(TermsOf("bwd bf16 h=2 d=64 q=9 k=9"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 topk:5 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=48 q=9 k=9 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64/48 q=9 k=9 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64+8/64 q=9 k=9 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=64+32/64 q=9 k=9 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd f32 h=2 d=64 q=9 k=9 int8:tensor"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 int8:tensor out:f32"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 paged:16 int8:tensor blocks:16"),
            0);
}

// Queries of floats with scales of channels have three terms, which take more
// than floats.
TEST(IntegerDots, LetQueriesTakeScalesOfChannels) {
  const auto take = [](const char* line) {
    return QueriesTakeKeyScales(ProblemOf(line));
  };
  EXPECT_TRUE(take("fwd bf16 h=2 d=64 q=9 k=9 int8:channel"));
  EXPECT_FALSE(take("fwd bf16 h=2 d=64 q=9 k=9 int8:tensor"));
  EXPECT_FALSE(take("fwd bf16 h=2 d=64 q=9 k=9"));
}

class IntegerDotsOn : public testing::OnMatrices {
 protected:
  bool FillsMatrices(const AttentionProblem& problem) const override {
    return AreIntegers(KvTensors(problem, Slot::kKey)) &&
           TileMatrixTerms(problem) == 1;
  }
};

INSTANTIATE_TEST_SUITE_P(All, IntegerDotsOn,
                         ::testing::ValuesIn(testing::Settings({&kCpuForward,
                                                                &kCpuMixed})),
                         testing::SettingTestName);

const char* const kLines[] = {
    "fwd i8 h=2 d=32 q=1 k=1 int8:tensor",
    "fwd i8 h=4/2 d=64 q=77,3 k=301,900 int8:tensor causal",
    "fwd i8 h=4/2 d=128/96 q=40,2 k=50,70 int8:tensor mask out:int8:channel",
    "fwd i8 h=2/1 d=32 q=40,2 k=33,40 int8:tensor out:int8:tensor+offset",
    "fwd bf16 h=6/3 d=64+16/32 q=50,2 k=77,300 int8:tensor query:int8 causal",
    "fwd bf16 h=4/1 d=64+32/64 q=64,1 k=300,40 paged:16 int8:tensor query:int8 "
    "blocks:32",
    "fwd bf16 h=40/1 d=512+64 q=2,1 k=100,401 paged:16 int8:tensor query:int8",
    "fwd bf16 h=40/1 d=64+16/32 q=2,1 k=90,70 shared paged:16 int8:tensor "
    "query:int8",
    "fwd bf16 h=2 d=64 q=40 k=200 int8:channel query:int8 bias",
    "fwd bf16 h=2 d=64 q=45,3 k=50,700 int8:tensor causal stats",
    "fwd bf16 h=4/2 d=128 q=77,1 k=301,900 int8:channel probs:bf16",
    "fwd bf16 h=2/1 d=64 q=50,1 k=99,300 prefix:77 int8:channel causal",
    "fwd bf16 h=2/1 d=96 q=90,2 k=330,400 keep:0.7 int8:tensor/channel",
    "fwd bf16 h=4/1 d=64 q=30,1 k=100,401 list int8:channel stats",
    "fwd bf16 h=4/2 d=64+16/64 q=50,2 k=201,400 int8:channel alibi sink lse",
    "fwd bf16 h=4/2 d=64 q=45,3 k=50,700 int8:row causal stats",
    "fwd bf16 h=4/2 d=128 q=50,2 k=201,400 int8:row-head/channel",
    "fwd bf16 h=4/2 d=64 q=50,2 k=77,400 paged:16 int8:page-row-head "
    "probs:bf16",
    "fwd bf16 h=4/2 d=64+16/64 q=50,2 k=201,400 int8:channel/row causal",
    "fwd bf16 h=2 d=64+32/32 q=45,3 k=50,700 int8:row query:int8",
    "fwd bf16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7 int8:row",
    "fwd bf16 h=4/2 d=64 q=45,3 k=50,700 int4:channel causal",
    "fwd f16 h=4/2 d=128 q=45,3 k=50,300 int4:row-head",
    "fwd f16 h=4/1 d=64 q=64,1 k=300,40 paged:16 int4:tensor blocks:64",
    "fwd f16 h=2 d=32 q=1 k=1 int8:channel",
    "fwd f16 h=4/2 d=128 q=77,1 k=301,900 int8:tensor",
    "fwd f16 h=2/1 d=192/128 q=40,1 k=390,40 window:5:0 int8:channel",
    "fwd f16 h=1 d=32 q=300,1 k=2500,300 int8:channel causal out:bf16",
};

TEST_P(IntegerDotsOn, AreRight) { ExpectAllRight(kLines); }

TEST_P(IntegerDotsOn, AreRightOnRandomProblems) {
  Space space = testing::Forward(3, 60, 200, 4, 5);
  space.unit_dim = 32;
  int64_t seen = 0;
  ForRandomProblems(20000, space,
                    [&](const AttentionProblem& p, Random& random) {
                      if (!Takes(p)) return;
                      ++seen;
                      ExpectRight(p, random.Bits(), implementation_.name);
                    });
  EXPECT_TRUE(SeenOften(seen, 10));
}

TEST_P(IntegerDotsOn, GiveTheSameBitsToAnyWorkers) {
  for (const char* line : kLines) {
    SmallCase inputs(ProblemOf(line));
    if (!Takes(inputs.problem())) continue;
    SCOPED_TRACE(line);
    Random random(5);
    inputs.FillInputs(random);
    ExpectSameBitsOfAnyWorkers(inputs);
  }
}

// They are used.
TEST_P(IntegerDotsOn, HaveSumsOfTheirOwn) {
  if (&implementation_ != &kCpuForward) return;
  for (const char* line : {"fwd bf16 h=2 d=64 q=40 k=90 int8:tensor query:int8",
                           "fwd bf16 h=2 d=64 q=40 k=90 int8:channel",
                           "fwd f16 h=2 d=64 q=40 k=90 int8:tensor"}) {
    SmallCase inputs(ProblemOf(line));
    Random random(1);
    inputs.FillInputs(random);
    SetPairDotsForTest(PairDots::kMatrices);
    const SmallCase matrices = Run(inputs);
    SetPairDotsForTest(PairDots::kNone);
    EXPECT_NE(matrices.bytes(Slot::kOut), Run(inputs).bytes(Slot::kOut));
  }
}

// Scales and queries that integers cannot wait for, and ropes that registers
// would make 0 of, go other ways.
TEST_P(IntegerDotsOn, LeaveSpecialNumbersToOthers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             kInfinity,
                             -kInfinity,
                             0,
                             -0.01,
                             0x1p-128,
                             0x1p-110,
                             0x1p70,
                             0x1p120};
  for (const char* line :
       {"fwd bf16 h=2 d=32+16/32 q=50,40 k=90,30 int8:tensor query:int8",
        "fwd bf16 h=2 d=32+16/64 q=50 k=90 int8:channel query:int8 causal",
        "fwd bf16 h=2 d=32+16/32 q=50 k=90 int8:tensor causal stats",
        "fwd bf16 h=4/2 d=64 q=50 k=90 int8:channel probs:bf16",
        "fwd f16 h=4/2 d=32/64 q=50 k=90 int8:channel causal",
        "fwd bf16 h=2 d=32+16/64 q=50 k=90 int8:row causal",
        "fwd f16 h=2 d=32/64 q=50 k=90 int8:row/channel",
        "fwd bf16 h=2 d=64/32 q=50 k=300 int4:channel/row probs:bf16",
        "fwd i8 h=2 d=32 q=50 k=90 int8:tensor"}) {
    SCOPED_TRACE(line);
    SmallCase inputs(ProblemOf(line));
    if (!Takes(inputs.problem())) continue;
    for (int64_t seed = 1; seed <= testing::ShareOf(100); ++seed) {
      SCOPED_TRACE(seed);
      Random random(static_cast<uint64_t>(seed));
      inputs.FillInputs(random);
      const Slot slot =
          OneOf(random, {Slot::kQuery, Slot::kQueryRope, Slot::kQueryRowScale,
                         Slot::kKeyRope, Slot::kKeyScale, Slot::kValueScale,
                         Slot::kKeyRowScale, Slot::kValueRowScale});
      if (inputs.count(slot) == 0) continue;
      if (slot == Slot::kQuery && inputs.problem()[slot].dtype == DType::kI8) {
        continue;
      }
      inputs.Put(slot, random.Within(0, inputs.count(slot) - 1),
                 specials[random.Within(0, 8)]);
      SetPairDotsForTest(PairDots::kMatrices);
      const SmallCase matrices = Run(inputs);
      SetPairDotsForTest(PairDots::kNone);
      const SmallCase usual = Run(inputs);
      for (int64_t n = 0; n < usual.count(Slot::kOut); ++n) {
        const double x = matrices.Get(Slot::kOut, n);
        const double y = usual.Get(Slot::kOut, n);
        if (std::isfinite(y)) {
          // Roundings of both outputs, and of scores that cancel.
          ASSERT_NEAR(x, y, 0x1p-6 * std::fabs(y) + 0x1p-7) << n;
        } else {
          ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
