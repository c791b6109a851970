// SPDX-License-Identifier: Apache-2.0
// Infinities, NaNs and row maxima that no forward makes: what a row does not
// see does not reach it, nor it the key, whatever hides them; the rest is as
// the reference says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "cpu/backward/backward.h"
#include "cpu/backward/backward_kernel.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::OneOf;
using testing::OnTarget;
using testing::RunOn;
using testing::Space;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Space SpecialSpace() {
  Space space;
  space.forward = false;
  space.most_dim = 20;
  space.most_rows = 40;
  space.most_columns = 60;
  return space;
}

double AnySpecial(Random& random) {
  return OneOf(random, {kNaN, kInfinity, -kInfinity});
}

// How many elements were compared: finite ones, and others.
struct Seen {
  int64_t finite = 0;
  int64_t special = 0;
};

// A case, and what the reference makes of the same inputs.
void ExpectTheReferences(SmallCase& small, Seen& seen) {
  SmallCase expected(small.problem());
  expected.CopyInputs(small);
  expected.Run();
  RunOn(kCpuBackward, small);
  for (const Slot slot : testing::ResultsOf(small.problem())) {
    const std::vector<double> want = expected.Get(slot);
    double unit = 0.01;  // neighbours in bfloat16 are 0.8 % apart
    for (const double x : want) {
      if (std::isfinite(x)) unit = std::max(unit, 0.01 * std::fabs(x));
    }
    for (size_t n = 0; n < want.size(); ++n) {
      const double got = small.Get(slot, static_cast<int64_t>(n));
      // Where a row sees one key, its ds is 0 here and 1e-17 there, and times
      // infinity not the same; but neither is a number.
      ASSERT_EQ(std::isfinite(got), std::isfinite(want[n]))
          << Name(slot) << " " << n << ": " << got << ", expected " << want[n];
      if (std::isfinite(got)) {
        ++seen.finite;
        ASSERT_NEAR(got, want[n], unit) << Name(slot) << " " << n;
      } else {
        ++seen.special;
      }
    }
  }
}

SmallCase CaseOf(const AttentionProblem& p, Random& random) {
  SmallCase small(p);
  small.FillInputs(random);
  RunForwardTwin(small);
  return small;
}

class BackwardSpecial : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

// Whatever is special: one to four elements of some tensors.
TEST_P(BackwardSpecial, ReachesWhomTheReferenceSays) {
  Seen seen;
  ForRandomProblems(
      3000, SpecialSpace(), [&](const AttentionProblem& p, Random& random) {
        if (!kCpuBackward.supports(p, {}).ok()) return;
        SmallCase small = CaseOf(p, random);
        for (const Slot slot :
             {Slot::kQuery, Slot::kQueryRope, Slot::kKey, Slot::kKeyRope,
              Slot::kValue, Slot::kGradOut, Slot::kOut}) {
          if (!p.has(slot) || !random.OneIn(4)) continue;
          const int64_t count = small.count(slot);
          const int64_t specials = count == 0 ? 0 : random.Within(1, 4);
          for (int64_t n = 0; n < specials; ++n) {
            small.Put(slot, random.Within(0, count - 1), AnySpecial(random));
          }
        }
        ExpectTheReferences(small, seen);
      });
  EXPECT_GT(seen.finite, testing::PartOf(100000));
  EXPECT_GT(seen.special, testing::PartOf(100000));
}

// A row max and a row sum are taken as they are; what is hidden from a row
// stays hidden.
TEST_P(BackwardSpecial, TakesAnyRowMaxAndRowSum) {
  Seen seen;
  ForRandomProblems(
      2000, SpecialSpace(), [&](const AttentionProblem& p, Random& random) {
        // Sinks are weighed in fp64, where exp overflows later.
        if (!kCpuBackward.supports(p, {}).ok() || p.has(Slot::kSink)) return;
        SmallCase small = CaseOf(p, random);
        for (int64_t n = 0; n < small.count(Slot::kRowMax); ++n) {
          if (!random.OneIn(8)) continue;
          const double was = small.Get(Slot::kRowMax, n);
          small.Put(Slot::kRowMax, n,
                    OneOf(random,
                          {kNaN, kInfinity, -kInfinity, was + 0.5, was - 0.5}));
        }
        for (int64_t n = 0; n < small.count(Slot::kRowSum); ++n) {
          if (!random.OneIn(8)) continue;
          small.Put(Slot::kRowSum, n,
                    OneOf(random, {kNaN, kInfinity, 0.0, -2.0, 1e30}));
        }
        ExpectTheReferences(small, seen);
      });
  EXPECT_GT(seen.finite, 10000);
  EXPECT_GT(seen.special, 10000);
}

// Scales that are nothing, negative or small.
TEST_P(BackwardSpecial, AnyScaleIsTheReferences) {
  Seen seen;
  ForRandomProblems(
      1000, SpecialSpace(), [&](const AttentionProblem& p, Random& random) {
        if (!kCpuBackward.supports(p, {}).ok()) return;
        AttentionProblem scaled = p;
        scaled.score.scale =
            OneOf<float>(random, {0.0f, -0.0f, -p.score.scale, 1e-30f});
        SmallCase small = CaseOf(scaled, random);
        ExpectTheReferences(small, seen);
      });
  EXPECT_GT(seen.finite, 10000);
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, BackwardSpecial,
    ::testing::ValuesIn(testing::TargetsHere(BackwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
