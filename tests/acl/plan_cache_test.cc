// SPDX-License-Identifier: Apache-2.0
// Plans that were made lately: the same ones for the same problem, and never
// for another.
#include "acl/plan_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

constexpr int kMorePlansThanAreKept = 17;

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanCacheTest() { ForgetPlans(); }
  ~PlanCacheTest() override { ForgetPlans(); }

  static AttentionProblem WithKeys(int64_t keys) {
    return *Parse(Str("fwd f32 h=2 d=16 q=3 k={}", keys));
  }
  static std::shared_ptr<const Plan> PlanOf(const AttentionProblem& problem) {
    Result<std::shared_ptr<const Plan>> plan = PlanFor(CpuBackend(), problem);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? *plan : nullptr;
  }
};

TEST_F(PlanCacheTest, TheSameProblemHasTheSamePlan) {
  const auto first = PlanOf(WithKeys(5));
  EXPECT_EQ(PlanOf(WithKeys(5)), first);
  EXPECT_TRUE(first->problem() == WithKeys(5));
  EXPECT_EQ(first->implementation,
            MakePlan(CpuBackend(), WithKeys(5))->implementation);
}

TEST_F(PlanCacheTest, OtherProblemsHaveOthers) {
  AttentionProblem problem = WithKeys(5);
  const auto first = PlanOf(problem);
  EXPECT_NE(PlanOf(WithKeys(6)), first);
  for (TensorSpec& spec : problem.tensors) {
    if (!spec.present()) continue;
    const TensorSpec was = spec;
    spec.strides[0] += 64;
    EXPECT_NE(PlanOf(problem), first);
    spec = was;
  }
  problem.score.scale = 0.0f;
  const auto zero = PlanOf(problem);
  problem.score.scale = -0.0f;
  EXPECT_NE(PlanOf(problem), zero);
  EXPECT_EQ(PlanOf(WithKeys(5)), first);
}

TEST_F(PlanCacheTest, OtherBackendsHaveOthers) {
  const auto first = PlanOf(WithKeys(5));
  const Backend other = CpuBackend();
  EXPECT_NE(*PlanFor(other, WithKeys(5)), first);
}

TEST_F(PlanCacheTest, TheOldestGoesFirst) {
  const auto first = PlanOf(WithKeys(1));
  const auto second = PlanOf(WithKeys(2));
  for (int keys = 3; keys < 1 + kMorePlansThanAreKept; ++keys) {
    (void)PlanOf(WithKeys(keys));
  }
  EXPECT_EQ(PlanOf(WithKeys(2)), second);
  EXPECT_EQ(first.use_count(), 1);  // nobody else's
  EXPECT_NE(PlanOf(WithKeys(1)), first);
}

// Its memory is the program's to spend.
TEST_F(PlanCacheTest, ManySequencesAreNotKept) {
  AttentionProblem problem = *Parse("fwd f32 h=2 d=16 q=65x1 k=65x5");
  ASSERT_EQ(problem.lengths.count(), 65);
  EXPECT_EQ(PlanOf(problem).use_count(), 1);
  EXPECT_GT(PlanOf(WithKeys(5)).use_count(), 1);
}

TEST_F(PlanCacheTest, ErrorsAreMadeAnew) {
  AttentionProblem problem = WithKeys(5);
  problem.heads = 3;
  for (int n = 0; n < 2; ++n) {
    const Status status = PlanFor(CpuBackend(), problem).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(),
              MakePlan(CpuBackend(), problem).status().message());
  }
}

TEST_F(PlanCacheTest, ManyThreadsMayAsk) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int n = 0; n < 200; ++n) {
        const int64_t keys = 1 + (n * 7 + t) % 20;
        EXPECT_TRUE(PlanOf(WithKeys(keys))->problem() == WithKeys(keys));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace flashacl::acl
