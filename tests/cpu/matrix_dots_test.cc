// SPDX-License-Identifier: Apache-2.0
// Tiles on matrix registers: right on random problems and special numbers, and
// the same bits however tiles are cut; on every instruction set, emulated where
// that has none.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>

#include "cpu/decode/decode_kernel.h"
#include "cpu/pair_dots.h"
#include "cpu/support.h"
#include "tests/cpu/on_matrices.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::ProblemOf;
using testing::SeenOften;
using testing::Space;

TEST(MatrixDots, NeedAProcessorThatHasThem) {
#if defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (HasMatrices()) {
    EXPECT_NE(text.find(" amx_bf16"), text.npos);
  }
  EXPECT_EQ(HasMatrices(), HasMatrices());
#else
  EXPECT_FALSE(HasMatrices());
#endif
}

TEST(MatrixDots, AreChosenWhereVectorCodeHasThem) {
  EXPECT_NE(ChoosePairDots(true), PairDots::kMatrices);
  EXPECT_NE(ChoosePairDots(true, MatrixCode::kEmulated), PairDots::kMatrices);
  EXPECT_EQ(
      ChoosePairDots(true, MatrixCode::kInstructions) == PairDots::kMatrices,
      HasMatrices());
  SetPairDotsForTest(PairDots::kMatrices);
  EXPECT_EQ(ChoosePairDots(true), PairDots::kNone);
  EXPECT_EQ(ChoosePairDots(true, MatrixCode::kEmulated), PairDots::kMatrices);
  SetPairDotsForTest(PairDots::kNone);
  EXPECT_EQ(ChoosePairDots(true, MatrixCode::kInstructions), PairDots::kNone);
  SetPairDotsForTest({});
}

int TermsOf(const char* line) { return MatrixTerms(ProblemOf(line)); }

TEST(MatrixDots, TakeRowsThatFillThem) {
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=16 q=9 k=9"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=80+48/32 q=9 k=9"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 paged:16"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9,2 k=9,1 list"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 out:f16"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 out:f32 probs:bf16"), 1);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=9 out:f32"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=72 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64+8/64 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64/8 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64/0 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=0/64 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=64 q=9 k=9"), 2);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=96+32/64 q=9 k=9"), 2);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=80 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=64/16 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd f16 h=2 d=64 q=9 k=9 out:f32"), 0);
  EXPECT_EQ(TermsOf("bwd bf16 h=2 d=64 q=9 k=9"), 1);
  EXPECT_EQ(TermsOf("bwd f16 h=2 d=64 q=9 k=9"), 2);
  EXPECT_EQ(TermsOf("bwd f16 h=2 d=80 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd f32 h=2 d=64 q=9 k=9"), 0);
  EXPECT_EQ(TermsOf("fwd bf16 h=2 d=64 q=9 k=90 paged:16 blocks:16"), 0);
}

class MatrixDotsOn : public testing::OnMatrices {
 protected:
  bool backward() const { return direction() == Direction::kBackward; }
  bool few() const { return &implementation_ == &kCpuDecode; }
  bool listed() const {
    return &implementation_ == &kCpuTopKDecode ||
           &implementation_ == &kCpuTopKForward ||
           &implementation_ == &kCpuTopKBackward;
  }

  bool FillsMatrices(const AttentionProblem& problem) const override {
    return MatrixTerms(problem) > 0;
  }

  std::span<const char* const> Lines() const;
};

INSTANTIATE_TEST_SUITE_P(All, MatrixDotsOn,
                         ::testing::ValuesIn(testing::Settings(
                             {&kCpuForward, &kCpuDecode, &kCpuMixed,
                              &kCpuBackward, &kCpuTopKDecode, &kCpuTopKForward,
                              &kCpuTopKBackward})),
                         testing::SettingTestName);

