// SPDX-License-Identifier: Apache-2.0
// The reference as a row of a table: what it takes, and that who works does
// not change a bit.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/host_queue.h"
#include "plan/plan.h"
#include "problem/problem_spec.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

// Long enough for several pieces of columns and chunks of rows.
ProblemSpec Mixed(Direction direction) {
  ProblemSpec problem_spec;
  problem_spec.direction = direction;
  problem_spec.dtype = problem_spec.out_dtype = DType::kBf16;
  problem_spec.heads = 4;
  problem_spec.kv_heads = 2;
  problem_spec.qk_dim = 9;
  problem_spec.rope_dim = 3;
  problem_spec.v_dim = 5;
  problem_spec.rows = {70, 0, 3};
  problem_spec.columns = {150, 4, 40};
  problem_spec.row_stats = true;
  problem_spec.rules = {Causal()};
  problem_spec.mask = DefaultMaskAxes();
  problem_spec.score.bias = Score::Bias::kBeforeScale;
  problem_spec.bias = {.sequence = true, .head = false, .row = false};
  problem_spec.sink = problem_spec.keep = true;
  problem_spec.score.keep_probability = 0.5f;
  problem_spec.gradients.bias = true;
  return problem_spec;
}

class AnyWorkers : public testing::TestWithParam<Direction> {};

TEST_P(AnyWorkers, GiveTheSameBits) {
  const AttentionProblem problem = Build(Mixed(GetParam()));
  ASSERT_TRUE(CheckProblem(problem).ok()) << CheckProblem(problem).message();
  Random random(7);
  SmallCase example(problem);
  example.FillInputs(random);
  if (GetParam() == Direction::kBackward) RunForwardTwin(example);
  SmallCase alone(problem);
  alone.CopyInputs(example);
  alone.Run();
  for (const int count : {2, 7, 64}) {
    ShuffledWorkers workers(count, static_cast<uint64_t>(count));
    SmallCase shared(problem);
    shared.CopyInputs(example);
    shared.Run(workers);
    for (size_t n = 0; n < kSlots; ++n) {
      const Slot slot = static_cast<Slot>(n);
      EXPECT_EQ(shared.Get(slot), alone.Get(slot))
          << Name(slot) << " with " << count << " workers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BothDirections, AnyWorkers,
                         testing::Values(Direction::kForward,
                                         Direction::kBackward));

TEST(Reference, IsTheLastResortOfATable) {
  ShuffledWorkers workers(1);
  HostQueue queue(workers);
  const Backend backend{.name = "reference",
                        .device = {},
                        .implementations = {&kReference, 1},
                        .queue = &queue};
  const Result<Plan> plan = MakePlan(backend, Build(Mixed({})));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->implementation->name, "reference/fp64");
  EXPECT_GT(plan->workspace.bytes(), 0);
  EXPECT_EQ(plan->prepared->Describe(), "none: it goes row by row");
}

// Stride 0 makes tensors of any size from one element; the workspace has no
// such trick.
TEST(Reference, RefusesWhatNoWorkspaceHolds) {
  ProblemSpec problem_spec;
  problem_spec.rows = {1};
  problem_spec.columns = {1};
  AttentionProblem problem = Build(problem_spec);
  for (const Slot slot : {Slot::kKey, Slot::kValue}) {
    problem[slot].dims = {1, int64_t{1} << 39, 1, int64_t{1} << 20};
    problem[slot].strides = {};
  }
  problem[Slot::kQuery].dims[3] = problem[Slot::kOut].dims[3] = 1 << 20;
  problem.qk_dim = problem.v_dim = 1 << 20;
  problem.lengths.sequences[0].keys = {0, int64_t{1} << 39};
  ASSERT_TRUE(CheckProblem(problem).ok()) << CheckProblem(problem).message();
  const Status status = kReference.supports(problem, {});
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("549755813888 columns"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace flashacl
