// SPDX-License-Identifier: Apache-2.0
// The reference as a row of a table: what it takes, and that who works does
// not change a bit.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/plan.h"
#include "problem/problem_spec.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

// Long enough for several pieces of columns and chunks of rows.
Outline Mixed(Direction direction) {
  Outline outline;
  outline.direction = direction;
  outline.dtype = outline.out_dtype = DType::kBf16;
  outline.heads = 4;
  outline.kv_heads = 2;
  outline.qk_dim = 9;
  outline.rope_dim = 3;
  outline.v_dim = 5;
  outline.rows = {70, 0, 3};
  outline.columns = {150, 4, 40};
  outline.row_stats = true;
  outline.rules = {Causal()};
  outline.mask = UsualMaskAxes();
  outline.score.bias = Score::Bias::kBeforeScale;
  outline.bias = {.sequence = true, .head = false, .row = false};
  outline.sink = outline.keep = true;
  outline.score.keep_probability = 0.5f;
  outline.gradients.bias = true;
  return outline;
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
  const Backend backend{.name = "reference",
                        .device = {},
                        .implementations = {&kReference, 1},
                        .workers = &workers};
  const Result<Plan> plan = MakePlan(backend, Build(Mixed({})));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->implementation->name, "reference/fp64");
  EXPECT_GT(plan->workspace.bytes(), 0);
  EXPECT_EQ(plan->schedule.count(), 0);
}

// Stride 0 makes tensors of any size from one element; the workspace has no
// such trick.
TEST(Reference, RefusesWhatNoWorkspaceHolds) {
  Outline outline;
  outline.rows = {1};
  outline.columns = {1};
  AttentionProblem problem = Build(outline);
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
