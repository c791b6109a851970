// SPDX-License-Identifier: Apache-2.0
// Few rows of fp16 whose scores multiply keys as they are have the bits of
// floats, whatever the numbers and wherever keys lie.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "cpu/decode/decode_kernel.h"
#include "cpu/half_dots.h"
#include "cpu/implementations.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kInfinity;
using testing::OneOf;
using testing::ProblemOf;
using testing::RunOn;

// Groups of 1 to 20, odd numbers of keys, ropes, pages, blocks, masks; some
// channels are no whole vectors of fp16, and remain floats.
std::string AnyLine(Random& random) {
  const auto number = [&](int64_t first, int64_t last) {
    return std::to_string(random.Within(first, last));
  };
  if (random.OneIn(12)) return "fwd f16 h=6/2 d=36 q=2x1 k=33,90";
  if (random.OneIn(12)) return "fwd f16 h=5/1 d=64+12/64 q=1 k=70";
  const int64_t group = random.Within(1, 20), kv_heads = random.Within(1, 3);
  std::string line = "fwd f16 h=" + std::to_string(group * kv_heads) + "/" +
                     std::to_string(kv_heads);
  line += OneOf<std::string>(
      random, {" d=32", " d=48", " d=128", " d=64+32/64", " d=32+64/48"});
  line += " q=2x" + number(1, 2) + " k=" + number(1, 100) + "," + number(1, 60);
  line += OneOf<std::string>(
      random, {"", " paged:16", " paged:16 blocks:16", " paged:64"});
  line += OneOf<std::string>(
      random, {"", " causal", " mask", " window:20:0", " bias", " mask bias"});
  line += OneOf<std::string>(random, {"", " sink", " stats", " out:f32"});
  return line;
}

class DecodeHalves : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if (!Decode().has_half_dots || !HasHalfInstruction()) {
      GTEST_SKIP() << "no instruction multiplies fp16 into fp32 here";
    }
  }
  ~DecodeHalves() override { SetHalfDotsForTest({}); }

  static void ExpectSame(const SmallCase& inputs) {
    SmallCase floats(inputs.problem()), halves(inputs.problem());
    for (SmallCase* const one : {&floats, &halves}) {
      one->CopyInputs(inputs);
      SetHalfDotsForTest(one == &halves);
      RunOn(kCpuDecode, *one);
    }
    testing::ExpectSameButNaN(floats, halves);
  }

  const testing::OnTarget target_{GetParam()};
};

TEST_P(DecodeHalves, HaveTheBitsOfFloats) {
  Random random(21);
  for (int64_t n = 0; n < testing::ShareOf(200); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    ExpectSame(small);
    for (const Slot slot : {Slot::kQuery, Slot::kKey}) {
      for (int64_t i = 0; i < 6; ++i) {
        small.Put(slot, random.Within(0, small.count(slot) - 1),
                  OneOf<double>(
                      random, {0.0, -0.0, 65504.0, -65504.0, 0x1p-14, 0x1p-24,
                               -0x1p-20, std::nan(""), kInfinity, -kInfinity}));
      }
    }
    ExpectSame(small);
  }
}

#if defined(__aarch64__)
// With FPCR.FZ16 the instructions make 0 of subnormal numbers, conversions do
// not: so bits tell which of them a run takes.
TEST_P(DecodeHalves, AreTaken) {
  SmallCase inputs(ProblemOf("fwd f16 h=2/1 d=32 q=1 k=40 out:f32"));
  Random random(23);
  inputs.FillInputs(random);
  for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
    inputs.Put(Slot::kQuery, n, 16384);
  }
  for (int64_t n = 0; n < inputs.count(Slot::kKey); ++n) {
    inputs.Put(Slot::kKey, n, std::ldexp(static_cast<double>(n % 97), -24));
  }
  const auto run = [&](bool halves, bool flushes) {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    SetHalfDotsForTest(halves);
    uint64_t control = 0;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    const uint64_t changed = flushes ? control | 1u << 19 : control;
    asm volatile("msr fpcr, %0" : : "r"(changed));
    RunOn(kCpuDecode, small, 1);
    asm volatile("msr fpcr, %0" : : "r"(control));
    return small;
  };
  const SmallCase floats = run(false, false);
  testing::ExpectSameButNaN(floats, run(false, true));
  testing::ExpectSameButNaN(floats, run(true, false));
  EXPECT_NE(floats.bytes(Slot::kOut), run(true, true).bytes(Slot::kOut));
}
#endif

TEST_P(DecodeHalves, AreRightAndStayInside) {
  SetHalfDotsForTest(true);
  Random random(22);
  for (int64_t n = 0; n < testing::ShareOf(30); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    testing::ExpectRight(line, "cpu/decode", static_cast<uint64_t>(n));
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodeHalves,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
