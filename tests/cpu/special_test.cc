// SPDX-License-Identifier: Apache-2.0
// Infinities, NaNs and row statistics that no forward makes, for every
// implementation: what a row does not see does not reach it, nor it the key,
// whatever hides them; the rest is as the reference says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "problem/tensor_checks.h"
#include "reference/rows.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::OneOf;
using testing::ResultsOf;
using testing::SeenOften;
using testing::Space;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

enum class Kind : uint8_t { kFinite, kNaN, kPlus, kMinus };

Kind KindOf(double x) {
  if (std::isnan(x)) return Kind::kNaN;
  if (std::isinf(x)) return x > 0 ? Kind::kPlus : Kind::kMinus;
  return Kind::kFinite;
}

// A few elements, or as many as a row of keys has, are no numbers.
void Spoil(SmallCase& small, Slot slot, Random& random) {
  const int64_t count = small.count(slot);
  if (count == 0 || !IsFloat(small.problem()[slot].dtype)) return;
  for (int64_t n = random.Within(1, 4); n > 0; --n) {
    const double special = OneOf(random, {kNaN, kInfinity, -kInfinity});
    const int64_t run = random.OneIn(2) ? 1 : small.problem()[slot].dims[3];
    const int64_t first = random.Within(0, count - 1);
    for (int64_t at = first; at < std::min(first + run, count); ++at) {
      small.Put(slot, at, special);
    }
  }
}

// Whether a prob may be less than fp32 holds: 0 there, and of 0 * inf is NaN
// where fp64 has infinity (docs/notes/0019). Alibi alone pushes scores that far
// below the greatest of their row; all else keeps them within 20 of it.
bool ProbsMayVanish(const SmallCase& small) {
  const AttentionProblem& problem = small.problem();
  if (!IsAlibi(problem.score.bias)) return false;
  const Needs needs = NeedsOf(problem);
  const auto distance = static_cast<double>(
      needs.rows + needs.columns +
      std::abs(problem.score.key_start - problem.score.query_start));
  for (const double slope : small.Get(Slot::kBias)) {
    if (!(std::fabs(slope) * distance < 60)) return true;
  }
  return false;
}

// What an output may err by where its terms cancel: n roundings of at most
// 2^-24 V, where V is the greatest value that is summed, which no sum of values
// times weights exceeds, for weights are 1 together (times 1 / keep where
// dropout keeps all that weighs). On the way are, to the first order,
//   columns           additions, a rounding of a partial sum each,
//   columns           rescales at most, one where a block or a split has a new
//                     max,
//   2 (dims + 8) 20   in the weights: a rounding of each of dims products and
//   of
//                     8 steps from there to exp, of numbers of at most 20 (see
//                     ProbsMayVanish) is as much of exp, and a weight's error
//                     counts twice, for it is one of their sum, too,
//   8                 in a value of bytes (offset, scale), its product, and
//   what
//                     divides the sum (inverse, keep, product, storing).
double CancelledRoundings(const SmallCase& small) {
  const AttentionProblem& problem = small.problem();
  const reference::Operands operands(problem, small.bindings());
  WorkspaceLayout layout;
  reference::KeyValues keys(problem, layout);
  std::vector<std::byte> workspace(static_cast<size_t>(layout.bytes()));
  keys.Attach(workspace.data());
  ShuffledWorkers alone(1);
  double greatest = 0;
  int64_t columns = 0;
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const int64_t of_sequence = operands.sequence(b).columns();
    columns = std::max(columns, of_sequence);
    for (int64_t g = 0; g < problem.kv_heads; ++g) {
      keys.Load(operands, b, g, alone);
      for (int64_t j = 0; j < of_sequence; ++j) {
        if (!keys.exists(j)) continue;
        for (const double x : keys.value(j)) {
          if (std::isfinite(x)) greatest = std::max(greatest, std::fabs(x));
        }
      }
    }
  }
  const auto n =
      static_cast<double>(2 * columns + 2 * (problem.score_dim() + 8) * 20 + 8);
  return n * 0x1p-24 * greatest /
         static_cast<double>(problem.score.keep_probability);
}

// Values of one sign, but those of four bits or after a prefix, of which few,
// or a split's, or several splits' sum up to more than fp32 holds where their
// type allows it. No output is that much.
void FillLargeValues(SmallCase& small, Random& random) {
  const AttentionProblem& problem = small.problem();
  const bool shared = problem.kv.value_is_key;
  const Slot values = shared ? Slot::kKey : Slot::kValue;
  const bool by_row =
      problem.has(shared ? Slot::kKeyRowScale : Slot::kValueRowScale);
  const Slot scale = by_row
                         ? (shared ? Slot::kKeyRowScale : Slot::kValueRowScale)
                     : shared ? Slot::kKeyScale
                              : Slot::kValueScale;
  const Slot offset =
      by_row   ? (shared ? Slot::kKeyRowOffset : Slot::kValueRowOffset)
      : shared ? Slot::kKeyOffset
               : Slot::kValueOffset;
  if (!problem.kv.key_list.empty()) return;  // a tensor per sequence
  const auto fill = [&](Slot slot, double least, double most) {
    for (int64_t n = 0; n < small.count(slot); ++n) {
      const double x = least + (most - least) * random.Fraction();
      small.Put(slot, n, IsFloat(problem[slot].dtype) ? x : std::floor(x));
    }
  };
  const double sign = OneOf(random, {1.0, -1.0});
  const double most = sign * problem.score.keep_probability *
                      OneOf(random, {3e38, 3e36, 3e35, 1e35});
  // Scores of keys so large would be no numbers.
  if (shared) fill(Slot::kQuery, 0, 0);
  if (problem.has(scale)) {
    fill(values, 40, 127);
    fill(offset, 0, 10);
    if (problem[scale].dtype == DType::kF16) return;
    fill(scale, most / 280, most / 140);
  } else if (problem[values].dtype != DType::kF16) {
    fill(values, most / 4, most);
  }
}

class Special : public testing::EachKernel {
 protected:
  bool backward() const { return direction() == Direction::kBackward; }

  // Calls body(small, random) for problems that the implementation takes.
  template <typename Body>
  void ForCases(int64_t count, Space space, Body body) {
    space.forward = !backward();
    space.backward = backward();
    space.caches = !implementation_.name.ends_with("topk");  // takes none
    ForRandomProblems(count, space,
                      [&](const AttentionProblem& p, Random& random) {
                        if (!implementation_.supports(p, {}).ok()) return;
                        if (p[Slot::kOut].dtype == DType::kI8) return;
                        SmallCase small(p);
                        small.FillInputs(random);
                        if (backward()) RunForwardTwin(small);
                        body(small, random);
                      });
  }

  // Runs a case; its results are those of the reference.
  void ExpectTheReferences(SmallCase& small) {
    SmallCase expected(small.problem());
    expected.CopyInputs(small);
    expected.Run();
    testing::RunOn(implementation_, small);
    const bool vanish = ProbsMayVanish(small);
    const double cancelled = backward() ? 0 : CancelledRoundings(small);
    for (const Slot slot : ResultsOf(small.problem())) {
      const std::vector<double> want = expected.Get(slot);
      double unit = 1;
      for (const double x : want) {
        if (std::isfinite(x)) unit = std::max(unit, std::fabs(x));
      }
      for (size_t n = 0; n < want.size(); ++n) {
        const double got = small.Get(slot, static_cast<int64_t>(n));
        // NaNs are not ordered: among them any maximum is as good.
        if (slot == Slot::kRowMax &&
            std::isnan(expected.Get(Slot::kRowSum, static_cast<int64_t>(n)))) {
          continue;
        }
        ++(std::isfinite(want[n]) ? spared_ : reached_);
        large_ += std::isfinite(want[n]) && std::fabs(want[n]) > 1e34;
        // Neighbours in bfloat16 are 0.8 % apart.
        const double near = 0.01 * (backward() ? unit : std::fabs(want[n]) + 1);
        ExpectSame(slot, got, want[n],
                   near + (slot == Slot::kOut ? cancelled : 0), vanish);
      }
    }
  }

  int64_t spared_ = 0;   // results that are numbers
  int64_t reached_ = 0;  // and those that are not
  int64_t large_ = 0;    // numbers that are almost too large for fp32

 private:
  static void ExpectSame(Slot slot, double got, double want, double slack,
                         bool vanish) {
    // Where a row sees one key, its ds is 0 here and 1e-17 there, and times
    // infinity not the same; but neither is a number.
    const bool same = slot < Slot::kGradQuery && !vanish
                          ? KindOf(got) == KindOf(want)
                          : std::isfinite(got) == std::isfinite(want);
    ASSERT_TRUE(same) << Name(slot) << ": " << got << ", expected " << want;
    if (!std::isfinite(want)) return;
    ASSERT_NEAR(got, want, slack) << Name(slot);
  }
};

Space SmallSpace() {
  Space space;
  space.most_dim = 24;
  space.most_rows = 40;
  space.most_columns = 90;
  return space;
}

// Whatever is special: keys, values, queries, biases, sinks, pages that are
// none.
TEST_P(Special, ReachesWhomTheReferenceSays) {
  const auto check = [&](SmallCase& small, Random& random) {
    for (const Slot slot :
         {Slot::kQuery, Slot::kQueryRope, Slot::kKey, Slot::kKeyRope,
          Slot::kValue, Slot::kKeyRowScale, Slot::kKeyRowOffset,
          Slot::kValueRowScale, Slot::kValueRowOffset, Slot::kQueryRowScale,
          Slot::kBias, Slot::kSink, Slot::kGradOut, Slot::kOut}) {
      const bool scores = slot == Slot::kBias || slot == Slot::kSink;
      if (!IsOutput(small.problem().direction, slot) &&
          !(backward() && scores) && random.OneIn(3)) {
        Spoil(small, slot, random);
      }
    }
    for (int64_t n = 0; n < small.count(Slot::kBlockTable); ++n) {
      if (!random.OneIn(8)) continue;
      small.Put(Slot::kBlockTable, n, OneOf<double>(random, {-1, 1e9}));
    }
    ExpectTheReferences(small);
  };
  ForCases(3000, SmallSpace(), check);
  // The same through several blocks of keys and several splits of rows.
  Space space = SmallSpace();
  space.most_columns = backward() ? 400 : 2500;
  space.most_rows = 10;
  space.most_dim = 8;
  ForCases(200, space, check);
  EXPECT_TRUE(SeenOften(reached_, 2000));
  EXPECT_TRUE(SeenOften(spared_, 10000));
}

// Sums of probs times values that leave the range of fp32, in one split or in
// several, where the output does not: plain fp32 divides the probs first.
TEST_P(Special, LargeValuesStayFinite) {
  if (backward()) return;
  const auto check = [&](SmallCase& small, Random& random) {
    FillLargeValues(small, random);
    ExpectTheReferences(small);
  };
  ForCases(1500, SmallSpace(), check);
  Space space = SmallSpace();
  space.most_columns = 5000;
  space.most_rows = 10;
  space.most_dim = 8;
  ForCases(150, space, check);
  EXPECT_TRUE(SeenOften(large_, 5000));
}

// Scales that are nothing, negative or tiny.
TEST_P(Special, AnyScaleIsTheReferences) {
  ForCases(1000, SmallSpace(), [&](const SmallCase& taken, Random& random) {
    AttentionProblem scaled = taken.problem();
    scaled.score.scale =
        OneOf<float>(random, {0.0f, -0.0f, -scaled.score.scale, 1e-30f});
    SmallCase small(scaled);
    small.FillInputs(random);
    if (backward()) RunForwardTwin(small);
    ExpectTheReferences(small);
  });
}

// A row max and a row sum are taken as they are; what is hidden from a row
// stays hidden.
TEST_P(Special, AnyRowMaxAndRowSumAreTaken) {
  if (!backward()) return;
  ForCases(2000, SmallSpace(), [&](SmallCase& small, Random& random) {
    // Sinks are weighed in fp64, where exp overflows later.
    if (small.problem().has(Slot::kSink)) return;
    for (int64_t n = 0; n < small.count(Slot::kRowMax); ++n) {
      const double was = small.Get(Slot::kRowMax, n);
      const double max = OneOf(
          random, {was + 0.5, was - 0.5, 90.0, kNaN, kInfinity, -kInfinity});
      if (random.OneIn(8)) small.Put(Slot::kRowMax, n, max);
      const double sum =
          OneOf(random, {0.0, -2.0, 1e-3, 1e30, kNaN, kInfinity});
      if (random.OneIn(8)) small.Put(Slot::kRowSum, n, sum);
    }
    ExpectTheReferences(small);
  });
  EXPECT_TRUE(SeenOften(spared_, 5000));
}

// A row max far below its scores makes probs that no float holds.
TEST_P(Special, ProbsBeyondFloatsAreInfinite) {
  for (const double below : {150.0, 700.0}) {
    SmallCase small(testing::ProblemOf("bwd f32 h=2/1 d=8 q=3 k=20"));
    if (!implementation_.supports(small.problem(), {}).ok()) return;
    Random random(1);
    small.FillInputs(random);
    RunForwardTwin(small);
    for (int64_t n = 0; n < small.count(Slot::kRowMax); ++n) {
      small.Put(Slot::kRowMax, n, small.Get(Slot::kRowMax, n) - below);
    }
    ExpectTheReferences(small);
  }
}

// A row that sees no key adds nothing to the gradient of its sink, whatever
// that is.
TEST_P(Special, SinksOfRowsThatSeeNothingHaveNoGradient) {
  for (const double sink : {kInfinity, kNaN, 3.0}) {
    SmallCase small(
        testing::ProblemOf("bwd f32 h=2 d=8 q=3 k=5 band:9:* sink"));
    if (!implementation_.supports(small.problem(), {}).ok()) return;
    Random random(1);
    small.FillInputs(random);
    small.Put(Slot::kSink, 0, sink);
    RunForwardTwin(small);
    ExpectTheReferences(small);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Special, testing::EveryKernel(),
                         testing::SettingTestName);

}  // namespace
}  // namespace flashacl::cpu
