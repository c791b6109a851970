// SPDX-License-Identifier: Apache-2.0
// Pairs of bf16 channels give the bits that floats give, whatever the numbers,
// on every instruction set; with the instruction where this processor has it,
// on ARM but for roundings.
#include "cpu/pair_dots.h"

#include <gtest/gtest.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problem/tensor_checks.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::OneOf;
using testing::SeenOften;
using testing::Space;

TEST(PairDots, AreForProcessorsWhoseInstructionIsFast) {
  for (const ProcessorKind kind :
       {ProcessorKind::kAmd, ProcessorKind::kArm, ProcessorKind::kOther}) {
    EXPECT_EQ(PairDotsPay(kind, true), kind != ProcessorKind::kOther);
    EXPECT_FALSE(PairDotsPay(kind, false));
  }
}

#if defined(__x86_64__)
TEST(PairDots, AreThoseOfTheProcessorThatLinuxDescribes) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto says = [&](const char* word) {
    return text.find(word) != text.npos;
  };
  EXPECT_EQ(kProcessorKind == ProcessorKind::kAmd, says("AuthenticAMD"));
  EXPECT_EQ(HasPairInstruction(), says(" avx512_bf16"));
  EXPECT_EQ(ChoosePairDots(true) == PairDots::kInstruction,
            says(" avx512_bf16") && says("AuthenticAMD"));
}
#elif defined(__aarch64__)
// Not those of the file: under qemu-user it is about the processor beneath.
TEST(PairDots, AreThoseOfTheProcessor) {
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
    uint64_t features = 0;
    asm("mrs %0, ID_AA64ISAR1_EL1" : "=r"(features));
    EXPECT_EQ(HasPairInstruction(), (features >> 44 & 0xF) != 0);
  }
  EXPECT_EQ(ChoosePairDots(true) == PairDots::kInstruction,
            HasPairInstruction());
}
#endif

TEST(PairDots, AreTheInstructionWhereVectorCodeHasIt) {
  EXPECT_EQ(ChoosePairDots(false), PairDots::kNone);
  SetPairDotsForTest(PairDots::kInstruction);
  EXPECT_EQ(ChoosePairDots(true), PairDots::kInstruction);
  EXPECT_EQ(ChoosePairDots(false), PairDots::kInstruction);
  SetPairDotsForTest(PairDots::kNone);
  EXPECT_EQ(ChoosePairDots(true), PairDots::kNone);
  SetPairDotsForTest({});
}

// Whether tiles load a problem's queries and keys, and of gradients values and
// those of outputs, as pairs, if their channels lie side by side.
bool LoadsPairs(const AttentionProblem& p) {
  const auto are_bf16 = [&](Slot a, Slot b) {
    return p[a].dtype == DType::kBf16 && p[b].dtype == DType::kBf16;
  };
  const Slot value = p.kv.value_is_key ? Slot::kKey : Slot::kValue;
  if (p.direction == Direction::kBackward &&
      (p.v_dim % 2 != 0 || !are_bf16(Slot::kGradOut, value))) {
    return false;
  }
  return p.qk_dim % 2 == 0 && p.rope_dim % 2 == 0 &&
         are_bf16(Slot::kQuery, Slot::kKey) && !p.has(Slot::kKeyScale) &&
         !p.has(Slot::kKeyRowScale);
}

void PutSpecial(SmallCase& small, Slot slot, Random& random) {
  const int64_t count = small.count(slot);
  if (count == 0 || small.problem()[slot].dtype != DType::kBf16) return;
  testing::PutSpecialPairs(count, random, [&](int64_t n, double special) {
    small.Put(slot, n, special);
  });
}

class PairDotsOn : public testing::EachKernel {
 protected:
  ~PairDotsOn() override { SetPairDotsForTest({}); }

  bool MixesFewRows() const { return &implementation_ == &kCpuMixed; }
  bool Rounds(const AttentionProblem& problem) const {
    return problem.score.half_probs && !implementation_.name.ends_with("topk");
  }

