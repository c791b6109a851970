// SPDX-License-Identifier: Apache-2.0
// A workspace of any lengths: the same whatever the lengths are, never less
// than these need, and of a call that runs with it.
#include "ops/training_workspace.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"

namespace flashacl::ops {
namespace {

using testing::Caller;
using testing::Form;
using testing::TrainingForward;

constexpr int kNewest = 5;

TrainingForward CallWith(const std::vector<int64_t>& rows) {
  TrainingForward call({.rows = {30, 30, 40}, .columns = {20, 50, 30}},
                       kNewest);
  call.actualSeqQLen = testing::Ends(rows);
  return call;
}

TEST(PrepareForAnyLengths, BoundsDoNotDependOnLengths) {
  uint64_t bound = 0;
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{1, 1, 1}, {40, 0, 60}, {0, 100, 0}}) {
    const TrainingForward call = CallWith(rows);
    Caller caller(call.PhaseTwo());
    const auto t = call.Make(caller);
    uint64_t size = 0;
    uint64_t most = 0;
    aclOpExecutor* plain = nullptr;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(call.Plan(t, &size, &plain), 0);
    ASSERT_EQ(call.PlanMost(t, &most, &executor), 0) << aclGetRecentErrMsg();
    EXPECT_GE(most, size);
    if (bound == 0) bound = most;
    EXPECT_EQ(most, bound);
    EXPECT_EQ(aclDestroyAclOpExecutor(plain), 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  }
}

// Forward takes a drop mask, whose bits are those of the call's lengths.
TEST(PrepareForAnyLengths, PlansTheCallItself) {
  std::vector<std::vector<double>> results;
  for (const bool most : {false, true}) {
    TrainingForward call({.rows = {2, 0}, .columns = {4, 3}}, kNewest);
    call.dropMask = Form{ACL_UINT8, {2}};
    call.keepProb = 0.5;
    Caller caller(call.PhaseTwo());
    const auto t = call.Make(caller);
    t.dropMask->FillWith(0xA7);
    for (int64_t n = 0; n < t.value->elements(); ++n) {
      t.value->SetNth(n, static_cast<double>(n % 5));
    }
    ASSERT_TRUE(caller.Run([&](uint64_t* size, aclOpExecutor** executor) {
      return most ? call.PlanMost(t, size, executor)
                  : call.Plan(t, size, executor);
    }));
    results.push_back(t.attentionOut->Values());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(PrepareForAnyLengths, AnswersNothingOnFailure) {
  TrainingForward call({}, kNewest);
  call.headNum = 0;
  Caller caller(call.PhaseTwo());
  const auto t = call.Make(caller);
  caller.ExpectFailure(
      [&](uint64_t* size, aclOpExecutor** executor) {
        return call.PlanMost(t, size, executor);
      },
      161002, "headNum: 0");
  call.headNum = 2;
  call.give_size = false;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(call.PlanMost(t, nullptr, &executor), 161001);
  EXPECT_EQ(executor, nullptr);
}

}  // namespace
}  // namespace flashacl::ops
