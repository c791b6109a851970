// SPDX-License-Identifier: Apache-2.0
// Laws of kernels over listed keys, both directions, on every instruction
// set.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/topk/topk_backward.h"
#include "cpu/topk/topk_forward.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/topk/topk.h"
#include "tests/testing/fenced.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectAlike;
using testing::ExpectSameBits;
using testing::ForRandomProblems;
using testing::OneOf;
using testing::OnTarget;
using testing::PlanOn;
using testing::ProblemOf;
using testing::RunOn;
using testing::SpoilLists;
using testing::TopKSpace;

struct Setting {
  int64_t target;
  Direction direction;

  bool forward() const { return direction == Direction::kForward; }
  const char* word() const { return forward() ? "fwd" : "bwd"; }
  const Implementation& implementation() const {
    return forward() ? kCpuTopKForward : kCpuTopKBackward;
  }
  bool Takes(const AttentionProblem& p) const {
    return implementation().supports(p, {}).ok();
  }
};

// What backward takes from the forward direction, which is the same for all
// lists then.
void FillStatistics(SmallCase& small) {
  if (small.problem().direction == Direction::kBackward) RunForwardTwin(small);
}

class TopKLaws : public ::testing::TestWithParam<Setting> {
 protected:
  TopKLaws() : target_(GetParam().target) {}

  // What the reference says of the same inputs.
  static SmallCase Expected(const SmallCase& small) {
    SmallCase expected(small.problem());
    expected.CopyInputs(small);
    expected.Run();
    return expected;
  }

 private:
  OnTarget target_;
};

TEST_P(TopKLaws, AnyListIsTheReferences) {
  int64_t taken = 0;
  ForRandomProblems(800, TopKSpace(GetParam().direction),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!GetParam().Takes(p)) return;
                      SmallCase small(p);
                      small.FillInputs(random);
                      SpoilLists(small, random);
                      FillStatistics(small);
                      RunOn(GetParam().implementation(), small);
                      ExpectAlike(small, Expected(small));
                      ++taken;
                    });
  EXPECT_GT(taken, testing::PartOf(50));
}

// Lists of all columns, in any order, are no lists.
TEST_P(TopKLaws, CompleteListsAreDenseAttention) {
  Random random(5);
  for (const char* rest :
       {"h=5/1 d=24+8/16 q=7 k=60", "h=16/1 d=40 q=9,3 k=30,60 causal",
        "h=6/2 d=16+4/8 q=20 k=20 causal", "h=33/1 d=8 q=3 k=60 shared"}) {
    const bool forward = GetParam().forward();
    const std::string line =
        Str("{} f32 {}{}", GetParam().word(), rest, forward ? " stats" : "");
    SCOPED_TRACE(line);
    SmallCase dense(ProblemOf(line));
    dense.FillInputs(random);
    FillStatistics(dense);
    dense.Run();
    SmallCase listed(ProblemOf(line + " topk:60"));
    listed.CopyInputs(dense);
    const TensorSpec& list = listed.problem()[Slot::kTopK];
    std::vector<int64_t> all(60);
    std::iota(all.begin(), all.end(), 0);
    for (int64_t row = 0; row < list.dims[1]; ++row) {
      for (int64_t g = 0; g < list.dims[2]; ++g) {
        for (size_t n = all.size(); n > 1; --n) {
          const auto last = static_cast<int64_t>(n) - 1;
          std::swap(all[n - 1],
                    all[static_cast<size_t>(random.Within(0, last))]);
        }
        for (int64_t place = 0; place < 60; ++place) {
          listed.Put(Slot::kTopK, list.At(0, row, g, place),
                     static_cast<double>(all[static_cast<size_t>(place)]));
        }
      }
    }
    RunOn(GetParam().implementation(), listed);
    ExpectAlike(listed, dense);
  }
}

TEST_P(TopKLaws, BitsDoNotDependOnWorkers) {
  const auto check = [&](const AttentionProblem& p, Random& random) {
    if (!GetParam().Takes(p)) return;
    SmallCase small(p);
    small.FillInputs(random);
    SpoilLists(small, random);
    FillStatistics(small);
    SmallCase other(p);
    other.CopyInputs(small);
    RunOn(GetParam().implementation(), small, 1);
    for (const int workers : {2, 3, 5}) {
      RunOn(GetParam().implementation(), other, workers, random.Bits());
      ExpectSameBits(other, small);
    }
  };
  ForRandomProblems(100, TopKSpace(GetParam().direction), check);
  // Several rounds of several positions, batchs of sequences, parts of lists.
  Random random(9);
  for (const char* rest : {"h=16/1 d=64+8 q=60,90 k=300,500 topk:100 causal",
                           "h=3/1 d=8 q=300 k=300 topk:9 shared causal",
                           "h=4/2 d=8 q=3 k=5000 topk:4500"}) {
    check(ProblemOf(Str("{} bf16 {}", GetParam().word(), rest)), random);
  }
}

// Infinities and NaNs go where the reference lets them go, and nowhere else.
TEST_P(TopKLaws, SpecialNumbersReachWhomTheReferenceSays) {
  testing::Space space = TopKSpace(GetParam().direction);
  space.most_dim = 24;
  ForRandomProblems(
      1000, space, [&](const AttentionProblem& p, Random& random) {
        if (!GetParam().Takes(p)) return;
        SmallCase small(p);
        small.FillInputs(random);
        FillStatistics(small);
        for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kKeyRope,
                                Slot::kValue, Slot::kGradOut, Slot::kOut}) {
          const int64_t count = small.count(slot);
          if (IsOutput(p.direction, slot) || count == 0 ||
              p[slot].dtype == DType::kI8 || random.OneIn(2)) {
            continue;
          }
          constexpr double kInfinity = std::numeric_limits<double>::infinity();
          small.Put(
              slot, random.Within(0, count - 1),
              OneOf(random, {kInfinity, -kInfinity, kInfinity - kInfinity}));
        }
        RunOn(GetParam().implementation(), small);
        ExpectAlike(small, Expected(small));
      });
}

// Values in the keys' own memory are read once, with the same result.
TEST_P(TopKLaws, ValuesMayBeInTheKeysPlace) {
  Random random(3);
  AttentionProblem p = ProblemOf(
      Str("{} bf16 h=20/1 d=24+8/16 q=7 k=60 topk:50", GetParam().word()));
  p[Slot::kValue].strides = p[Slot::kKey].strides;
  SmallCase apart(p);
  apart.FillInputs(random);
  for (int64_t j = 0; j < 60; ++j) {
    for (int64_t d = 0; d < 16; ++d) {
      apart.Put(Slot::kValue, p[Slot::kValue].At(0, j, 0, d),
                apart.Get(Slot::kKey, p[Slot::kKey].At(0, j, 0, d)));
    }
  }
  FillStatistics(apart);
  SmallCase together(p);
  together.CopyInputs(apart);
  RunOn(GetParam().implementation(), apart);
  Bindings bindings = together.bindings();
  bindings[Slot::kValue] = bindings[Slot::kKey];
  const Plan plan = PlanOn(GetParam().implementation(), p);
  const testing::FencedBytes workspace(RoundUp(plan.workspace.bytes(), 64));
  ShuffledWorkers alone(1);
  HostQueue queue(alone);
  ASSERT_TRUE(plan.prepared->Run(bindings, workspace.data(), queue).ok());
  ExpectSameBits(together, apart);
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const int64_t target : testing::TargetsHere(ForwardTargets())) {
    settings.push_back({target, Direction::kForward});
    settings.push_back({target, Direction::kBackward});
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Every, TopKLaws, ::testing::ValuesIn(Settings()),
                         [](const auto& one) {
                           return Str("{}_{}",
                                      hwy::TargetName(one.param.target),
                                      one.param.word());
                         });

// A key that is listed twice adds twice, to the last bit.
TEST(TopKDuplicates, AddTwice) {
  Random random(7);
  SmallCase once(ProblemOf("bwd f32 h=20/1 d=24+8/16 q=5 k=60 topk:20"));
  once.FillInputs(random);
  SmallCase twice(once.problem());
  const TensorSpec& list = once.problem()[Slot::kTopK];
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t n = 0; n < 20; ++n) {
      once.Put(Slot::kTopK, list.At(0, row, 0, n),
               n == 0 ? static_cast<double>(7 * row) : -1.0);
    }
  }
  FillStatistics(once);
  twice.CopyInputs(once);
  for (int64_t row = 0; row < 5; ++row) {
    twice.Put(Slot::kTopK, list.At(0, row, 0, 1), static_cast<double>(7 * row));
  }
  RunOn(kCpuTopKBackward, once);
  RunOn(kCpuTopKBackward, twice);
  for (const Slot slot : testing::ResultsOf(once.problem())) {
    const std::vector<double> a = once.Get(slot), b = twice.Get(slot);
    for (size_t n = 0; n < a.size(); ++n) ASSERT_EQ(2 * a[n], b[n]);
  }
}

// Whatever max and sum are passed are used, those of no forward as well.
TEST(TopKStatistics, AreTakenAsGiven) {
  Random random(8);
  for (int round = 0; round < 20; ++round) {
    SmallCase small(ProblemOf("bwd f32 h=20/1 d=8 q=5 k=60 topk:40 causal"));
    small.FillInputs(random);
    FillStatistics(small);
    for (int64_t n = 0; n < small.count(Slot::kRowMax); ++n) {
      if (random.OneIn(3)) {
        small.Put(Slot::kRowMax, n, OneOf<double>(random, {0, -3, -60, 90}));
      }
      if (random.OneIn(3)) {
        small.Put(Slot::kRowSum, n, OneOf<double>(random, {0, 1e-3, 3, -2}));
      }
    }
    SmallCase expected(small.problem());
    expected.CopyInputs(small);
    expected.Run();
    RunOn(kCpuTopKBackward, small);
    for (const Slot slot : testing::ResultsOf(small.problem())) {
      const std::vector<double> a = small.Get(slot), b = expected.Get(slot);
      double most = 0;
      for (const double x : b) most = std::max(most, std::fabs(x));
      // A max of -60 gives exponents near 66, which err by 1e-5 of a weight.
      // Of up to 100 weights the sums have, some cancel.
      for (size_t n = 0; n < a.size(); ++n) {
        ASSERT_NEAR(a[n], b[n], 1e-3 * (most + 1)) << Name(slot);
      }
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
