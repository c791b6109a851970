// SPDX-License-Identifier: Apache-2.0
// Laws of kernels over listed keys, both directions, on every instruction
// set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/implementations.h"
#include "cpu/rows_in_place.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/topk/topk.h"
#include "tests/testing/fenced.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectAlike;
using testing::ExpectSameBits;
using testing::ForRandomProblems;
using testing::PlanOn;
using testing::ProblemOf;
using testing::RunOn;
using testing::SpoilLists;
using testing::TopKSpace;

// What backward takes from the forward direction, which is the same for all
// lists then.
void FillStatistics(SmallCase& small) {
  if (small.problem().direction == Direction::kBackward) RunForwardTwin(small);
}

class TopKLaws : public ::testing::TestWithParam<testing::Setting> {
 protected:
  bool forward() const { return &implementation_ != &kCpuTopKBackward; }
  Direction direction() const {
    return forward() ? Direction::kForward : Direction::kBackward;
  }
  const char* word() const { return forward() ? "fwd" : "bwd"; }
  bool Takes(const AttentionProblem& p) const {
    return implementation_.supports(p, {}).ok();
  }

  // What the reference says of the same inputs.
  static SmallCase Expected(const SmallCase& small) {
    SmallCase expected(small.problem());
    expected.CopyInputs(small);
    expected.Run();
    return expected;
  }

  const testing::OnTarget target_{GetParam().target};
  const Implementation& implementation_ = *GetParam().implementation;
};

TEST_P(TopKLaws, AnyListIsTheReferences) {
  int64_t taken = 0;
  ForRandomProblems(800, TopKSpace(direction()),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!Takes(p)) return;
                      SmallCase small(p);
                      small.FillInputs(random);
                      SpoilLists(small, random);
                      FillStatistics(small);
                      RunOn(implementation_, small);
                      ExpectAlike(small, Expected(small));
                      ++taken;
                    });
  EXPECT_TRUE(testing::SeenOften(taken, 50));
}

// Lists of all columns, in any order, are no lists.
TEST_P(TopKLaws, CompleteListsAreDenseAttention) {
  Random random(5);
  for (const char* rest :
       {"h=5/1 d=24+8/16 q=7 k=60", "h=16/1 d=40 q=9,3 k=30,60 causal",
        "h=6/2 d=16+4/8 q=20 k=20 causal", "h=33/1 d=8 q=3 k=60 shared"}) {
    const std::string line =
        Str("{} f32 {}{}", word(), rest, forward() ? " stats" : "");
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
    RunOn(implementation_, listed);
    ExpectAlike(listed, dense);
  }
}

TEST_P(TopKLaws, BitsDoNotDependOnWorkers) {
  const auto check = [&](const AttentionProblem& p, Random& random) {
    if (!Takes(p)) return;
    SmallCase small(p);
    small.FillInputs(random);
    SpoilLists(small, random);
    FillStatistics(small);
    SmallCase other(p);
    other.CopyInputs(small);
    RunOn(implementation_, small, 1);
    for (const int workers : {2, 3, 5}) {
      RunOn(implementation_, other, workers, random.Bits());
      ExpectSameBits(other, small);
    }
  };
  ForRandomProblems(100, TopKSpace(direction()), check);
  // Several stages of several positions, batches of sequences, splits of lists.
  Random random(9);
  for (const char* rest : {"h=16/1 d=64+8 q=60,90 k=300,500 topk:100 causal",
                           "h=3/1 d=8 q=300 k=300 topk:9 shared causal",
                           "h=4/2 d=8 q=3 k=5000 topk:4500"}) {
    check(ProblemOf(Str("{} bf16 {}", word(), rest)), random);
  }
}

// Values in the keys' own memory are read once, with the same result, also
// where a key's other channels are infinite.
TEST_P(TopKLaws, ValuesMayBeInTheKeysPlace) {
  for (const char* dims : {"24+8/16", "32+16/16", "32+16/32"}) {
    SCOPED_TRACE(dims);
    Random random(3);
    AttentionProblem p =
        ProblemOf(Str("{} bf16 h=20/1 d={} q=7 k=60 topk:50", word(), dims));
    p[Slot::kValue].strides = p[Slot::kKey].strides;
    SmallCase apart(p);
    apart.FillInputs(random);
    for (int64_t j = 0; j < 60; ++j) {
      for (int64_t d = 0; d < p.v_dim; ++d) {
        apart.Put(Slot::kValue, p[Slot::kValue].At(0, j, 0, d),
                  apart.Get(Slot::kKey, p[Slot::kKey].At(0, j, 0, d)));
      }
    }
    FillStatistics(apart);
    if (p.qk_dim > p.v_dim) {
      apart.Put(Slot::kKey, p[Slot::kKey].At(0, 7, 0, p.v_dim + 2),
                std::numeric_limits<double>::infinity());
    }
    SmallCase together(p);
    together.CopyInputs(apart);
    RunOn(implementation_, apart);
    Bindings bindings = together.bindings();
    bindings[Slot::kValue] = bindings[Slot::kKey];
    const Plan plan = PlanOn(implementation_, p);
    const testing::FencedBytes workspace(RoundUp(plan.workspace.bytes(), 64));
    ShuffledWorkers alone(1);
    HostQueue queue(alone);
    ASSERT_TRUE(plan.prepared->Run(bindings, workspace.data(), queue).ok());
    for (const Slot slot : testing::ResultsOf(p)) {
      for (int64_t n = 0; n < apart.count(slot); ++n) {
        const double x = apart.Get(slot, n), y = together.Get(slot, n);
        ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
            << Name(slot) << " " << n << ": " << x << ", " << y;
      }
    }
  }
}

// Whether rows of few heads are loaded or stay where they lie.
TEST_P(TopKLaws, NoBitDependsOnWhereRowsAre) {
  const auto check = [&](const AttentionProblem& p, Random& random,
                         bool spoil) {
    if (!Takes(p)) return;
    SmallCase loaded(p);
    loaded.FillInputs(random);
    if (spoil) SpoilLists(loaded, random);
    FillStatistics(loaded);
    SmallCase in_place(p);
    in_place.CopyInputs(loaded);
    SetRowsInPlaceForTest(false);
    RunOn(implementation_, loaded);
    SetRowsInPlaceForTest(true);
    RunOn(implementation_, in_place);
    SetRowsInPlaceForTest({});
    ExpectSameBits(in_place, loaded);
  };
  ForRandomProblems(200, TopKSpace(direction()),
                    [&](const AttentionProblem& p, Random& random) {
                      check(p, random, /*spoil=*/true);
                    });
  // Whole lists, which are several steps.
  Random random(13);
  for (const char* dims : {"64+10/50", "40/33", "96+32/66", "66/64 shared"}) {
    for (const char* heads : {"16/1", "8/1", "4/1", "6/2"}) {
      for (const char* dtype : {"bf16", "f16"}) {
        check(ProblemOf(Str("{} {} h={} d={} q=5 k=300 topk:200", word(), dtype,
                            heads, dims)),
              random, /*spoil=*/false);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKLaws,
    ::testing::ValuesIn(testing::Settings({&kCpuTopKDecode, &kCpuTopKForward,
                                           &kCpuTopKBackward})),
    testing::SettingTestName);

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

}  // namespace
}  // namespace flashacl::cpu
