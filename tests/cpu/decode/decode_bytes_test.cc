// SPDX-License-Identifier: Apache-2.0
// Few rows whose products with keys and values of 8 bits are sums of bytes:
// right, of any shape that takes them, the same whether the instruction makes
// them, matrix registers or multiplications, and left alone where digits cannot
// be of a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/range.h"
#include "cpu/byte_dots.h"
#include "cpu/decode/decode_kernel.h"
#include "cpu/implementations.h"
#include "cpu/tuning.h"
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

// A problem whose rows are whole vectors of bytes on every target: as many rows
// per kv head as take them, to 16, a multiple of `unit`, odd numbers of keys,
// pages, masks, scales of all kinds.
std::string AnyLine(Random& random, int64_t unit = 1) {
  const auto number = [&](int64_t first, int64_t last) {
    return std::to_string(random.Within(first, last));
  };
  const int64_t fewest = CeilDiv(kMinByteRows, unit);
  const int64_t group = unit * random.Within(fewest, 16 / unit);
  const int64_t kv_heads = random.Within(1, 3);
  std::string line = OneOf<std::string>(random, {"fwd f16 h=", "fwd bf16 h="}) +
                     std::to_string(group * kv_heads) + "/" +
                     std::to_string(kv_heads);
  line += OneOf<std::string>(
      random, {" d=64", " d=128", " d=192", " d=128/64", " d=64/48"});
  line += " q=2x" + number(1, 2) + " k=" + number(1, 100) + "," + number(1, 60);
  const bool paged = random.OneIn(2);
  if (paged) line += OneOf<std::string>(random, {" paged:16", " paged:64"});
  line +=
      paged && random.OneIn(3)
          ? " int8:page-row-head"
          : OneOf<std::string>(random, {" int8:tensor", " int8:channel",
                                        " int8:row", " int8:channel+offset",
                                        " int8:row+offset", " int8:row-head"});
  line += OneOf<std::string>(
      random, {"", " causal", " mask", " window:20:0", " bias", " mask bias"});
  line += OneOf<std::string>(random, {"", " sink", " stats"});
  return line;
}

// What may be chosen here, besides floats.
std::vector<ByteDots> Here() {
  std::vector<ByteDots> here = {ByteDots::kMultiplyAdds};
  if (!Decode().has_byte_dots || HasByteInstruction()) {
    here.push_back(ByteDots::kInstruction);
  }
  if (Decode().has_byte_dots && HasByteTwoByTwo()) {
    here.push_back(ByteDots::kTwoByTwo);
  }
  if (Decode().matrices == MatrixCode::kEmulated || HasByteMatrices()) {
    here.push_back(ByteDots::kMatrices);
  }
  return here;
}

// With scores and scales of probs that digits may be of: keys are 8 bits times
// small scales, and no scale of values is negative.
SmallCase Filled(std::string_view line, Random& random) {
  SmallCase small(ProblemOf(line));
  small.FillInputs(random);
  for (const Slot slot :
       {Slot::kKeyScale, Slot::kKeyRowScale, Slot::kValueRowScale}) {
    const double factor = slot == Slot::kValueRowScale ? 1 : 0x1p-8;
    for (int64_t n = 0; n < small.count(slot); ++n) {
      small.Put(slot, n, factor * std::fabs(small.Get(slot, n)));
    }
  }
  return small;
}

SmallCase Filled(std::string_view line, uint64_t seed = 1) {
  Random random(seed);
  return Filled(line, random);
}

SmallCase RunWith(ByteDots dots, const SmallCase& inputs, int workers = 1) {
  SmallCase small(inputs.problem());
  small.CopyInputs(inputs);
  SetByteDotsForTest(dots);
  RunOn(kCpuDecode, small, workers);
  return small;
}

class DecodeBytes : public ::testing::TestWithParam<int64_t> {
 protected:
  ~DecodeBytes() override { SetByteDotsForTest({}); }

  // The same bits by instructions as by multiplications, but of NaN; leaves out
  // what this processor has not.
  static void ExpectSame(const SmallCase& inputs) {
    const SmallCase products = RunWith(ByteDots::kMultiplyAdds, inputs);
    for (const ByteDots dots : Here()) {
      // A single row is floats on matrix registers.
      if (dots == ByteDots::kMatrices && inputs.problem().group() == 1) {
        continue;
      }
      testing::ExpectSameButNaN(products, RunWith(dots, inputs));
    }
  }

  const testing::OnTarget target_{GetParam()};
};

TEST_P(DecodeBytes, AreRight) {
  for (const ByteDots dots : Here()) {
    SetByteDotsForTest(dots);
    Random random(11);
    for (int64_t n = 0; n < testing::ShareOf(150); ++n) {
      testing::ExpectRight(AnyLine(random), "cpu/decode",
                           static_cast<uint64_t>(n));
    }
    for (const char* line :
         {"fwd f16 h=40/1 d=64 q=1 k=100 int8:channel",
          "fwd bf16 h=9/1 d=64 q=1 k=2000 int8:channel stats",
          "fwd f16 h=12/2 d=128 q=1 k=700 int8:row+offset out:f32 stats",
          "fwd bf16 h=8/1 d=64 q=2x1 k=2x90 paged:16 blocks:32 int8:channel",
          "fwd bf16 h=3/1 d=128 q=5x1 k=5,16,33,49,300 int8:row paged:16",
          "fwd f16 h=4/2 d=320 q=2x1 k=47,64 int8:channel+offset causal",
          "fwd f16 h=8/1 d=512 q=1 k=60 int8:tensor shared",
          "fwd f16 h=3/3 d=128 q=1 k=77 int8:channel",
          "fwd bf16 h=10/2 d=112/48 q=1 k=200 int8:row causal"}) {
      testing::ExpectRight(line, "cpu/decode");
    }
  }
}

// Of six rows or more on x86, of any number on ARM: sums of floats have another
// order.
TEST_P(DecodeBytes, AreOfEnoughRows) {
  for (const auto& [rows, bytes] :
       {std::pair{kMinByteRows, true}, {kMinByteRows - 1, false}}) {
    if (rows == 0) continue;
    const std::string line = "fwd f16 h=" + std::to_string(rows) +
                             "/1 d=128 q=1 k=90 int8:channel "
                             "out:f32";
    SmallCase inputs = Filled(line);
    // Zeros are digits, too.
    if (rows > 1) {
      for (int64_t d = 0; d < 128; ++d) inputs.Put(Slot::kQuery, d, 0);
    }
    const SmallCase floats = RunWith(ByteDots::kNone, inputs);
    const SmallCase others = RunWith(ByteDots::kMultiplyAdds, inputs);
    EXPECT_EQ(floats.bytes(Slot::kOut) != others.bytes(Slot::kOut), bytes);
  }
}

// On matrix registers fewer do, from two on.
TEST_P(DecodeBytes, AreOfTwoRowsOrMoreOnMatrices) {
  if (Here().back() != ByteDots::kMatrices) {
    GTEST_SKIP() << "this processor multiplies no bytes on matrix registers; "
                    "narrower targets emulate them";
  }
  for (const auto& [heads, bytes] : {std::pair{"2", true}, {"1", false}}) {
    const SmallCase inputs = Filled(std::string("fwd f16 h=") + heads +
                                    "/1 d=128 q=1 k=90 int8:channel out:f32");
    const SmallCase floats = RunWith(ByteDots::kNone, inputs);
    const SmallCase others = RunWith(ByteDots::kMatrices, inputs);
    EXPECT_EQ(floats.bytes(Slot::kOut) != others.bytes(Slot::kOut), bytes);
  }
}

// On x86 of even numbers of rows: a last one alone is floats but on matrix
// registers.
TEST_P(DecodeBytes, AreTheSameByInstructions) {
  Random random(12);
  for (int64_t n = 0; n < testing::ShareOf(100); ++n) {
    const std::string line = AnyLine(random, kMinByteRows == 1 ? 1 : 2);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    ExpectSame(small);
    testing::PutSpecialFactors(random, small);
    ExpectSame(small);
  }
}

