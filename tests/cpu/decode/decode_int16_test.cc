// SPDX-License-Identifier: Apache-2.0
// Few rows whose products with keys and values of 8 bits are sums of integers
// of 16 bits, where a problem allows them: right, of any shape that takes them,
// the same by the instruction and by multiply-adds, and left alone where such
// integers cannot be of a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/byte_dots.h"
#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/int16_dots.h"
#include "tests/cpu/decode/byte_cases.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::OneOf;
using testing::ProblemOf;
using testing::RunOn;

// A problem whose rows are whole vectors of bytes on every target, of any
// number of rows, odd numbers of keys, pages, blocks, masks, scales of all
// kinds.
std::string AnyLine(Random& random) {
  const auto number = [&](int64_t first, int64_t last) {
    return std::to_string(random.Within(first, last));
  };
  const int64_t group = random.Within(1, 11);
  const int64_t kv_heads = random.Within(1, 3);
  const auto dtype = OneOf<std::string>(random, {"f16", "bf16"});
  std::string line = "fwd " + dtype + " h=" + std::to_string(group * kv_heads) +
                     "/" + std::to_string(kv_heads);
  line += OneOf<std::string>(
      random, {" d=64", " d=128", " d=192", " d=128/64", " d=64/48"});
  line += " q=2x" + number(1, 2) + " k=" + number(1, 100) + "," + number(1, 60);
  const bool paged = random.OneIn(2);
  if (paged) line += OneOf<std::string>(random, {" paged:16", " paged:64"});
  if (paged && random.OneIn(3)) line += " blocks:32";
  line +=
      paged && random.OneIn(3)
          ? " int8:page-row-head"
          : OneOf<std::string>(random, {" int8:tensor", " int8:channel",
                                        " int8:row", " int8:channel+offset",
                                        " int8:row+offset", " int8:row-head"});
  line += OneOf<std::string>(
      random, {"", " causal", " mask", " window:20:0", " bias", " mask bias"});
  line += " probs:" + dtype;
  line += OneOf<std::string>(random, {"", " sink", " stats"});
  return line;
}

SmallCase Filled(std::string_view line, Random& random) {
  SmallCase small(ProblemOf(line));
  small.FillInputs(random);
  return small;
}

SmallCase Filled(std::string_view line, uint64_t seed = 1) {
  Random random(seed);
  return Filled(line, random);
}

SmallCase RunWith(Int16Dots dots, const SmallCase& inputs, int workers = 1) {
  SmallCase small(inputs.problem());
  small.CopyInputs(inputs);
  SetInt16DotsForTest(dots);
  RunOn(kCpuDecode, small, workers);
  return small;
}

class DecodeInt16 : public ::testing::TestWithParam<int64_t> {
 protected:
  DecodeInt16() { SetByteDotsForTest(ByteDots::kNone); }
  ~DecodeInt16() override {
    SetByteDotsForTest({});
    SetInt16DotsForTest({});
  }

  void SetUp() override {
    if (!Decode().has_int16_dots) GTEST_SKIP() << "x86 has such products";
  }

  // All that this processor has; but with AVX-512 all are one.
  static std::vector<Int16Dots> AllDots() {
    if (!HasByteInstruction()) return {Int16Dots::kMultiplyAdds};
    return {Int16Dots::kMultiplyAdds, Int16Dots::kInstruction,
            Int16Dots::kInTwos};
  }

  static void ExpectSame(const SmallCase& inputs) {
    const SmallCase want = RunWith(Int16Dots::kMultiplyAdds, inputs);
    for (const Int16Dots dots : AllDots()) {
      testing::ExpectSameButNaN(want, RunWith(dots, inputs));
    }
  }

  static bool TakesThem(const SmallCase& inputs, Slot slot) {
    return RunWith(Int16Dots::kNone, inputs).bytes(slot) !=
           RunWith(Int16Dots::kMultiplyAdds, inputs).bytes(slot);
  }

  const testing::OnTarget target_{GetParam()};
};

