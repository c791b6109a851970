// SPDX-License-Identifier: Apache-2.0
// Gradients over listed keys against the reference, on every instruction set
// that this processor has.
#include "cpu/topk/topk_backward.h"

#include <gtest/gtest.h>

#include "cpu/forward/forward_kernel.h"
#include "cpu/support.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::Space;
using testing::TopKSpace;

bool Taken(const AttentionProblem& problem) {
  return cpu::SupportsLists(problem, Direction::kBackward).ok();
}

void Check(const AttentionProblem& problem, uint64_t seed) {
  EXPECT_EQ(ExpectRight(problem, seed, "cpu/backward/topk"), Taken(problem));
}

class TopKBackward : public ::testing::TestWithParam<int64_t> {};

// Small ones: every combination of what a problem may have.
TEST_P(TopKBackward, IsRightOnRandomProblems) {
  const OnTarget target(GetParam());
  int64_t taken = 0;
  ForRandomProblems(600, TopKSpace(Direction::kBackward),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!p.kv.gathers()) return;
                      Check(p, random.Bits());
                      taken += Taken(p);
                    });
  EXPECT_GT(taken, testing::PartOf(100));
}

// Long lists and many heads: several steps, panels, kv blocks and rounds.
TEST_P(TopKBackward, IsRightOnLongLists) {
  const OnTarget target(GetParam());
  Space space = TopKSpace(Direction::kBackward);
  space.most_sequences = 2;
  space.most_rows = 30;
  space.most_columns = 900;
  space.most_heads = 40;
  space.most_dim = 40;
  ForRandomProblems(60, space, [](const AttentionProblem& p, Random& random) {
    if (p.kv.gathers()) Check(p, random.Bits());
  });
}

// The shapes of DeepSeek-V3.2, and others: channels beyond, lists of several
// rounds, indices of more columns than there are.
TEST_P(TopKBackward, IsRightOnWideProblems) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"bwd bf16 h=128/1 d=512+64/512 q=2 k=90 topk:70 shared causal",
        "bwd f16 h=16/1 d=512+64/512 q=3,4 k=70,300 topk:150 causal",
        "bwd bf16 h=64/1 d=512+64/512 q=2 k=500 topk:7:64",
        "bwd f16 h=3/1 d=700+100/650 q=3 k=90 topk:40:8",
        "bwd f32 h=300/1 d=576/512 q=1 k=64 topk:64",
        "bwd f32 h=2/1 d=0/5 q=3 k=9 topk:4",
        "bwd f32 h=2/1 d=5/0 q=3 k=9 topk:4",
        "bwd f32 h=2/1 d=16 q=9 k=5000 topk:5000 shared causal",
        "bwd f32 h=6/2 d=16 q=3 k=20 topk:2:1000",
        "bwd f32 h=2 d=8 q=3 k=9 topk:0"}) {
    ExpectRight(line, "cpu/backward/topk");
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKBackward,
    ::testing::ValuesIn(testing::TargetsHere(cpu::ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl
