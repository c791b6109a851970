// SPDX-License-Identifier: Apache-2.0
// Steps of keys are as long as a second cache lets them be, and gradients have
// the same bits whatever it is, but for those on matrix registers, whose sums
// are by step.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "cpu/backward/backward_kernel.h"
#include "cpu/backward/backward_workspace.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::OnTarget;
using testing::ProblemOf;
using testing::RunOn;

class BackwardSteps : public ::testing::TestWithParam<int64_t> {
 protected:
  ~BackwardSteps() override { SetPairDotsForTest({}); }

  void SetUp() override { SetPairDotsForTest(PairDots::kMultiplyAdds); }

  const OnTarget target_{GetParam()};
};

TEST_P(BackwardSteps, LeaveBitsAsTheyAre) {
  DeviceInfo small_cache, large_cache;
  small_cache.l2_bytes = 1 << 20;
  large_cache.l2_bytes = 2 << 20;
  small_cache.workers = large_cache.workers = 2;
  for (const char* type : {"f32", "f16", "bf16"}) {
    for (const char* rest :
         {" h=2 d=64 q=40,150 k=128,300", " h=4/2 d=72/40 q=70 k=270 causal",
          " h=2 d=32 q=60 k=200 window:90:20 bias",
          " h=2/1 d=16+8/16 q=50 k=140 mask sink", " h=1 d=40 q=30 k=133"}) {
      const AttentionProblem p = ProblemOf(std::string("bwd ") + type + rest);
      SCOPED_TRACE(std::string(type) + rest);
      ASSERT_NE(BackwardTileShape(p, small_cache).cols,
                BackwardTileShape(p, large_cache).cols);
      Random random(5);
      SmallCase shorter(p);
      shorter.FillInputs(random);
      RunForwardTwin(shorter);
      SmallCase longer(p);
      longer.CopyInputs(shorter);
      RunOn(kCpuBackward, shorter, small_cache);
      RunOn(kCpuBackward, longer, large_cache);
      testing::ExpectSameBits(shorter, longer);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, BackwardSteps,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