  SmallCase Run(PairDots dots, const SmallCase& inputs, int workers = 1) const {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    SetPairDotsForTest(dots);
    testing::RunOn(implementation_, small, workers);
    return small;
  }

  // Pairs of few rows are summed in another order than floats, and floats are
  // not rounded: such problems are compared with pairs that any processor has.
  void ExpectBitsOfFloats(const SmallCase& inputs) {
    const bool rounds = Rounds(inputs.problem());
    const bool floats = !rounds && !MixesFewRows();
    std::vector<PairDots> others =
        testing::PairDotsHere(Forward().has_pair_dots);
    if (!floats) others.erase(others.begin());
    const SmallCase usual =
        Run(floats ? PairDots::kNone : PairDots::kMultiplyAdds, inputs);
    for (const PairDots dots : others) {
      SCOPED_TRACE(static_cast<int>(dots));
      if (rounds && backward() && kInstructionSumsAsFloats) {
        ExpectSameButLost(usual, Run(dots, inputs));
      } else {
        testing::ExpectSameBy(dots, usual, Run(dots, inputs));
      }
    }
    if (rounds && !MixesFewRows()) {
      ExpectScoresOfFloats(usual, Run(PairDots::kNone, inputs));
    }
  }

  // The instruction makes 0 of sums below 2^-126, as often as there are terms:
  // only numbers that are near that may differ, by that and how they are
  // stored.
  static void ExpectSameButLost(const SmallCase& a, const SmallCase& b) {
    const AttentionProblem& p = a.problem();
    const Needs needs = NeedsOf(p);
    const auto terms =
        static_cast<double>(needs.rows * p.group() + needs.columns);
    const double lost =
        0x1p-126 * terms * std::fabs(static_cast<double>(p.score.scale)) +
        0x1p-126 * terms;
    for (const Slot slot : testing::ResultsOf(p)) {
      for (int64_t n = 0; n < a.count(slot); ++n) {
        const double x = a.Get(slot, n), y = b.Get(slot, n);
        if (std::isnan(x) && std::isnan(y)) continue;
        if (std::fabs(x) > 0x1p40 * lost || std::isnan(y)) {
          ASSERT_EQ(x, y) << Name(slot) << " at " << n;
        } else {
          ASSERT_NEAR(x, y, lost + 0x1p-7 * std::fabs(x)) << Name(slot);
        }
      }
    }
  }

  // Whatever becomes of probs.
  static void ExpectScoresOfFloats(const SmallCase& pairs,
                                   const SmallCase& floats) {
    for (const Slot slot : {Slot::kRowMax, Slot::kRowSum, Slot::kLse}) {
      for (int64_t n = 0; n < pairs.count(slot); ++n) {
        const double x = pairs.Get(slot, n), y = floats.Get(slot, n);
        if (std::isnan(x) && std::isnan(y)) continue;
        ASSERT_EQ(x, y) << Name(slot) << " at " << n;
      }
    }
  }

  bool backward() const { return direction() == Direction::kBackward; }

  // A line without its direction.
  AttentionProblem ProblemHere(std::string_view line) const {
    return testing::ProblemOf(
        std::string(backward() ? "bwd " : "fwd ").append(line));
  }

  // The problems of a space that this implementation may take.
  Space SpaceOf(Space space) const {
    if (backward()) space = testing::Backward(space);
    const bool listed = implementation_.name.ends_with("topk");
    return listed ? testing::Listed(space) : space;
  }

  // Problems of bf16 that reach pairs, with what `change` makes of their
  // inputs; probs are floats, or rounded to bf16 by either kind of pairs.
  template <typename Change>
  void ExpectBitsOfFloats(int64_t count, const Space& space, Change change) {
    ForRandomProblems(count, SpaceOf(space),
                      [&](const AttentionProblem& p, Random& random) {
                        if (!LoadsPairs(p)) return;
                        if (!implementation_.supports(p, {}).ok()) return;
                        ++seen_;
                        SmallCase floats(p);
                        floats.FillInputs(random);
                        change(floats, random);
                        ExpectBitsOfFloats(floats);
                      });
  }