TEST_P(DecodeInt16, AreRight) {
  SetInt16DotsForTest(Int16Dots::kMultiplyAdds);
  Random random(21);
  for (int64_t n = 0; n < testing::ShareOf(150); ++n) {
    testing::ExpectRight(AnyLine(random), "cpu/decode",
                         static_cast<uint64_t>(n));
  }
  for (const char* line :
       {"fwd f16 h=40/1 d=64 q=1 k=100 int8:channel probs:f16",
        "fwd bf16 h=9/1 d=64 q=1 k=2000 int8:channel probs:bf16 stats",
        "fwd f16 h=12/2 d=128 q=1 k=700 int8:row+offset out:f32 probs:f16",
        "fwd bf16 h=8/1 d=64 q=2x1 k=2x90 paged:16 blocks:32 int8:channel "
        "probs:bf16",
        "fwd bf16 h=3/1 d=128 q=5x1 k=5,16,33,49,300 int8:row paged:16 "
        "probs:bf16",
        "fwd f16 h=4/2 d=320 q=2x1 k=47,64 int8:channel+offset causal "
        "probs:f16",
        "fwd f16 h=8/1 d=512 q=1 k=60 int8:tensor shared probs:f16",
        "fwd f16 h=3/3 d=128 q=1 k=77 int8:channel probs:f16",
        "fwd f16 h=3/3 d=576/512 q=1 k=77 int8:channel probs:f16",
        "fwd f16 h=2 d=64 q=1 k=900 int8:channel scale:4 probs:f16"}) {
    testing::ExpectRight(line, "cpu/decode");
  }
}

// Of any number of rows, of each whether a problem allows them.
TEST_P(DecodeInt16, AreOfProblemsThatAllowThem) {
  for (const char* heads : {"1", "2", "3", "4", "5", "9"}) {
    const std::string line = std::string("fwd f16 h=") + heads +
                             "/1 d=128 q=1 k=90 int8:channel out:f32";
    EXPECT_FALSE(TakesThem(Filled(line), Slot::kOut)) << line;
    EXPECT_TRUE(TakesThem(Filled(line + " probs:f16"), Slot::kOut)) << line;
  }
  // Sums of more channels might not be words.
  for (const auto& [dims, takes] :
       {std::pair{"512", true}, std::pair{"576", false}}) {
    const SmallCase inputs = Filled(std::string("fwd f16 h=2/1 d=") + dims +
                                    " q=1 k=90 int8:channel probs:f16 out:f32");
    EXPECT_EQ(TakesThem(inputs, Slot::kOut), takes) << dims;
  }
}

TEST_P(DecodeInt16, AreTheSameByInstructions) {
  Random random(22);
  for (int64_t n = 0; n < testing::ShareOf(100); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    ExpectSame(small);
    testing::PutSpecialFactors(random, small);
    ExpectSame(small);
  }
  // Several heads to a call, whose keys are so many bytes apart and which leave
  // lines to the softmax, of every number of rows.
  for (const char* heads :
       {"8/8", "24/8", "32/8", "40/8", "56/8", "64/8", "72/8", "96/8"}) {
    for (const char* rest : {" d=64 q=9x1 k=9x131", " d=192 q=9x1 k=9x50"}) {
      const std::string line =
          std::string("fwd f16 h=") + heads + rest + " int8:channel probs:f16";
      SCOPED_TRACE(line);
      ExpectSame(Filled(line));
    }
  }
}

// What floats make NaN or infinite, integers make NaN or infinite, and nothing
// else.
TEST_P(DecodeInt16, KeepWhatIsNotFinite) {
  Random random(24);
  for (int64_t n = 0; n < testing::ShareOf(100); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    testing::PutNotFinite(random, small);
    const SmallCase floats = RunWith(Int16Dots::kNone, small);
    testing::ExpectSameKinds(floats, RunWith(Int16Dots::kMultiplyAdds, small));
    ExpectSame(small);
  }
}

// Sums at the end of what words hold: queries of the greatest integer, keys of
// the greatest magnitude, on both sides.
TEST_P(DecodeInt16, FitWords) {
  for (const double key : {-128.0, 127.0}) {
    SmallCase inputs = Filled(
        "fwd f16 h=8/1 d=512 q=1 k=5 int8:tensor scale:1 probs:f16 stats "
        "out:f32");
    for (const Slot slot : {Slot::kKeyScale, Slot::kValueScale}) {
      for (int64_t n = 0; n < inputs.count(slot); ++n) inputs.Put(slot, n, 1);
    }
    for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
      inputs.Put(Slot::kQuery, n, n < 512 ? 1 : -1);
    }
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t d = 0; d < 512; ++d) {
          inputs.Put(slot, inputs.problem()[slot].At(0, j, 0, d), key);
        }
      }
    }
    const SmallCase got = RunWith(Int16Dots::kMultiplyAdds, inputs);
    for (int64_t n = 0; n < got.count(Slot::kOut); ++n) {
      ASSERT_NEAR(got.Get(Slot::kOut, n) / key, 1, 0x1p-20) << n;
    }
    for (int64_t row = 0; row < 8; ++row) {
      const double want = 512 * key * (row == 0 ? 1 : -1);
      EXPECT_NEAR(got.Get(Slot::kRowMax, row) / want, 1, 0x1p-20);
    }
    ExpectSame(inputs);
  }
}

// Where one number of a query is so large beside the others that these would be
// lost, scores are those of floats, whatever the scales of keys by row.
TEST_P(DecodeInt16, AreNotOfScoresThatWouldErr) {
  for (const auto& [scales, slot] :
       {std::pair{"channel", Slot::kKeyScale}, {"row", Slot::kQuery}}) {
    SCOPED_TRACE(scales);
    SmallCase inputs = Filled(std::string("fwd f16 h=3/1 d=64 q=1 k=90 int8:") +
                              scales + " probs:f16 stats");
    EXPECT_TRUE(TakesThem(inputs, Slot::kRowMax));
    inputs.Put(slot, 7, 300 * inputs.Get(slot, 7) + 300);
    EXPECT_FALSE(TakesThem(inputs, Slot::kRowMax));
    ExpectSame(inputs);
  }
  // Of the last row, when all others are integers already.
  SmallCase inputs =
      Filled("fwd f16 h=9/1 d=64 q=1 k=90 int8:row probs:f16 stats");
  inputs.Put(Slot::kQuery, 8 * 64 + 7, 300);
  EXPECT_FALSE(TakesThem(inputs, Slot::kRowMax));
  ExpectSame(inputs);
}

// Scales of values by row may be negative.
TEST_P(DecodeInt16, TakeNegativeScales) {
  SmallCase inputs =
      Filled("fwd f16 h=4/1 d=64 q=1 k=30 int8:row out:f32 probs:f16");
  for (int64_t n = 0; n < inputs.count(Slot::kValueRowScale); ++n) {
    const double scale = inputs.Get(Slot::kValueRowScale, n);
    inputs.Put(Slot::kValueRowScale, n, n % 3 == 1 ? -scale : scale);
  }
  const SmallCase floats = RunWith(Int16Dots::kNone, inputs);
  const SmallCase integers = RunWith(Int16Dots::kMultiplyAdds, inputs);
  EXPECT_NE(floats.bytes(Slot::kOut), integers.bytes(Slot::kOut));
  // Values of up to 3 come of probs that err by 2^-16 of the greatest, and of
  // scores that err by 2^-15 of about 6.
  for (int64_t at = 0; at < floats.count(Slot::kOut); ++at) {
    ASSERT_NEAR(floats.Get(Slot::kOut, at), integers.Get(Slot::kOut, at),
                3 * (6 * 0x1p-15 + 0x1p-16));
  }
}

// One key takes nearly everything and has a value of 0; what the others of its
// step add, each 2^-16 of it, is as exact as with floats: such probs would be
// less than half a unit.
TEST_P(DecodeInt16, KeepSmallProbsBesideLargeOnes) {
  for (const char* heads : {"1", "3", "8"}) {
    SmallCase inputs = Filled(std::string("fwd bf16 h=") + heads +
                              "/1 d=64 q=1 k=40 int8:tensor scale:1 out:f32 "
                              "probs:bf16");
    const AttentionProblem& problem = inputs.problem();
    for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
      inputs.Put(Slot::kQuery, n, n % 64 < 4 ? 1 : 0);
    }
    for (const Slot slot : {Slot::kKeyScale, Slot::kValueScale}) {
      for (int64_t n = 0; n < inputs.count(slot); ++n) {
        inputs.Put(slot, n, slot == Slot::kKeyScale ? std::log(2.0) : 1);
      }
    }
    for (int64_t j = 0; j < 40; ++j) {
      for (int64_t d = 0; d < 64; ++d) {
        inputs.Put(Slot::kKey, problem[Slot::kKey].At(0, j, 0, d),
                   j == 3 && d < 4 ? 4 : 0);
        inputs.Put(Slot::kValue, problem[Slot::kValue].At(0, j, 0, d),
                   j == 3 ? 0 : 100);
      }
    }
    const double want = 39 * 100.0 / (39 + 0x1p16);
    const SmallCase got = RunWith(Int16Dots::kMultiplyAdds, inputs);
    for (int64_t n = 0; n < got.count(Slot::kOut); ++n) {
      ASSERT_NEAR(got.Get(Slot::kOut, n) / want, 1, 0x1p-14) << n;
    }
  }
}

TEST_P(DecodeInt16, HaveTheSameBitsForAnyWorkerCount) {
  for (const char* line :
       {"fwd bf16 h=16/2 d=64 q=3x1 k=4000,51,1601 int8:channel probs:bf16",
        "fwd f16 h=24/4 d=128 q=2x2 k=3200,17 causal sink paged:32 int8:row "
        "probs:f16",
        "fwd f16 h=5/5 d=64 q=2x1 k=1900,70 int8:channel probs:f16"}) {
    SCOPED_TRACE(line);
    const SmallCase inputs = Filled(line, 5);
    const SmallCase alone = RunWith(Int16Dots::kMultiplyAdds, inputs);
    for (const int workers : {2, 5}) {
      const SmallCase shared =
          RunWith(Int16Dots::kMultiplyAdds, inputs, workers);
      EXPECT_EQ(shared.bytes(Slot::kOut), alone.bytes(Slot::kOut));
    }
    ExpectSame(inputs);
  }
}

// Neither pages nor blocks nor the other heads of a bundle matter.
TEST_P(DecodeInt16, HaveTheSameBitsHoweverKeysLie) {
  const std::string line =
      "fwd f16 h=8/2 d=64 q=1 k=1700 int8:channel out:f32 probs:f16";
  const SmallCase rows = Filled(line);
  const auto outputs = [](const SmallCase& inputs) {
    return RunWith(Int16Dots::kMultiplyAdds, inputs).bytes(Slot::kOut);
  };
  const auto put_keys = [&](int64_t heads, SmallCase& to) {
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      for (int64_t n = 0; n < heads * 1700 * 64; ++n) {
        const SmallCase::Column column{0, n / 64 % 1700, n / 64 / 1700};
        to.PutKey(slot, column, n % 64, rows.GetKey(slot, column, n % 64));
      }
    }
  };
  const auto whole = outputs(rows);
  for (const char* pages : {" paged:16", " paged:64", " paged:16 blocks:32",
                            " paged:64 blocks:32"}) {
    SCOPED_TRACE(pages);
    SmallCase paged = Filled(line + pages);
    paged.Copy(Slot::kQuery, rows);
    paged.Copy(Slot::kKeyScale, rows);
    paged.Copy(Slot::kValueScale, rows);
    put_keys(2, paged);
    EXPECT_EQ(outputs(paged), whole);
    ExpectSame(paged);
  }
  SmallCase one(ProblemOf(
      "fwd f16 h=4/1 d=64 q=1 k=1700 int8:channel out:f32 probs:f16"));
  for (const Slot slot : {Slot::kQuery, Slot::kKeyScale, Slot::kValueScale}) {
    for (int64_t n = 0; n < one.count(slot); ++n) {
      one.Put(slot, n, rows.Get(slot, n));
    }
  }
  put_keys(1, one);
  const auto alone = outputs(one);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin()));
}

TEST_P(DecodeInt16, StayInside) {
  Random random(23);
  for (int64_t n = 0; n < testing::ShareOf(30); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    for (const Int16Dots dots : AllDots()) {
      SetInt16DotsForTest(dots);
      testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodeInt16,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
