// SPDX-License-Identifier: Apache-2.0
// A workspace of any lengths: the same whatever the lengths are, never less
// than these need, and of a call that runs with it.
#include "ops/training_workspace.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/training_call.h"

namespace flashacl::ops {
namespace {

using testing::Form;
using testing::TrainingBackward;
using testing::TrainingFixture;
using testing::TrainingForward;

constexpr int kNewest = 5;

// The same call with GetMaxWorkspaceSize as its phase 1.
template <typename Call>
TrainingFixture<Call> Max(const Call& call) {
  return TrainingFixture<Call>(call, call.Name() + "Max");
}

template <typename Call>
uint64_t SizeOf(TrainingFixture<Call> made) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(made.PhaseOne(&size, &executor), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  return size;
}

template <typename Call>
void ExpectBound() {
  uint64_t bound = 0;
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{1, 1, 1}, {40, 0, 60}, {0, 100, 0}}) {
    Call call({.rows = {30, 30, 40}, .columns = {20, 50, 30}}, kNewest);
    call.actualSeqQLen = testing::Ends(rows);
    const uint64_t max = SizeOf(Max(call));
    EXPECT_GE(max, SizeOf(TrainingFixture(call)));
    if (bound == 0) bound = max;
    EXPECT_EQ(max, bound);
  }
}

TEST(PrepareForAnyLengths, BoundsDoNotDependOnLengths) {
  ExpectBound<TrainingForward>();
  ExpectBound<TrainingBackward>();
}

// Forward takes a drop mask, whose bits are those of the call's lengths.
TEST(PrepareForAnyLengths, PlansTheCallItself) {
  TrainingForward call({.rows = {2, 0}, .columns = {4, 3}}, kNewest);
  call.dropMask = Form{ACL_UINT8, {2}};
  call.keepProb = 0.5;
  const auto result = [](TrainingFixture<TrainingForward> made) {
    made.t.dropMask->FillWith(0xA7);
    for (int64_t n = 0; n < made.t.value->elements(); ++n) {
      made.t.value->SetNth(n, static_cast<double>(n % 5));
    }
    EXPECT_TRUE(made.Run());
    return made.t.attentionOut->Values();
  };
  EXPECT_EQ(result(Max(call)), result(TrainingFixture(call)));
}

TEST(PrepareForAnyLengths, AnswersNothingOnFailure) {
  TrainingForward call({}, kNewest);
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(Max(call).PhaseOne(nullptr, &executor), 161001);
  EXPECT_EQ(executor, nullptr);
  call.headNum = 0;
  Max(call).ExpectFailure(161002, "headNum: 0");
}

}  // namespace
}  // namespace flashacl::ops