  int64_t seen_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, PairDotsOn,
                         ::testing::ValuesIn(testing::Settings(
                             {&kCpuForward, &kCpuMixed, &kCpuBackward,
                              &kCpuTopKForward, &kCpuTopKBackward})),
                         testing::SettingTestName);

TEST_P(PairDotsOn, GiveTheBitsOfFloats) {
  const auto as_they_are = [](SmallCase&, Random&) {};
  ExpectBitsOfFloats(1500, testing::Forward(4, 24, 40, 8, 200), as_they_are);
  ExpectBitsOfFloats(300, testing::Forward(4, 100, 700, 3, 70), as_they_are);
  EXPECT_TRUE(SeenOften(seen_, 10));
}

TEST_P(PairDotsOn, GiveTheBitsOfFloatsOfSpecialNumbers) {
  ExpectBitsOfFloats(
      1500, testing::Forward(3, 60, 90, 4, 40),
      [](SmallCase& small, Random& random) {
        const AttentionProblem& p = small.problem();
        for (const Slot slot :
             {Slot::kQuery, Slot::kQueryRope, Slot::kKey, Slot::kKeyRope,
              Slot::kValue, Slot::kOut, Slot::kGradOut}) {
          const bool is_input = p.has(slot) && !IsOutput(p.direction, slot);
          if (is_input && random.OneIn(2)) PutSpecial(small, slot, random);
        }
      });
  EXPECT_TRUE(SeenOften(seen_, 10));
}

// What the instruction does not take has other bits on ARM: who takes what must
// not depend on how work is shared.
TEST_P(PairDotsOn, GiveTheSameBitsToAnyWorkersBesideSubnormals) {
  for (const std::string_view line :
       {"bf16 h=4/2 d=24 q=130,3 k=330,40 causal",
        "bf16 h=2 d=16+8/32 q=70,20 k=900,300",
        "bf16 h=4/2 d=16 q=150 k=400 probs:bf16", "bf16 h=2 d=32 q=12 k=4300",
        "bf16 h=20/1 d=24 q=9 k=300 topk:200",
        "bf16 h=9/1 d=16+8 q=5 k=300 topk:130 shared"}) {
    SmallCase inputs(ProblemHere(line));
    if (!implementation_.supports(inputs.problem(), {}).ok()) continue;
    SCOPED_TRACE(line);
    Random random(7);
    inputs.FillInputs(random);
    for (const Slot slot :
         {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kGradOut}) {
      const int64_t count = inputs.problem().has(slot) ? inputs.count(slot) : 0;
      for (int64_t n = random.Within(0, 2000); n < count;
           n += random.Within(1, 4000)) {
        inputs.Put(slot, n, 0x1p-130);
      }
    }
    for (const PairDots dots : testing::PairDotsHere(Forward().has_pair_dots)) {
      const SmallCase alone = Run(dots, inputs);
      for (const int workers : {2, 7, 64}) {
        testing::ExpectSameBits(alone, Run(dots, inputs, workers));
      }
    }
  }
}

// Where probs may be rounded they are.
TEST_P(PairDotsOn, RoundProbs) {
  const AttentionProblem problem =
      ProblemHere("bf16 h=2 d=8 q=20 k=30 probs:bf16");
  if (!implementation_.supports(problem, {}).ok()) return;
  SmallCase inputs(problem);
  Random random(2);
  inputs.FillInputs(random);
  AttentionProblem exact = problem;
  exact.score.half_probs = false;
  SmallCase floats(exact);
  floats.CopyInputs(inputs);
  const SmallCase rounded = Run(PairDots::kMultiplyAdds, inputs);
  const SmallCase others = Run(PairDots::kMultiplyAdds, floats);
  for (const Slot slot :
       {Slot::kOut, Slot::kGradQuery, Slot::kGradKey, Slot::kGradValue}) {
    if (!problem.has(slot) || !IsOutput(problem.direction, slot)) continue;
    EXPECT_NE(rounded.bytes(slot), others.bytes(slot)) << Name(slot);
  }
}