const char* const kLines[] = {
    "fwd bf16 h=2 d=16 q=1 k=1",
    "fwd bf16 h=2 d=64 q=45,3 k=50,700 causal stats",
    "fwd bf16 h=4/2 d=128 q=77,1 k=301,900 probs:bf16",
    "fwd bf16 h=6/3 d=48+16/80 q=50,2 k=77,300 causal",
    "fwd bf16 h=6/3 d=80+48/16 q=60,2 k=190,70 causal probs:bf16",
    "fwd bf16 h=2 d=96 q=33,1 k=65,600 mask",
    "fwd bf16 h=2 d=112 q=70,1 k=400,600 window:20:4",
    "fwd bf16 h=2/1 d=192/128 q=40,1 k=390,40 window:5:0 probs:bf16",
    "fwd bf16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7",
    "fwd bf16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7 probs:bf16",
    "fwd bf16 h=4/2 d=64 q=40,2 k=150,400 bias causal",
    "fwd bf16 h=4/2 d=64 q=50,2 k=201,400 alibi causal sink lse",
    "fwd bf16 h=4/1 d=64 q=64,1 k=300,40 paged:16 counts:k",
    "fwd bf16 h=4/1 d=256 q=30,1 k=100,401 list stats",
    "fwd bf16 h=2/1 d=512+64/512 q=25,1 k=100,401 shared",
    "fwd bf16 h=2/1 d=64 q=50,1 k=99,300 prefix:77 causal",
    "fwd bf16 h=2/1 d=64 q=50,1 k=99,300 out:f16 scale:-0.3",
    "fwd bf16 h=1 d=16 q=300,1 k=2500,300 causal",
    "fwd f16 h=2 d=32 q=1 k=1",
    "fwd f16 h=4/2 d=128 q=77,1 k=301,900 stats",
    "fwd f16 h=6/3 d=96+32/64 q=50,2 k=77,300 causal",
    "fwd f16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7 mask",
    "fwd f16 h=4/1 d=64 q=64,1 k=300,40 paged:16 counts:k",
    "fwd f16 h=2/1 d=512+64/512 q=25,1 k=100,401 shared",
    "fwd f16 h=2 d=192/128 q=70,1 k=400,600 window:20:4 out:bf16",
};

const char* const kFewLines[] = {
    "fwd bf16 h=5/1 d=32 q=1 k=1",
    "fwd bf16 h=16/2 d=128 q=3x1 k=25,1,1600 causal stats",
    "fwd bf16 h=21/3 d=64 q=2x2 k=301,90 probs:bf16",
    "fwd bf16 h=40/1 d=96 q=1 k=700 mask",
    "fwd bf16 h=9/1 d=64+32/96 q=2,1 k=77,300 causal",
    "fwd bf16 h=18/2 d=192/128 q=1,2 k=390,47 window:50:0",
    "fwd bf16 h=12/2 d=64 q=2x1 k=49,400 keep:0.7",
    "fwd bf16 h=12/2 d=64 q=2x1 k=48,400 bias",
    "fwd bf16 h=12/2 d=64 q=2x2 k=47,400 alibi causal sink lse",
    "fwd bf16 h=7/1 d=64 q=3x1 k=3x300 paged:16 counts:k",
    "fwd bf16 h=8/1 d=256 q=4,1 k=100,401 list stats",
    "fwd bf16 h=16/1 d=512+64/512 q=2x1 k=100,401 paged:16 shared",
    "fwd bf16 h=8/1 d=64 q=2x1 k=99,300 prefix:77 causal",
    "fwd bf16 h=6/1 d=64 q=2x1 k=24,300 out:f16 scale:-0.3",
};

const char* const kListLines[] = {
    "fwd bf16 h=16/1 d=64 q=3 k=90 topk:40 shared stats",
    "fwd bf16 h=40/1 d=48+16/48 q=2,1 k=300,700 topk:200 shared causal stats",
    "fwd bf16 h=7/1 d=32/80 q=4 k=500 topk:450 probs:bf16",
    "fwd bf16 h=66/2 d=128 q=1 k=900 topk:13:64 sink stats",
    "fwd bf16 h=16/1 d=512+64/512 q=2x1 k=2x300 paged:16 topk:100 shared",
    "fwd f16 h=16/1 d=64 q=3,4 k=70,300 topk:150 causal stats",
    "fwd f16 h=24/1 d=96+32/96 q=3 k=500 topk:200 shared",
    "fwd bf16 h=2/1 d=16 q=700 k=40 topk:20 causal",
};

const char* const kGradLines[] = {
    "bwd bf16 h=2 d=16 q=1 k=1",
    "bwd bf16 h=2 d=64 q=45,3 k=50,700 causal",
    "bwd bf16 h=4/2 d=128 q=77,1 k=301,900 probs:bf16",
    "bwd bf16 h=6/3 d=48+16/80 q=50,200 k=77,300 causal",
    "bwd bf16 h=2 d=96 q=133,1 k=65,600 mask",
    "bwd bf16 h=2 d=112/48 q=300,1 k=400,600 window:20:4",
    "bwd bf16 h=2/1 d=192/128 q=40,1 k=390,40 window:5:0 probs:bf16",
    "bwd bf16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7",
    "bwd bf16 h=4/2 d=64 q=40,40 k=150,150 bias causal grad:qkvb",
    "bwd bf16 h=4/2 d=64 q=50,2 k=201,400 alibi causal",
    "bwd bf16 h=1 d=32 q=700 k=97 causal-left sink",
    "bwd bf16 h=2/1 d=32 q=300 k=300 causal",
    "bwd bf16 h=1 d=32 q=400 k=300 window:40:-9",
    "bwd bf16 h=1 d=16 q=300,1 k=2500,300 causal",
    "bwd f16 h=2 d=32 q=1 k=1",
    "bwd f16 h=4/2 d=128 q=77,1 k=301,900 causal",
    "bwd f16 h=6/3 d=96+32/64 q=50,200 k=77,300 mask",
    "bwd f16 h=2/1 d=64 q=90,2 k=330,400 keep:0.7",
    "bwd f16 h=4/2 d=64 q=40,40 k=150,150 bias causal grad:qkvb",
    "bwd f16 h=1 d=32 q=700 k=97 causal-left sink",
    "bwd f16 h=1 d=32 q=260 k=300 window:30:5",
    "bwd f16 h=2/1 d=96+32/64 q=60,9 k=230,40 shared",
};

const char* const kListGradLines[] = {
    "bwd bf16 h=16/1 d=64 q=3 k=90 topk:40 shared",
    "bwd bf16 h=40/1 d=48+16/64 q=20,10 k=300,700 topk:200 causal",
    "bwd bf16 h=40/1 d=64+16/64 q=20,10 k=300,700 topk:200 shared causal",
    "bwd bf16 h=7/1 d=32/80 q=4 k=500 topk:450 probs:bf16",
    "bwd bf16 h=66/2 d=128 q=3 k=900 topk:13:64",
    "bwd bf16 h=16/1 d=512+64/512 q=2,3 k=90,70 topk:50 shared",
    "bwd bf16 h=17/1 d=16 q=3 k=5000 topk:5000",
    "bwd bf16 h=70/1 d=32 q=2 k=4500 topk:4400 shared",
    "bwd bf16 h=20/1 d=32+16/16 q=3 k=90 topk:60",
};

std::span<const char* const> MatrixDotsOn::Lines() const {
  if (&implementation_ == &kCpuTopKBackward) return kListGradLines;
  if (backward()) return kGradLines;
  if (listed()) return kListLines;
  if (&implementation_ == &kCpuDecode) return kFewLines;
  return kLines;
}

TEST_P(MatrixDotsOn, AreRight) { ExpectAllRight(Lines()); }

// Of every kind of problem, whatever fills matrices.
TEST_P(MatrixDotsOn, AreRightOnRandomProblems) {
  // Lists have so many heads that head blocks are whole, or begun.
  Space space = listed() ? testing::Listed(testing::Forward(3, 6, 200, 40, 12))
                         : testing::Forward(3, 60, 90, 4, 12);
  space.unit_dim = 16;
  space.caches = space.int8 = false;
  if (few()) {
    space = testing::Forward(4, 3, 200, 24, 12);
    space.unit_dim = 32;
    space.caches = space.int8 = false;
  }
  if (backward()) space = testing::Backward(space);
  int64_t seen = 0;
  ForRandomProblems(600, space, [&](const AttentionProblem& p, Random& random) {
    if (!Takes(p)) return;
    ++seen;
    ExpectRight(p, random.Bits(), implementation_.name);
  });
  EXPECT_TRUE(SeenOften(seen, 10));
}

// They are used, and split probs in two unless one term is enough.
TEST_P(MatrixDotsOn, HaveSumsOfTheirOwn) {
  if (&implementation_ != &kCpuForward && !few()) return;
  SmallCase inputs(
      ProblemOf(few() ? "fwd bf16 h=5/1 d=64 q=1 k=90 out:f32 probs:bf16"
                      : "fwd bf16 h=2 d=64 q=40 k=90 out:f32 probs:bf16"));
  Random random(1);
  inputs.FillInputs(random);
  const SmallCase matrices = Run(inputs);
  SetPairDotsForTest(PairDots::kMultiplyAdds);
  EXPECT_NE(matrices.bytes(Slot::kOut), Run(inputs).bytes(Slot::kOut));
}

TEST_P(MatrixDotsOn, GiveTheSameBitsToAnyWorkers) {
  for (const char* line : Lines()) {
    SmallCase inputs(ProblemOf(line));
    if (!Takes(inputs.problem())) continue;
    SCOPED_TRACE(line);
    Random random(5);
    inputs.FillInputs(random);
    if (backward()) RunForwardTwin(inputs);
    ExpectSameBitsOfAnyWorkers(inputs);
  }
}

TEST_P(MatrixDotsOn, HaveGradientsOfTheirOwn) {
  if (!backward()) return;
  for (const char* line :
       {"bwd bf16 h=2 d=64 q=40 k=90", "bwd bf16 h=2 d=64 q=40 k=90 probs:bf16",
        "bwd f16 h=2 d=64 q=40 k=90", "bwd f16 h=2/1 d=64 q=40 k=90 shared",
        "bwd bf16 h=20/1 d=64 q=40 k=90 topk:60"}) {
    if (!Takes(ProblemOf(line))) continue;
    SmallCase inputs(ProblemOf(line));
    Random random(1);
    inputs.FillInputs(random);
    RunForwardTwin(inputs);
    const SmallCase matrices = Run(inputs);
    SetPairDotsForTest(PairDots::kNone);
    const SmallCase floats = Run(inputs);
    SetPairDotsForTest(PairDots::kMatrices);
    int64_t differ = 0;
    for (const Slot slot : testing::ResultsOf(inputs.problem())) {
      if (matrices.bytes(slot) != floats.bytes(slot)) ++differ;
    }
    EXPECT_GT(differ, 0) << line;
  }
}

// Where a row sees one value, dp and delta are the same number: dS is 0.
TEST_P(MatrixDotsOn, CancelWhereOneKeyIsSeen) {
  if (!backward()) return;
  for (const char* line :
       {"bwd bf16 h=2 d=80 q=70 k=70 window:0:0",
        "bwd bf16 h=2 d=64/112 q=5 k=1",
        "bwd f16 h=2 d=96 q=70 k=70 window:0:0", "bwd f16 h=2 d=64/160 q=5 k=1",
        "bwd bf16 h=9/1 d=80 q=5 k=9 topk:1"}) {
    SCOPED_TRACE(line);
    if (!Takes(ProblemOf(line))) continue;
    SmallCase inputs(ProblemOf(line));
    Random random(1);
    inputs.FillInputs(random);
    RunForwardTwin(inputs);
    const SmallCase run = Run(inputs);
    for (int64_t n = 0; n < run.count(Slot::kGradQuery); ++n) {
      ASSERT_EQ(run.Get(Slot::kGradQuery, n), 0) << n;
    }
  }
}

// What matrix registers would make 0 of, or of which they would make a NaN.
TEST_P(MatrixDotsOn, LeaveSpecialNumbersToOthers) {
  if (backward()) return;
  for (const char* line :
       {"fwd bf16 h=2 d=32 q=50 k=90", "fwd bf16 h=2 d=32 q=50 k=90 causal",
        "fwd bf16 h=2 d=32 q=50 k=90 probs:bf16 causal",
        "fwd f16 h=2 d=32 q=50 k=90", "fwd f16 h=2 d=64 q=50 k=90 causal",
        "fwd bf16 h=9/1 d=32 q=2x2 k=2x90",
        "fwd bf16 h=6/1 d=64 q=2x1 k=2x90 mask",
        "fwd bf16 h=18/3 d=32 q=2x1 k=2x90 window:20:0 probs:bf16",
        "fwd bf16 h=40/1 d=32 q=2 k=90 topk:60",
        "fwd f16 h=9/1 d=64 q=5 k=90 topk:60 shared",
        "fwd bf16 h=9/1 d=64 q=5 k=90 topk:60 shared probs:bf16"}) {
    SCOPED_TRACE(line);
    SmallCase inputs(ProblemOf(line));
    if (!implementation_.supports(inputs.problem(), {}).ok()) continue;
    for (int64_t seed = 1; seed <= testing::ShareOf(40); ++seed) {
      Random random(static_cast<uint64_t>(seed));
      inputs.FillInputs(random);
      const Slot slot =
          testing::OneOf(random, {Slot::kQuery, Slot::kKey, Slot::kValue});
      testing::PutSpecialPairs(
          inputs.count(slot), random,
          [&](int64_t n, double special) { inputs.Put(slot, n, special); });
      SetPairDotsForTest(PairDots::kMatrices);
      const SmallCase matrices = Run(inputs);
      SetPairDotsForTest(PairDots::kMultiplyAdds);
      const SmallCase usual = Run(inputs);
      for (int64_t n = 0; n < usual.count(Slot::kOut); ++n) {
        const double x = matrices.Get(Slot::kOut, n);
        const double y = usual.Get(Slot::kOut, n);
        if (std::isnan(y) || std::isinf(y)) {
          ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << n;
        } else {
          // Roundings of both outputs, and of scores that cancel.
          ASSERT_NEAR(x, y, 0x1p-6 * std::fabs(y) + 0x1p-7) << n;
        }
      }
    }
  }
}

// The same of gradients: one special number spoils a panel or a step, not what
// the registers sum for others.
TEST_P(MatrixDotsOn, LeaveSpecialNumbersOfGradientsToOthers) {
  if (!backward()) return;
  for (const char* line :
       {"bwd bf16 h=2 d=32 q=150 k=250", "bwd bf16 h=2 d=32 q=150 k=250 causal",
        "bwd bf16 h=2/1 d=48 q=40,150 k=130,99 probs:bf16 causal",
        "bwd f16 h=2 d=32 q=150 k=250 causal", "bwd f16 h=2/1 d=64 q=70 k=90",
        "bwd bf16 h=9/1 d=32+16/32 q=4 k=90 topk:60",
        "bwd bf16 h=50/1 d=32+16/48 q=3 k=290 topk:190",
        "bwd bf16 h=40/1 d=64+16/64 q=2 k=90 topk:60 shared"}) {
    SCOPED_TRACE(line);
    if (!Takes(ProblemOf(line))) continue;
    SmallCase inputs(ProblemOf(line));
    for (int64_t seed = 1; seed <= testing::ShareOf(24); ++seed) {
      SCOPED_TRACE(seed);
      Random random(static_cast<uint64_t>(seed));
      inputs.FillInputs(random);
      RunForwardTwin(inputs);
      const Slot slot = testing::OneOf(
          random,
          {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kGradOut, Slot::kOut});
      // Of fp16 the last two are 0.
      const bool halves = inputs.problem()[Slot::kQuery].dtype == DType::kF16;
      const double special = testing::OneOf(
          random, {std::numeric_limits<double>::quiet_NaN(),
                   std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity(),
                   halves ? 0x1p-24 : 0x1p-128, halves ? 65504 : 0x1p-90});
      inputs.Put(slot, random.Within(0, inputs.count(slot) - 1), special);
      if (random.OneIn(4)) {
        // No forward makes such statistics: probs are infinite.
        inputs.Put(Slot::kRowMax,
                   random.Within(0, inputs.count(Slot::kRowMax) - 1), -1000);
      }
      SetPairDotsForTest(PairDots::kMatrices);
      const SmallCase matrices = Run(inputs);
      SetPairDotsForTest(PairDots::kMultiplyAdds);
      const SmallCase usual = Run(inputs);
      for (const Slot result : testing::ResultsOf(inputs.problem())) {
        for (int64_t n = 0; n < usual.count(result); ++n) {
          const double x = matrices.Get(result, n);
          const double y = usual.Get(result, n);
          if (std::isfinite(y)) {
            // Roundings of both, and of what cancels.
            ASSERT_NEAR(x, y, 0x1p-6 * std::fabs(y) + 0x1p-7) << n;
          } else {
            ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << n;
          }
        }
      }
    }
  }
}

TEST_P(MatrixDotsOn, KeepSubnormals) {
  if (backward()) return;
  for (const char* line : {"fwd bf16 h=2 d=16 q=50 k=30 out:f16",
                           "fwd bf16 h=2 d=16 q=50 k=31 causal out:f16",
                           "fwd bf16 h=9/1 d=32 q=2x2 k=2x30 out:f16",
                           "fwd bf16 h=33/1 d=16 q=4 k=31 topk:31 out:f16"}) {
    SmallCase inputs(ProblemOf(line));
    if (!implementation_.supports(inputs.problem(), {}).ok()) continue;
    for (const bool tiny_keys : {false, true}) {
      Random random(1);
      inputs.FillInputs(random);
      testing::FillTinyAndLarge(inputs, tiny_keys ? Slot::kKey : Slot::kQuery,
                                tiny_keys ? Slot::kQuery : Slot::kKey);
      SetPairDotsForTest(PairDots::kMatrices);
      const SmallCase matrices = Run(inputs);
      SetPairDotsForTest(PairDots::kNone);
      const SmallCase usual = Run(inputs);
      for (int64_t n = 0; n < usual.count(Slot::kOut); ++n) {
        ASSERT_NEAR(matrices.Get(Slot::kOut, n), usual.Get(Slot::kOut, n),
                    0x1p-9)
            << n;
      }
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
