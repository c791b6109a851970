// SPDX-License-Identifier: Apache-2.0
// The forward tiles against the reference, on every instruction set that this
// processor has and the kernels are compiled for.
#include "cpu/forward/forward.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/forward/forward_kernel.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::ProblemOf;
using testing::RunOn;
using testing::Space;
using testing::TargetsHere;

std::vector<int64_t> Targets() { return TargetsHere(cpu::ForwardTargets()); }

void Check(const AttentionProblem& problem, uint64_t seed) {
  EXPECT_EQ(ExpectRight(problem, seed, "cpu/forward"), !problem.kv.gathers());
}

class Forward : public ::testing::TestWithParam<int64_t> {};

// Small ones: every combination of what a problem may have.
TEST_P(Forward, IsRightOnRandomProblems) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  ForRandomProblems(2000, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random.Bits());
  });
}

// Long enough for several steps of keys, panels, tiles and parts.
TEST_P(Forward, IsRightOnLongProblems) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  space.most_sequences = 2;
  space.most_rows = 300;
  space.most_columns = 700;
  space.most_heads = 3;
  space.most_dim = 70;
  ForRandomProblems(200, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random.Bits());
  });
}

// Channels beyond one slice of a score's sum, and beyond what CANN takes.
TEST_P(Forward, IsRightOnWideProblems) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd f32 h=2/1 d=576/512 q=40 k=50 causal",
        "fwd bf16 h=4/1 d=512+64/512 q=9 k=200 shared",
        "fwd f16 h=1 d=768 q=33 k=65", "fwd f32 h=1 d=1025/3 q=5 k=7",
        "fwd f16 h=1 d=1/1000 q=20 k=31 mask",
        "fwd bf16 h=8/1 d=128 q=1 k=9000 window:4999:0 sink stats"}) {
    ExpectRight(line, "cpu/forward");
  }
}

// Scores without channels are all 0, or their biases.
TEST_P(Forward, IsRightWithoutChannels) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd f32 h=2 d=0/4 q=20 k=50", "fwd f16 h=2/1 d=0/9 q=3 k=30 bias",
        "fwd bf16 h=1 d=0/5 q=40 k=40 causal stats sink",
        "fwd f32 h=1 d=4/0 q=3 k=5 stats", "fwd f32 h=1 d=0 q=3 k=5 stats",
        "fwd f32 h=1 d=0+3/4 q=3 k=5"}) {
    ExpectRight(line, "cpu/forward");
  }
}

// Weights are rounded with the greatest score of the whole row.
TEST_P(Forward, IsRightOn8BitQueries) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd i8 h=4/2 d=64 q=100 k=330 int8:tensor causal",
        "fwd i8 h=2 d=16 q=3 k=2000 int8:tensor",
        "fwd i8 h=8/1 d=33/20 q=17,0,40 k=50,9,0 int8:tensor mask"}) {
    ExpectRight(line, "cpu/forward", 5);
  }
}

// A scale of 0 is a scale: every weight becomes 0, and so does the output.
TEST_P(Forward, RoundsWeightsWithAScaleOfZero) {
  const OnTarget target(GetParam());
  SmallCase small(ProblemOf("fwd i8 h=2 d=16 q=5 k=40 int8:tensor"));
  Random random(1);
  small.FillInputs(random);
  for (int64_t n = 0; n < small.count(Slot::kWeightScale); ++n) {
    small.Put(Slot::kWeightScale, n, 0);
  }
  RunOn(kCpuForward, small);
  for (const double x : small.Get(Slot::kOut)) ASSERT_EQ(x, 0);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Forward, ::testing::ValuesIn(Targets()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl
