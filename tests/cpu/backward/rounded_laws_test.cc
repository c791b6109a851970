// SPDX-License-Identifier: Apache-2.0
// Gradients from P and dS that are rounded to bf16: what must be true of them
// besides being near enough (pair_dots_test.cc), on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/backward/backward_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/pairs.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kInfinity;
using testing::ProblemOf;

constexpr Slot kGradients[] = {Slot::kGradQuery, Slot::kGradKey,
                               Slot::kGradValue};

class RoundedLaws : public ::testing::TestWithParam<int64_t> {
 protected:
  ~RoundedLaws() override { SetPairDotsForTest({}); }

  static SmallCase Run(PairDots dots, const SmallCase& inputs,
                       int workers = 1) {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    SetPairDotsForTest(dots);
    testing::RunOn(kCpuBackward, small, workers);
    return small;
  }

  // As multiply-adds do, whatever sums pairs.
  SmallCase RunEach(const SmallCase& inputs) const {
    SmallCase usual = Run(PairDots::kMultiplyAdds, inputs);
    for (const PairDots dots : here_) {
      testing::ExpectSameBy(dots, usual, Run(dots, inputs));
    }
    return usual;
  }

  const testing::OnTarget target_{GetParam()};
  const std::vector<PairDots> here_ =
      testing::PairDotsHere(Backward().has_pair_dots);
};

// Random inputs with row statistics of a forward run.
SmallCase Filled(std::string_view line, uint64_t seed = 1) {
  SmallCase small(ProblemOf(line));
  Random random(seed);
  small.FillInputs(random);
  RunForwardTwin(small);
  return small;
}

// Small multiples of `unit`.
void FillWith(SmallCase& small, Slot slot, double unit) {
  for (int64_t n = 0; n < small.count(slot); ++n) {
    small.Put(slot, n, static_cast<double>(n % 5 - 2) * unit);
  }
}

// Tiles of fewer rows have other rows that are no numbers; a key that does not
// see these must not notice. Their rows are in blocks that all tiles share.
TEST_P(RoundedLaws, BitsDoNotDependOnWorkersBesideInfinities) {
  for (const char* line :
       {"bwd bf16 h=2/1 d=8 q=1000 k=600 causal probs:bf16",
        "bwd bf16 h=3/1 d=12+4/6 q=700 k=300 window:90:20 probs:bf16"}) {
    SCOPED_TRACE(line);
    SmallCase small = Filled(line);
    for (const Slot slot : {Slot::kQuery, Slot::kGradOut, Slot::kKey}) {
      const int64_t count = small.count(slot);
      small.Put(slot, count - 3, kInfinity);
      small.Put(slot, count * 3 / 4, -kInfinity);
    }
    // Of sums that the instruction may flush.
    for (int64_t n = 0; n < small.count(Slot::kGradOut) / 4; ++n) {
      small.Put(Slot::kGradOut, n, 0x1p-124 * static_cast<double>(n % 3));
    }
    for (const PairDots dots : here_) {
      const SmallCase one = Run(dots, small);
      for (const int workers : {2, 7, 64}) {
        const SmallCase many = Run(dots, small, workers);
        for (const Slot slot : kGradients) {
          EXPECT_EQ(one.bytes(slot), many.bytes(slot)) << Name(slot);
        }
      }
    }
  }
}

// What others see may be infinite: dS are as rounded, and as summed, beside.
TEST_P(RoundedLaws, HiddenInfinitiesChangeNothing) {
  const SmallCase finite =
      Filled("bwd bf16 h=2 d=8 q=70 k=70 causal probs:bf16");
  SmallCase infinite(finite.problem());
  infinite.CopyInputs(finite);
  const AttentionProblem& p = finite.problem();
  for (int64_t h = 0; h < 2; ++h) {
    infinite.Put(Slot::kKey, p[Slot::kKey].At(0, 69, h, 3), kInfinity);
  }
  const SmallCase a = Run(PairDots::kMultiplyAdds, finite);
  const SmallCase b = Run(PairDots::kMultiplyAdds, infinite);
  for (int64_t i = 0; i < 69; ++i) {
    for (int64_t d = 0; d < 8; ++d) {
      const int64_t at = p[Slot::kGradQuery].At(0, i, 1, d);
      EXPECT_EQ(a.Get(Slot::kGradQuery, at), b.Get(Slot::kGradQuery, at)) << i;
    }
  }
  const int64_t last = p[Slot::kGradQuery].At(0, 69, 1, 3);
  EXPECT_FALSE(std::isfinite(b.Get(Slot::kGradQuery, last)));
}

// Gradients of biases and sinks see dS and P before these are rounded.
TEST_P(RoundedLaws, BiasesAndSinksSeeWhatWasNotRounded) {
  for (const char* line :
       {"bwd bf16 h=2 d=8 q=200 k=150 bias:hij sink grad:qkvb",
        "bwd bf16 h=4/2 d=8 q=200 k=150 causal alibi grad:qkvb"}) {
    SCOPED_TRACE(line);
    const SmallCase exact = Filled(line);
    SmallCase rounded(ProblemOf(std::string(line) + " probs:bf16"));
    rounded.CopyInputs(exact);
    const SmallCase a = Run(PairDots::kMultiplyAdds, exact);
    const SmallCase b = Run(PairDots::kMultiplyAdds, rounded);
    for (const Slot slot : {Slot::kGradBias, Slot::kGradSink}) {
      EXPECT_EQ(a.bytes(slot), b.bytes(slot)) << Name(slot);
    }
    for (const Slot slot : kGradients) {
      EXPECT_NE(a.bytes(slot), b.bytes(slot)) << Name(slot);
    }
  }
}

// Of what is small, the instruction would make 0.
TEST_P(RoundedLaws, SmallGradientsAreKept) {
  struct Case {
    std::initializer_list<std::pair<Slot, double>> units;
    Slot kept;
  };
  const Case cases[] = {
      {{{Slot::kKey, 0x1p-60}, {Slot::kGradOut, 0x1p-70}}, Slot::kGradQuery},
      {{{Slot::kQuery, 0x1p-60}, {Slot::kGradOut, 0x1p-70}}, Slot::kGradKey},
      {{{Slot::kValue, 0x1p60}, {Slot::kGradOut, 0x1p-125}}, Slot::kGradValue},
      {{{Slot::kValue, 0x1p-50}, {Slot::kGradOut, 0x1p-75}}, Slot::kGradQuery},
      {{{Slot::kValue, 0x1p-50}, {Slot::kGradOut, 0x1p-75}}, Slot::kGradKey},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(Name(c.kept));
    SmallCase small = Filled("bwd bf16 h=2 d=8 q=20 k=30 scale:1 probs:bf16");
    for (const auto& [slot, unit] : c.units) FillWith(small, slot, unit);
    RunForwardTwin(small);
    FillWith(small, Slot::kOut, 0);
    const SmallCase run = RunEach(small);
    int64_t kept = 0;
    for (const double x : run.Get(c.kept)) kept += x != 0;
    EXPECT_GT(kept, run.count(c.kept) / 2);
  }
}

// Of the first 32 rows, a panel at least, whatever the panels after it are.
TEST_P(RoundedLaws, SmallGradientsOfOnePanelAreKept) {
  SmallCase small = Filled("bwd bf16 h=1 d=8 q=120 k=30 scale:1 probs:bf16");
  FillWith(small, Slot::kQuery, 0x1p-60);
  FillWith(small, Slot::kGradOut, 0x1p-70);
  for (int64_t n = 32 * 8; n < small.count(Slot::kGradOut); ++n) {
    small.Put(Slot::kGradOut, n, 0);
    small.Put(Slot::kQuery, n, 1);
  }
  RunForwardTwin(small);
  FillWith(small, Slot::kOut, 0);
  const SmallCase run = RunEach(small);
  int64_t kept = 0;
  for (const double x : run.Get(Slot::kGradKey)) kept += x != 0;
  EXPECT_GT(kept, run.count(Slot::kGradKey) / 2);
}

// One row of one key, whose P is 1 and whose dS is dp.
SmallCase OneScore(double first, double second) {
  SmallCase small(ProblemOf("bwd bf16 h=1 d=8 q=1 k=1 scale:1 probs:bf16"));
  for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kValue,
                          Slot::kGradOut, Slot::kOut, Slot::kRowMax}) {
    for (int64_t n = 0; n < small.count(slot); ++n) small.Put(slot, n, 0);
  }
  for (int64_t n = 0; n < small.count(Slot::kRowSum); ++n) {
    small.Put(Slot::kRowSum, n, 1);
  }
  for (const Slot slot : {Slot::kGradOut, Slot::kValue}) {
    small.Put(slot, 0, slot == Slot::kValue ? 1 : first);
    small.Put(slot, 1, slot == Slot::kValue ? 1 : second);
  }
  small.Put(Slot::kQuery, 0, 0x1p-10);
  return small;
}

// The greatest number of bf16 and half a step more: infinite, it would be NaN
// times a key of 0.
TEST_P(RoundedLaws, NoNumberBecomesInfinite) {
  const double greatest = 0x1.FEp127;
  const SmallCase run = RunEach(OneScore(greatest, 0x1p119));
  EXPECT_EQ(run.Get(Slot::kGradQuery, 0), 0);
  EXPECT_EQ(run.Get(Slot::kGradKey, 0), greatest * 0x1p-10);
}

// Whatever its bits; rounding could carry them over to those of 0.
TEST_P(RoundedLaws, NaNsAreKept) {
  SmallCase small = Filled("bwd bf16 h=2 d=8 q=4 k=6 alibi probs:bf16");
  std::fill_n(small.bindings()[Slot::kBias],
              small.count(Slot::kBias) * sizeof(float), std::byte{0xFF});
  const SmallCase run = RunEach(small);
  for (const Slot slot : kGradients) {
    for (const double x : run.Get(slot)) EXPECT_TRUE(std::isnan(x));
  }
}

// Lanes without a row have a P of 0 times an infinite dp.
TEST_P(RoundedLaws, InfiniteValuesMeetOnlyRows) {
  SmallCase small = Filled("bwd bf16 h=1 d=8 q=3 k=4 probs:bf16");
  for (const Slot slot : {Slot::kQuery, Slot::kGradOut}) {
    for (int64_t n = 0; n < small.count(slot); ++n) {
      small.Put(slot, n, 0.25 * static_cast<double>(n % 3 + 1));
    }
  }
  const AttentionProblem& p = small.problem();
  for (int64_t d = 0; d < 8; ++d) {
    small.Put(Slot::kValue, p[Slot::kValue].At(0, 2, 0, d), kInfinity);
  }
  const SmallCase run = RunEach(small);
  for (int64_t d = 0; d < 8; ++d) {
    const int64_t at = p[Slot::kGradKey].At(0, 2, 0, d);
    EXPECT_EQ(run.Get(Slot::kGradKey, at), kInfinity);
    EXPECT_TRUE(std::isfinite(run.Get(Slot::kGradKey, at + 8)) ||
                d == 7);  // the next key
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, RoundedLaws,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
