// SPDX-License-Identifier: Apache-2.0
// Few rows of 16 bits whose conversions are shared: they have the bits of
// conversions for four rows at a time, but whole lines of bf16 those of pairs,
// whatever the numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/shared_conversions.h"
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

// Groups of 1 to 20, one or two tokens, odd numbers of keys, ropes, values that
// are keys, pages, masks, sinks.
std::string AnyLine(Random& random, const std::string& dtype,
                    const std::string& channels) {
  const auto number = [&](int64_t first, int64_t last) {
    return std::to_string(random.Within(first, last));
  };
  const int64_t group = random.Within(1, 20), kv_heads = random.Within(1, 3);
  std::string line = "fwd " + dtype + " h=" + std::to_string(group * kv_heads) +
                     "/" + std::to_string(kv_heads) + channels;
  line += " q=2x" + number(1, 2) + " k=" + number(1, 150) + "," + number(1, 60);
  line += OneOf<std::string>(random, {"", " paged:16", " paged:64"});
  line += OneOf<std::string>(
      random, {"", " causal", " mask", " window:20:0", " bias", " mask bias"});
  line += OneOf<std::string>(random, {"", " sink", " stats", " out:f32"});
  return line;
}

std::string WholeLines(Random& random) {
  return OneOf<std::string>(random, {" d=32", " d=128", " d=64+32/64",
                                     " d=96+32/96 shared", " d=32+64/160"});
}

std::string AnyChannels(Random& random) {
  return OneOf<std::string>(random, {" d=32", " d=48", " d=80", " d=128",
                                     " d=36", " d=64+12/64", " d=32+64/48"});
}

// Some vector of floats has no other beside it.
std::string PartsOfLines(Random& random) {
  return OneOf<std::string>(random, {" d=48", " d=80", " d=36", " d=112",
                                     " d=64+12/48", " d=32+16/80"});
}

void PutSpecials(Random& random, SmallCase& small) {
  for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kValue}) {
    if (small.count(slot) == 0) continue;
    for (int64_t i = 0; i < 6; ++i) {
      small.Put(slot, random.Within(0, small.count(slot) - 1),
                OneOf<double>(
                    random, {0.0, -0.0, 65504.0, -65504.0, 0x1p-14, 0x1p-24,
                             -0x1p-130, std::nan(""), kInfinity, -kInfinity}));
    }
  }
}

class DecodeShared : public ::testing::TestWithParam<int64_t> {
 protected:
  ~DecodeShared() override {
    SetSharedConversionsForTest({});
    SetPairDotsForTest({});
  }

  static SmallCase Run(const SmallCase& inputs, bool shares, PairDots dots) {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    SetSharedConversionsForTest(shares);
    SetPairDotsForTest(dots);
    RunOn(kCpuDecode, small);
    return small;
  }

  // As they are, and with special numbers.
  template <typename Expect>
  static void ForBoth(const std::string& line, Random& random, Expect expect) {
    SCOPED_TRACE(line);
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    expect(small);
    PutSpecials(random, small);
    expect(small);
  }

  const testing::OnTarget target_{GetParam()};
};

TEST_P(DecodeShared, HalvesAndPartsOfLinesHaveTheSameBits) {
  Random random(31);
  for (int64_t n = 0; n < testing::ShareOf(200); ++n) {
    std::string line = random.OneIn(2)
                           ? AnyLine(random, "f16", AnyChannels(random))
                           : AnyLine(random, "bf16", PartsOfLines(random));
    if (random.OneIn(5))
      line = OneOf<std::string>(random, {"fwd f16", "fwd bf16"}) +
             " h=14/2 d=64 q=2x2 k=150,60 paged:16 blocks:16";
    ForBoth(line, random, [](const SmallCase& inputs) {
      testing::ExpectSameButNaN(Run(inputs, false, PairDots::kNone),
                                Run(inputs, true, PairDots::kNone));
    });
  }
}

TEST_P(DecodeShared, WholeLinesOfBf16HaveTheBitsOfPairs) {
  const PairDots pairs = Decode().has_shared_conversions
                             ? PairDots::kMultiplyAdds
                             : PairDots::kNone;
  Random random(32);
  for (int64_t n = 0; n < testing::ShareOf(200); ++n) {
    ForBoth(AnyLine(random, "bf16", WholeLines(random)), random,
            [&](const SmallCase& inputs) {
              testing::ExpectSameButNaN(Run(inputs, false, pairs),
                                        Run(inputs, true, PairDots::kNone));
            });
  }
}

// Sums of lanes are in another order where channels are, so bits tell.
TEST_P(DecodeShared, AreTaken) {
  SmallCase inputs(ProblemOf("fwd bf16 h=32/8 d=128 q=1 k=90 stats"));
  Random random(34);
  inputs.FillInputs(random);
  const auto maxima = [&](bool shares) {
    return Run(inputs, shares, PairDots::kNone).bytes(Slot::kRowMax);
  };
  EXPECT_EQ(maxima(true) != maxima(false), Decode().has_shared_conversions);
}

// Keys that are pairs, and values that are pairs of keys.
TEST_P(DecodeShared, ChangeNothingBesidePairs) {
  Random random(35);
  for (int64_t n = 0; n < testing::ShareOf(100); ++n) {
    const std::string line = AnyLine(random, "bf16", WholeLines(random));
    ForBoth(line + " probs:bf16", random, [](const SmallCase& inputs) {
      testing::ExpectSameButNaN(Run(inputs, false, PairDots::kMultiplyAdds),
                                Run(inputs, true, PairDots::kMultiplyAdds));
    });
  }
}

TEST_P(DecodeShared, ChangeNothingOnMatrixRegisters) {
  if (Decode().has_shared_conversions && !HasMatrices()) {
    GTEST_SKIP() << "this processor has none";
  }
  Random random(36);
  for (int64_t n = 0; n < testing::ShareOf(40); ++n) {
    const std::string heads = std::to_string(random.Within(5, 20));
    const std::string line =
        "fwd bf16 h=" + heads + "/1 d=64 q=2x1 k=150,60 paged:16 sink";
    ForBoth(line, random, [](const SmallCase& inputs) {
      testing::ExpectSameButNaN(Run(inputs, false, PairDots::kMatrices),
                                Run(inputs, true, PairDots::kMatrices));
    });
  }
}

TEST_P(DecodeShared, AreRightAndStayInside) {
  SetSharedConversionsForTest(true);
  Random random(33);
  for (int64_t n = 0; n < testing::ShareOf(60); ++n) {
    const std::string line =
        AnyLine(random, random.OneIn(2) ? "f16" : "bf16", AnyChannels(random));
    SCOPED_TRACE(line);
    testing::ExpectRight(line, "cpu/decode", static_cast<uint64_t>(n));
    SmallCase small(ProblemOf(line));
    small.FillInputs(random);
    testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodeShared,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
