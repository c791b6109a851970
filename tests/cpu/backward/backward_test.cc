// SPDX-License-Identifier: Apache-2.0
// The backward tiles against the reference, on every instruction set that this
// processor has and the kernels are compiled for.
#include "cpu/backward/backward.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "cpu/backward/backward_kernel.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::Space;
using testing::TargetsHere;

std::vector<int64_t> Targets() { return TargetsHere(cpu::BackwardTargets()); }

void Check(const AttentionProblem& problem, uint64_t seed) {
  EXPECT_EQ(ExpectRight(problem, seed, "cpu/backward"), !problem.kv.gathers());
}

void Check(std::string_view line) { ExpectRight(line, "cpu/backward"); }

class Backward : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

// Small ones: every combination of what a problem may have.
TEST_P(Backward, IsRightOnRandomProblems) {
  Space space;
  space.forward = false;
  ForRandomProblems(1500, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random.Bits());
  });
}

// Long enough for several steps of keys, blocks of rows and tiles.
TEST_P(Backward, IsRightOnLongProblems) {
  Space space;
  space.forward = false;
  space.most_sequences = 2;
  space.most_rows = 300;
  space.most_columns = 400;
  space.most_heads = 4;
  space.most_dim = 70;
  ForRandomProblems(100, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random.Bits());
  });
}

// Sums that several tiles add to, for more kv heads than are computed at once.
TEST_P(Backward, IsRightWhereTilesShareKeys) {
  Check("bwd f32 h=12/6 d=16 q=700 k=300");
  Check("bwd bf16 h=7 d=24/16 q=300,600,9 k=400,500,90 causal sink");
  Check("bwd f16 h=4/1 d=8 q=500 k=500 window:100:3 bias keep:0.5");
  Check("bwd f32 h=2 d=8 q=900 k=30 mask");
}

// Keys so many, and queries so few, that sums of their gradients would be much
// larger than the queries: backward_scratch_test.cc has the bound.
TEST_P(Backward, IsRightWhereKeysAreSweptTwice) {
  Check("bwd bf16 h=2/1 d=1+1 q=65 k=44500 window:40000:9 sink");
}

// Channels beyond one slice of a score's sum.
TEST_P(Backward, IsRightOnWideProblems) {
  Check("bwd f32 h=2/1 d=576/512 q=40 k=50 causal");
  Check("bwd bf16 h=4/1 d=192/128 q=150 k=200");
  Check("bwd f16 h=1 d=768 q=33 k=65");
  Check("bwd f32 h=1 d=1025/3 q=5 k=7");
  Check("bwd f16 h=1 d=1/1000 q=20 k=31 mask");
  Check("bwd bf16 h=2 d=128+64/128 q=90 k=200 causal");
}

// Scores without channels are all 0, or their biases.
TEST_P(Backward, IsRightWithoutChannels) {
  Check("bwd f32 h=2 d=0/4 q=20 k=50");
  Check("bwd f16 h=2/1 d=0/9 q=3 k=30 bias");
  Check("bwd bf16 h=1 d=0/5 q=40 k=40 causal sink");
  Check("bwd f32 h=1 d=4/0 q=3 k=5");
  Check("bwd f32 h=1 d=0 q=3 k=5");
  Check("bwd f32 h=1 d=0+3/4 q=3 k=5");
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Backward, ::testing::ValuesIn(Targets()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl
