// SPDX-License-Identifier: Apache-2.0
// Few rows of bf16 on matrix registers: no row's bits depend on other rows, nor
// on how keys lie, whatever values are; and nothing outside is touched. What is
// right is in matrix_dots_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kInfinity;
using testing::OneOf;
using testing::ProblemOf;
using testing::RunOn;

class DecodeMatrices : public ::testing::TestWithParam<int64_t> {
 protected:
  ~DecodeMatrices() override { SetPairDotsForTest({}); }

  void SetUp() override {
    if (Decode().matrices == MatrixCode::kInstructions && !HasMatrices()) {
      GTEST_SKIP() << "this processor has no matrix registers; narrower "
                      "targets emulate them";
    }
    SetPairDotsForTest(PairDots::kMatrices);
  }

  static SmallCase Run(const SmallCase& inputs) {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    RunOn(kCpuDecode, small);
    return small;
  }

  const testing::OnTarget target_{GetParam()};
};

// From five rows on.
TEST_P(DecodeMatrices, AreOfFiveRowsOrMore) {
  for (const bool five : {false, true}) {
    SmallCase inputs(ProblemOf(five ? "fwd bf16 h=5/1 d=64 q=1 k=90 stats"
                                    : "fwd bf16 h=4/1 d=64 q=1 k=90 stats"));
    Random random(1);
    inputs.FillInputs(random);
    const SmallCase matrices = Run(inputs);
    SetPairDotsForTest(PairDots::kNone);
    const SmallCase floats = Run(inputs);
    SetPairDotsForTest(PairDots::kMatrices);
    EXPECT_EQ(matrices.bytes(Slot::kRowMax) != floats.bytes(Slot::kRowMax),
              five);
  }
}

// One head sees a value that the registers cannot take; the others hide it. Of
// no number they are computed again, as nothing times that is no number.
TEST_P(DecodeMatrices, LeaveOtherRowsAlone) {
  SmallCase inputs(ProblemOf("fwd bf16 h=9/1 d=64 q=1 k=100 mask:hij stats"));
  Random random(2);
  inputs.FillInputs(random);
  const TensorSpec& mask = inputs.problem()[Slot::kMask];
  for (int64_t h = 0; h < 9; ++h) {
    inputs.Put(Slot::kMask, mask.At(0, 0, h, 17), h == 6 ? 0 : 1);
  }
  const SmallCase before = Run(inputs);
  for (const double special : {kInfinity, std::nan(""), 0x1p100}) {
    inputs.PutKey(Slot::kValue, {0, 17, 0}, 5, special);
    const SmallCase after = Run(inputs);
    for (int64_t n = 0; n < after.count(Slot::kOut); ++n) {
      if (n / 64 == 6) continue;
      const double x = after.Get(Slot::kOut, n);
      const double y = before.Get(Slot::kOut, n);
      if (std::isfinite(special)) {
        ASSERT_EQ(x, y) << n;
      } else {
        // Roundings of both outputs, and of what cancels.
        ASSERT_NEAR(x, y, 0x1p-7 * std::fabs(y) + 0x1p-12) << n;
      }
    }
    // What shares a word with it is a channel of its own.
    const double beside = before.Get(Slot::kOut, 6 * 64 + 4);
    EXPECT_NEAR(after.Get(Slot::kOut, 6 * 64 + 4), beside,
                0x1p-7 * std::fabs(beside) + 0x1p-12);
    const double seen = after.Get(Slot::kOut, 6 * 64 + 5);
    EXPECT_EQ(std::isnan(seen), std::isnan(special));
    EXPECT_EQ(std::isinf(seen), std::isinf(special));
  }
}

// Pages whose rows are evenly apart, or not, as 16 rows go at a time.
TEST_P(DecodeMatrices, HaveTheSameBitsHoweverKeysLie) {
  SmallCase rows(ProblemOf("fwd bf16 h=12/2 d=64 q=1 k=170"));
  Random random(3);
  rows.FillInputs(random);
  const SmallCase whole = Run(rows);
  for (const char* pages : {"16", "64", "24", "5"}) {
    SCOPED_TRACE(pages);
    SmallCase paged(ProblemOf(
        std::string("fwd bf16 h=12/2 d=64 q=1 k=170 paged:") + pages));
    paged.FillInputs(random);
    paged.Copy(Slot::kQuery, rows);
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      for (int64_t n = 0; n < 2 * 170 * 64; ++n) {
        const SmallCase::Column column{0, n / 64 % 170, n / 64 / 170};
        paged.PutKey(slot, column, n % 64, rows.GetKey(slot, column, n % 64));
      }
    }
    EXPECT_EQ(Run(paged).bytes(Slot::kOut), whole.bytes(Slot::kOut));
  }
}

// Probs down to 2^-60 of the greatest meet values down to 2^-126.
TEST_P(DecodeMatrices, KeepSmallProducts) {
  SmallCase inputs(ProblemOf("fwd bf16 h=5/1 d=32 q=1 k=49 scale:1"));
  const AttentionProblem& problem = inputs.problem();
  for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
    inputs.Put(Slot::kQuery, n, n % 32 == 0 ? 1 : 0);
  }
  // Key 3 takes nearly all; the others have 2^-20 of it each, and values that
  // times this are subnormal in fp32, but for channels of usual ones.
  for (int64_t j = 0; j < 49; ++j) {
    for (int64_t d = 0; d < 32; ++d) {
      inputs.Put(Slot::kKey, problem[Slot::kKey].At(0, j, 0, d),
                 d == 0 && j != 3 ? -20 * std::log(2.0) : 0);
      inputs.Put(Slot::kValue, problem[Slot::kValue].At(0, j, 0, d),
                 j == 3       ? 0.0
                 : d % 2 == 0 ? 0x1p-110
                              : 0x1p20);
    }
  }
  const SmallCase matrices = Run(inputs);
  SetPairDotsForTest(PairDots::kNone);
  const SmallCase floats = Run(inputs);
  for (int64_t n = 0; n < floats.count(Slot::kOut); ++n) {
    const double want = floats.Get(Slot::kOut, n);
    ASSERT_NE(want, 0) << n;
    ASSERT_NEAR(matrices.Get(Slot::kOut, n) / want, 1, 0x1p-8) << n;
  }
}

TEST_P(DecodeMatrices, StayInside) {
  Random random(13);
  for (int n = 0; n < 30; ++n) {
    const int64_t group = random.Within(5, 20), kv_heads = random.Within(1, 2);
    const std::string line =
        "fwd bf16 h=" + std::to_string(group * kv_heads) + "/" +
        std::to_string(kv_heads) +
        OneOf<std::string>(random, {" d=32", " d=64+32/96", " d=128/64"}) +
        " q=2x" + std::to_string(random.Within(1, 2)) +
        " k=" + std::to_string(random.Within(1, 100)) +
        OneOf<std::string>(random, {",49", ",48", ",16"}) +
        OneOf<std::string>(random, {"", " paged:16", " paged:5", " causal"}) +
        OneOf<std::string>(random, {"", " mask", " sink", " stats"});
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodeMatrices,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