// And are near enough.
TEST_P(PairDotsOn, OfProbsAreRight) {
  const auto right = [&](int64_t count, const Space& space) {
    ForRandomProblems(
        count, SpaceOf(space), [&](AttentionProblem p, Random& random) {
          if (!LoadsPairs(p)) return;
          p.score.half_probs = true;
          const auto here = testing::PairDotsHere(Forward().has_pair_dots);
          SetPairDotsForTest(random.OneIn(2) ? here.front() : here.back());
          seen_ += testing::ExpectRight(
              p, static_cast<uint64_t>(random.Within(1, 1 << 20)),
              implementation_.name);
        });
  };
  // Rows of several panels, whose keys begin within those of a step.
  for (const char* line :
       {"bf16 h=2 d=8 q=300 k=300 window:5:0 probs:bf16",
        "bf16 h=1 d=8 q=300 k=310 window:20:4 probs:bf16",
        "bf16 h=6/2 d=40+8/24 q=77 k=301 causal probs:bf16"}) {
    SetPairDotsForTest(PairDots::kMultiplyAdds);
    testing::ExpectRight(ProblemHere(line), 1, implementation_.name);
  }
  right(1500, testing::Forward(4, 24, 40, 8, 200));
  right(150, testing::Forward(2, 300, 700, 3, 70));
  EXPECT_TRUE(SeenOften(seen_, 10));
}

// Of subnormals alone: an instruction that makes 0 of them has every score 0,
// or every dp.
TEST_P(PairDotsOn, KeepSubnormals) {
  for (const std::string_view line :
       {"bf16 h=2 d=8 q=20 k=30", "bf16 h=2 d=6 q=20 k=30 causal",
        "bf16 h=2 d=8 q=20 k=31 probs:bf16", "bf16 h=4/1 d=8 q=5 k=30 topk:16",
        "bf16 h=4/1 d=8+4 q=5 k=30 topk:16 shared"}) {
    SmallCase floats(ProblemHere(line));
    if (!implementation_.supports(floats.problem(), {}).ok()) continue;
    for (const auto& [tiny, large] :
         std::initializer_list<std::pair<Slot, Slot>>{
             {Slot::kQuery, Slot::kKey},
             {Slot::kKey, Slot::kQuery},
             {Slot::kValue, Slot::kGradOut},
             {Slot::kGradOut, Slot::kValue}}) {
      if (!floats.problem().has(tiny) || !floats.problem().has(large)) continue;
      Random random(1);
      floats.FillInputs(random);
      testing::FillTinyAndLarge(floats, tiny, large);
      // Or delta is all of a gradient.
      for (int64_t n = 0; backward() && n < floats.count(Slot::kOut); ++n) {
        floats.Put(Slot::kOut, n, 0);
      }
      ExpectBitsOfFloats(floats);
    }
  }
}

// Whatever its bits; rounding could carry them over to those of 0.
TEST_P(PairDotsOn, KeepNaNsOfProbs) {
  if (backward()) return;
  SmallCase floats(
      testing::ProblemOf("fwd bf16 h=2 d=8 q=4 k=6 alibi probs:bf16"));
  if (!implementation_.supports(floats.problem(), {}).ok()) return;
  Random random(1);
  floats.FillInputs(random);
  std::fill_n(floats.bindings()[Slot::kBias],
              floats.count(Slot::kBias) * sizeof(float), std::byte{0xFF});
  const SmallCase run = Run(PairDots::kMultiplyAdds, floats);
  for (int64_t n = 0; n < run.count(Slot::kOut); ++n) {
    EXPECT_TRUE(std::isnan(run.Get(Slot::kOut, n))) << n;
  }
  ExpectBitsOfFloats(floats);
}

// Values that others see may be infinite: probs are as rounded beside them.
TEST_P(PairDotsOn, HiddenInfinitiesChangeNothing) {
  if (backward()) return;
  SmallCase finite(
      testing::ProblemOf("fwd bf16 h=2 d=8 q=9 k=9 causal out:f32 probs:bf16"));
  if (!implementation_.supports(finite.problem(), {}).ok()) return;
  Random random(1);
  finite.FillInputs(random);
  SmallCase infinite(finite.problem());
  infinite.CopyInputs(finite);
  const TensorSpec& value = finite.problem()[Slot::kValue];
  for (int64_t h = 0; h < 2; ++h) {
    infinite.Put(Slot::kValue, value.At(0, 8, h, 3), testing::kInfinity);
  }
  const SmallCase a = Run(PairDots::kMultiplyAdds, finite);
  const SmallCase b = Run(PairDots::kMultiplyAdds, infinite);
  const TensorSpec& out = finite.problem()[Slot::kOut];
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t d = 0; d < 8; ++d) {
      const int64_t at = out.At(0, i, 1, d);
      EXPECT_NEAR(a.Get(Slot::kOut, at), b.Get(Slot::kOut, at), 1e-5) << i;
    }
  }
  EXPECT_EQ(b.Get(Slot::kOut, out.At(0, 8, 1, 3)), testing::kInfinity);
}

// Of small values sums may be subnormal until the greatest prob comes last.
TEST_P(PairDotsOn, KeepSubnormalProducts) {
  if (backward()) return;
  SmallCase small(testing::ProblemOf(
      "fwd bf16 h=2 d=8 q=20 k=30 scale:1 out:f32 probs:bf16"));
  if (!implementation_.supports(small.problem(), {}).ok()) return;
  for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kValue}) {
    const TensorSpec& spec = small.problem()[slot];
    for (int64_t n = 0; n < small.count(slot); ++n) {
      const bool last = n / spec.strides[1] == 29;
      const double number = slot == Slot::kQuery ? 1 : last ? 0 : -16;
      small.Put(slot, n,
                slot == Slot::kValue ? 0x1p-110
                : n % 8 == 0         ? number
                                     : 0);
    }
  }
  const double others = 29 * std::exp(-16.0);
  const SmallCase run = Run(PairDots::kMultiplyAdds, small);
  for (int64_t n = 0; n < run.count(Slot::kOut); ++n) {
    EXPECT_NEAR(run.Get(Slot::kOut, n) / 0x1p-110, 1, 0x1p-8 * others) << n;
  }
  ExpectBitsOfFloats(small);
}

// A prob that is subnormal, times the largest numbers.
TEST_P(PairDotsOn, KeepSubnormalProbsOfLargeValues) {
  if (backward()) return;
  SmallCase floats(testing::ProblemOf(
      "fwd bf16 h=2 d=8 q=20 k=30 scale:1 out:f32 probs:bf16"));
  if (!implementation_.supports(floats.problem(), {}).ok()) return;
  const auto fill = [&](Slot slot, double first_row, double other_rows) {
    const TensorSpec& spec = floats.problem()[slot];
    for (int64_t n = 0; n < floats.count(slot); ++n) {
      const bool first = n < spec.strides[1];
      const bool channel = slot == Slot::kValue || n % 8 == 0;
      floats.Put(slot, n, !channel ? 0 : first ? first_row : other_rows);
    }
  };
  fill(Slot::kQuery, 1, 1);
  fill(Slot::kKey, 0, -87.5);
  fill(Slot::kValue, 0, 0x1p127);
  const SmallCase run = Run(PairDots::kMultiplyAdds, floats);
  for (int64_t n = 0; n < run.count(Slot::kOut); ++n) {
    EXPECT_NEAR(run.Get(Slot::kOut, n), 29 * 0x1p127 * std::exp(-87.5), 1);
  }
  ExpectBitsOfFloats(floats);
}

}  // namespace
}  // namespace flashacl::cpu