// What floats make NaN or infinite, bytes make NaN or infinite, and nothing
// else.
TEST_P(DecodeBytes, KeepWhatIsNotFinite) {
  Random random(14);
  for (int64_t n = 0; n < testing::ShareOf(100); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    testing::PutNotFinite(random, small);
    const SmallCase floats = RunWith(ByteDots::kNone, small);
    for (const ByteDots dots : Here()) {
      testing::ExpectSameKinds(floats, RunWith(dots, small));
    }
  }
}

// Where a channel's scale is so large beside others that their digits would be
// lost, or a row's makes much of what is lost, scores are those of floats.
TEST_P(DecodeBytes, AreNotOfScoresThatWouldErr) {
  for (const auto& [line, slot] :
       {std::pair{"fwd f16 h=8/1 d=64 q=1 k=90 int8:channel stats",
                  Slot::kKeyScale},
        {"fwd f16 h=8/1 d=64 q=1 k=90 int8:row stats", Slot::kKeyRowScale}}) {
    SCOPED_TRACE(line);
    SmallCase inputs = Filled(line);
    // Of which no sum is exact.
    for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
      const auto x = static_cast<double>(n);
      inputs.Put(Slot::kQuery, n, std::ldexp(std::sin(x), -(n % 12)));
    }
    for (int64_t n = 0; n < inputs.count(slot); ++n) {
      inputs.Put(slot, n, 0.001 + 0.001 / static_cast<double>(n + 1));
    }
    const auto same = [&] {
      const SmallCase floats = RunWith(ByteDots::kNone, inputs);
      const SmallCase bytes = RunWith(ByteDots::kMultiplyAdds, inputs);
      return floats.bytes(Slot::kRowMax) == bytes.bytes(Slot::kRowMax) &&
             floats.bytes(Slot::kRowSum) == bytes.bytes(Slot::kRowSum);
    };
    EXPECT_FALSE(same());
    for (int64_t n = 0; n < inputs.count(slot); ++n) {
      inputs.Put(slot, n, 1e6 * inputs.Get(slot, n));
    }
    EXPECT_TRUE(same());
  }
}

// Digits of probs have no sign, so negative scales of values leave them alone.
TEST_P(DecodeBytes, AreNotOfNegativeScales) {
  SmallCase inputs = Filled("fwd f16 h=8/1 d=64 q=1 k=30 int8:row out:f32");
  for (int64_t n = 0; n < inputs.count(Slot::kValueRowScale); ++n) {
    const double scale = inputs.Get(Slot::kValueRowScale, n);
    inputs.Put(Slot::kValueRowScale, n, n == 7 ? -scale : scale);
  }
  const SmallCase floats = RunWith(ByteDots::kNone, inputs);
  for (const ByteDots dots : Here()) {
    const SmallCase bytes = RunWith(dots, inputs);
    for (int64_t at = 0; at < floats.count(Slot::kOut); ++at) {
      ASSERT_NEAR(floats.Get(Slot::kOut, at), bytes.Get(Slot::kOut, at), 1e-5);
    }
  }
}

// One key takes nearly everything and has a value of 0; what the others of its
// step add, each 2^-16 of it, has 8 bits left.
TEST_P(DecodeBytes, KeepSmallProbsBesideLargeOnes) {
  SmallCase inputs =
      Filled("fwd bf16 h=8/1 d=64 q=1 k=40 int8:tensor scale:1 out:f32");
  const AttentionProblem& problem = inputs.problem();
  for (int64_t n = 0; n < inputs.count(Slot::kQuery); ++n) {
    inputs.Put(Slot::kQuery, n, n % 64 == 0 ? 1 : 0);
  }
  for (const Slot slot : {Slot::kKeyScale, Slot::kValueScale}) {
    for (int64_t n = 0; n < inputs.count(slot); ++n) {
      inputs.Put(slot, n, slot == Slot::kKeyScale ? std::log(2.0) : 1);
    }
  }
  for (int64_t j = 0; j < 40; ++j) {
    for (int64_t d = 0; d < 64; ++d) {
      inputs.Put(Slot::kKey, problem[Slot::kKey].At(0, j, 0, d),
                 j == 3 && d == 0 ? 16 : 0);
      inputs.Put(Slot::kValue, problem[Slot::kValue].At(0, j, 0, d),
                 j == 3 ? 0 : 100);
    }
  }
  const double want = 39 * 100.0 / (39 + 0x1p16);
  for (const ByteDots dots : Here()) {
    const SmallCase bytes = RunWith(dots, inputs);
    for (int64_t n = 0; n < bytes.count(Slot::kOut); ++n) {
      ASSERT_NEAR(bytes.Get(Slot::kOut, n) / want, 1, 0x1p-8) << n;
    }
  }
}

TEST_P(DecodeBytes, HaveTheSameBitsForAnyWorkerCount) {
  for (const char* line :
       {"fwd bf16 h=16/2 d=64 q=3x1 k=4000,51,1601 int8:channel",
        "fwd f16 h=24/4 d=128 q=2x2 k=3200,17 causal sink paged:32 int8:row",
        "fwd f16 h=5/5 d=64 q=2x1 k=1900,70 int8:channel"}) {
    SCOPED_TRACE(line);
    const SmallCase inputs = Filled(line, 5);
    for (const ByteDots dots : Here()) {
      const SmallCase alone = RunWith(dots, inputs);
      for (const int workers : {2, 5}) {
        const SmallCase shared = RunWith(dots, inputs, workers);
        EXPECT_EQ(shared.bytes(Slot::kOut), alone.bytes(Slot::kOut));
      }
    }
  }
}

// Neither pages nor the other heads of a bundle matter.
TEST_P(DecodeBytes, HaveTheSameBitsHoweverKeysLie) {
  const SmallCase rows =
      Filled("fwd f16 h=16/2 d=64 q=1 k=1700 int8:channel out:f32");
  const auto outputs = [](const SmallCase& inputs) {
    std::vector<std::vector<std::byte>> of_all;
    for (const ByteDots dots : Here()) {
      of_all.push_back(RunWith(dots, inputs).bytes(Slot::kOut));
    }
    return of_all;
  };
  const auto whole = outputs(rows);
  for (const char* line :
       {"fwd f16 h=16/2 d=64 q=1 k=1700 int8:channel out:f32 paged:16",
        "fwd f16 h=16/2 d=64 q=1 k=1700 int8:channel out:f32 paged:64"}) {
    SCOPED_TRACE(line);
    SmallCase paged = Filled(line);
    paged.Copy(Slot::kQuery, rows);
    paged.Copy(Slot::kKeyScale, rows);
    paged.Copy(Slot::kValueScale, rows);
    for (const Slot slot : {Slot::kKey, Slot::kValue}) {
      for (int64_t n = 0; n < 2 * 1700 * 64; ++n) {
        const SmallCase::Column column{0, n / 64 % 1700, n / 64 / 1700};
        paged.PutKey(slot, column, n % 64, rows.GetKey(slot, column, n % 64));
      }
    }
    EXPECT_EQ(outputs(paged), whole);
  }
  SmallCase one(
      ProblemOf("fwd f16 h=8/1 d=64 q=1 k=1700 int8:channel "
                "out:f32"));
  for (const Slot slot : {Slot::kQuery, Slot::kKeyScale, Slot::kValueScale}) {
    for (int64_t n = 0; n < one.count(slot); ++n) {
      one.Put(slot, n, rows.Get(slot, n));
    }
  }
  for (const Slot slot : {Slot::kKey, Slot::kValue}) {
    for (int64_t n = 0; n < 1700 * 64; ++n) {
      const SmallCase::Column column{0, n / 64, 0};
      one.PutKey(slot, column, n % 64, rows.GetKey(slot, column, n % 64));
    }
  }
  const auto alone = outputs(one);
  for (size_t n = 0; n < alone.size(); ++n) {
    EXPECT_TRUE(std::equal(alone[n].begin(), alone[n].end(), whole[n].begin()));
  }
}

TEST_P(DecodeBytes, StayInside) {
  Random random(13);
  for (int64_t n = 0; n < testing::ShareOf(30); ++n) {
    const std::string line = AnyLine(random);
    SCOPED_TRACE(line);
    SmallCase small = Filled(line, random);
    for (const ByteDots dots : Here()) {
      SetByteDotsForTest(dots);
      testing::ExpectStaysInside(kCpuDecode, small, {2, 3});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecodeBytes,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
