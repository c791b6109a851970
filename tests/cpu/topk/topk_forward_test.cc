// SPDX-License-Identifier: Apache-2.0
// Forward over listed keys against the reference, on every instruction set
// that this processor has.
#include "cpu/topk/topk_forward.h"

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
  return cpu::SupportsLists(problem, Direction::kForward).ok();
}

void Check(const AttentionProblem& problem, uint64_t seed) {
  EXPECT_EQ(ExpectRight(problem, seed, "cpu/forward/topk"), Taken(problem));
}

class TopKForward : public ::testing::TestWithParam<int64_t> {};

// Small ones: every combination of what a problem may have.
TEST_P(TopKForward, IsRightOnRandomProblems) {
  const OnTarget target(GetParam());
  Space space = TopKSpace(Direction::kForward);
  int64_t taken = 0;
  ForRandomProblems(1500, space,
                    [&](const AttentionProblem& p, Random& random) {
                      if (!p.kv.gathers()) return;
                      Check(p, random.Bits());
                      taken += Taken(p);
                    });
  EXPECT_GT(taken, testing::PartOf(100));
}

// Long lists and many heads: several steps, panels and parts.
TEST_P(TopKForward, IsRightOnLongLists) {
  const OnTarget target(GetParam());
  Space space = TopKSpace(Direction::kForward);
  space.most_sequences = 2;
  space.most_rows = 6;
  space.most_columns = 1500;
  space.most_heads = 40;
  space.most_dim = 40;
  ForRandomProblems(200, space, [](const AttentionProblem& p, Random& random) {
    if (p.kv.gathers()) Check(p, random.Bits());
  });
}

// The shapes of DeepSeek-V3.2, and channels beyond.
TEST_P(TopKForward, IsRightOnWideProblems) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd bf16 h=128/1 d=512+64/512 q=2 k=300 topk:200 shared causal stats",
        "fwd f16 h=16/1 d=512+64/512 q=3,4 k=70,300 topk:150 causal stats",
        "fwd bf16 h=64/1 d=512+64/512 q=1 k=900 topk:13:64 shared sink stats",
        "fwd bf16 h=128/1 d=512+64/512 q=2x1 k=2x300 paged:16 topk:100 shared",
        "fwd f16 h=3/1 d=700+100/650 q=3 k=90 topk:40:8",
        "fwd f32 h=300/1 d=576/512 q=1 k=64 topk:64 stats",
        "fwd f32 h=2/1 d=0/5 q=3 k=9 topk:4 stats",
        "fwd f32 h=2/1 d=5/0 q=3 k=9 topk:4 stats",
        "fwd bf16 h=16/1 d=512+64/512 q=1 k=5000 topk:5000 shared stats",
        "fwd f32 h=2 d=8 q=3 k=9 topk:0 sink stats"}) {
    ExpectRight(line, "cpu/forward/topk");
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKForward,
    ::testing::ValuesIn(testing::TargetsHere(cpu::ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl
