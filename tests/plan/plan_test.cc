// SPDX-License-Identifier: Apache-2.0
// Choosing takes the first that fits, and a refusal is an answer.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "plan/host_memory.h"
#include "plan/host_queue.h"
#include "problem/notation.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl {
namespace {

Status OnlyBackward(const AttentionProblem& problem, const DeviceInfo&) {
  if (problem.direction == Direction::kBackward) return {};
  return Unsupported("computes gradients only");
}

Status NeverOn(const AttentionProblem&, const DeviceInfo& device) {
  return Unsupported("not on {}", device.name);
}

Status Always(const AttentionProblem&, const DeviceInfo&) { return {}; }

// Writes how many workers it was given.
class CountWorkers final : public HostPrepared {
 public:
  CountWorkers(const AttentionProblem& problem, const DeviceInfo&,
               WorkspaceLayout& workspace)
      : HostPrepared(problem) {
    workspace.Reserve<float>("some", problem.heads);
  }

  Status Run(const Bindings&, std::byte* workspace,
             Workers& workers) const override {
    workspace[0] = static_cast<std::byte>(workers.count());
    return {};
  }

  std::string Describe() const override { return "counts"; }
};

// The same, of which somebody knows how long it takes.
class CountWorkersFast final : public HostPrepared {
 public:
  CountWorkersFast(const AttentionProblem& problem, const DeviceInfo&,
                   WorkspaceLayout&)
      : HostPrepared(problem, /*gflops=*/1) {}

  Status Run(const Bindings&, std::byte* workspace,
             Workers& workers) const override {
    workspace[0] = static_cast<std::byte>(workers.count());
    std::atomic<int> calls{0};
    workers.ForEach(3, [&](int64_t) { ++calls; });
    workspace[1] = static_cast<std::byte>(calls.load());
    return {};
  }

  std::string Describe() const override { return "counts"; }
};

constexpr Implementation kFast[] = {
    {"test/fast", Always, MakePrepared<CountWorkersFast>}};

constexpr Implementation kTable[] = {
    {"test/never", NeverOn, MakePrepared<CountWorkers>},
    {"test/backward", OnlyBackward, MakePrepared<CountWorkers>},
    {"test/always", Always, MakePrepared<CountWorkers>},
};

DeviceInfo Toy() {
  DeviceInfo device;
  device.name = "toy";
  return device;
}

class PlanTest : public ::testing::Test {
 protected:
  ShuffledWorkers workers_{3};
  HostQueue queue_{workers_};
  Backend backend_{"test", Toy(), kTable, &HostMemory::Get(), &queue_};
  AttentionProblem forward_ = *Parse("fwd f32 h=2 d=4 q=3 k=5");
  AttentionProblem backward_ = *Parse("bwd f32 h=2 d=4 q=3 k=5");
};

TEST_F(PlanTest, TakesTheFirstThatFits) {
  const Result<Plan> plan = MakePlan(backend_, backward_);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->implementation->name, "test/backward");
  EXPECT_EQ(plan->explanation, "test/never: not on toy\n");
  EXPECT_TRUE(plan->problem() == backward_);
}

TEST_F(PlanTest, ExplainsEveryOneItPassesOver) {
  const Result<Plan> plan = MakePlan(backend_, forward_);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->implementation->name, "test/always");
  EXPECT_EQ(plan->explanation,
            "test/never: not on toy\ntest/backward: computes gradients only\n");
}

TEST_F(PlanTest, ReachesTheRestOfTheTable) {
  Choice choice;
  choice.without = "test/backward";
  EXPECT_EQ(MakePlan(backend_, backward_, choice)->implementation->name,
            "test/always");
  choice = {};
  choice.only = "test/backward";
  EXPECT_TRUE(MakePlan(backend_, backward_, choice).ok());
  const Status refused = MakePlan(backend_, forward_, choice).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_EQ(refused.message(),
            "no implementation takes this problem\n"
            "test/never: not the implementation asked for\n"
            "test/backward: computes gradients only\n"
            "test/always: not the implementation asked for\n");
}

TEST_F(PlanTest, RefusesImpossibleProblems) {
  forward_.heads = 3;
  EXPECT_EQ(MakePlan(backend_, forward_).status().code(),
            Code::kInvalidArgument);
}

TEST_F(PlanTest, RunsOnTheWorkersOfTheBackend) {
  const Result<Plan> plan = MakePlan(backend_, forward_);
  ASSERT_EQ(plan->workspace.bytes(), WorkspaceLayout::kAlignmentBytes);
  ASSERT_EQ(plan->workspace.entries().size(), 1u);
  EXPECT_EQ(plan->workspace.entries()[0].bytes, 8);
  std::byte workspace[WorkspaceLayout::kAlignmentBytes];
  ASSERT_TRUE(flashacl::Run(*backend_.queue, *plan, {}, workspace).ok());
  EXPECT_EQ(workspace[0], std::byte{3});
}

// Others would come when it is over: 0.5 microseconds, then 30.
TEST_F(PlanTest, ShortRunsTakeOneWorker) {
  backend_.implementations = kFast;
  const Result<Plan> plan = MakePlan(backend_, forward_);
  EXPECT_LT(plan->prepared->microseconds(), 1);
  std::byte workspace[2];
  ASSERT_TRUE(flashacl::Run(*backend_.queue, *plan, {}, workspace).ok());
  EXPECT_EQ(workspace[0], std::byte{1});
  EXPECT_EQ(workspace[1], std::byte{3});
  const Result<Plan> longer =
      MakePlan(backend_, *Parse("fwd f32 h=2 d=4 q=30 k=31"));
  EXPECT_GT(longer->prepared->microseconds(), HostPrepared::kAloneMicroseconds);
  ASSERT_TRUE(flashacl::Run(*backend_.queue, *longer, {}, workspace).ok());
  EXPECT_EQ(workspace[0], std::byte{3});
}

TEST(WorkspaceLayout, RegionsDoNotMeet) {
  WorkspaceLayout layout;
  const auto bytes = layout.Reserve<std::byte>("bytes", 3);
  const auto none = layout.Reserve<double>("none", 0);
  const auto doubles = layout.Reserve<double>("doubles", 9);
  EXPECT_EQ(bytes.offset_bytes, 0);
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(doubles.offset_bytes, WorkspaceLayout::kAlignmentBytes);
  EXPECT_EQ(layout.bytes(), 3 * WorkspaceLayout::kAlignmentBytes);
  EXPECT_EQ(layout.entries().size(), 2u);
  alignas(64) std::byte memory[3 * WorkspaceLayout::kAlignmentBytes];
  EXPECT_EQ(reinterpret_cast<std::byte*>(doubles.In(memory).data()),
            memory + WorkspaceLayout::kAlignmentBytes);
}

}  // namespace
}  // namespace flashacl
