// SPDX-License-Identifier: Apache-2.0
// Groups of launches, and updates that replace their arguments.
#include "acl/graph/task_group.h"

#include <gtest/gtest.h>

#include "acl/acl.h"
#include "tests/acl/graph/fixture.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::testing {
namespace {

class TaskGroupTest : public GraphTest {
 protected:
  // A graph of one group of one launch.
  aclmdlRI CaptureGroup(TinyCall& call, aclrtStream stream) {
    Begin(stream);
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
    EXPECT_TRUE(Succeeds(Launch(call, stream)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(stream, &group_)));
    return End(stream);
  }

  aclrtTaskGrp group_ = nullptr;
};

TEST_F(TaskGroupTest, ReplaysUseTheArgumentsOfTheLastUpdate) {
  TinyCall first(1), second(1);
  first.SetValue(1.0f);
  second.SetValue(2.0f);
  ScopedStream stream, updates;
  const aclmdlRI graph = CaptureGroup(first, stream);
  Replay(graph, stream);
  EXPECT_EQ(first.out_data[0], 1.0f);
  for (int i = 0; i < 2; ++i) {  // again and again
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
    EXPECT_TRUE(Succeeds(Launch(second, updates)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(updates)));
    EXPECT_EQ(second.out_data[0], i == 0 ? 0.0f : 2.0f);  // it did not run
    first.out_data[0] = 0.0f;
    Replay(graph, stream);
    EXPECT_EQ(first.out_data[0], 0.0f);
    EXPECT_EQ(second.out_data[0], 2.0f);
  }
  Destroy(graph);
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureTaskUpdateBegin(updates, group_)));
}

TEST_F(TaskGroupTest, AnUpdateTakesEffectInTheOrderOfItsStream) {
  TinyCall first(1), second(1);
  first.SetValue(1.0f);
  second.SetValue(2.0f);
  ScopedStream stream, updates;
  ScopedEvent event{ScopedEvent::External()};
  const aclmdlRI graph = [&] {
    Begin(stream);
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
    EXPECT_TRUE(Succeeds(aclrtResetEvent(event, stream)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
    EXPECT_TRUE(Succeeds(Launch(first, stream)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(stream, &group_)));
    return End(stream);
  }();
  for (int i = 0; i < 100; ++i) {
    TinyCall& call = i % 2 == 0 ? second : first;
    first.out_data[0] = second.out_data[0] = 0.0f;
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
    EXPECT_TRUE(Succeeds(Launch(call, updates)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, updates)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    ASSERT_EQ(first.out_data[0], i % 2 == 0 ? 0.0f : 1.0f);
    ASSERT_EQ(second.out_data[0], i % 2 == 0 ? 2.0f : 0.0f);
  }
  Destroy(graph);
}

TEST_F(TaskGroupTest, OnlyOperatorsGoIntoAGroup) {
  ScopedStream stream;
  Begin(stream);
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskGrpEnd(stream, &group_)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskGrpBegin(stream)));
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(FailsWith(507009, aclrtMemsetAsync(device, 64, 0, 64, stream)));
  group_ = &group_;
  EXPECT_TRUE(FailsWith(507009, aclmdlRICaptureTaskGrpEnd(stream, &group_)));
  EXPECT_EQ(group_, nullptr);
  EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(device, 64, 0, 64, stream)));
  Destroy(End(stream));
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
}

TEST_F(TaskGroupTest, AnotherStreamOfTheCaptureBreaksTheGroup) {
  TinyCall call(1);
  ScopedStream first, second;
  ScopedEvent fork;
  Begin(first);
  Follow(second, first, fork);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(first)));
  EXPECT_EQ(Launch(call, second), 361001);
  EXPECT_NE(Message().find("another stream"), std::string::npos);
  EXPECT_TRUE(FailsWith(107034, aclmdlRICaptureTaskGrpEnd(first, &group_)));
  EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(first, &failed_)));
}

TEST_F(TaskGroupTest, AStreamDoesNotJoinWhileAGroupIsOpen) {
  ScopedStream first, second;
  ScopedEvent fork;
  Begin(first);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(fork, first)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(first)));
  EXPECT_TRUE(FailsWith(107034, aclrtStreamWaitEvent(second, fork)));
  EXPECT_EQ(StatusOf(second), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(first, &failed_)));
}

TEST_F(TaskGroupTest, AnOpenGroupEndsTheCapture) {
  ScopedStream stream;
  EXPECT_TRUE(FailsWith(107029, aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(FailsWith(107029, aclmdlRICaptureTaskGrpEnd(stream, &group_)));
  EXPECT_TRUE(FailsWith(100000, aclmdlRICaptureTaskGrpBegin(nullptr)));
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureEnd(stream, &failed_)));
  EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

TEST_F(TaskGroupTest, UpdatesAreChecked) {
  TinyCall first(1), second(1);
  ScopedStream stream, updates, other;
  const aclmdlRI graph = CaptureGroup(first, stream);
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskUpdateEnd(updates)));
  EXPECT_TRUE(
      FailsWith(100000, aclmdlRICaptureTaskUpdateBegin(updates, nullptr)));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureTaskUpdateBegin(updates, graph)));
  Begin(other);
  EXPECT_TRUE(FailsWith(107027, aclmdlRICaptureTaskUpdateBegin(other, group_)));
  EXPECT_TRUE(FailsWith(107027, aclmdlRICaptureTaskUpdateEnd(other)));
  Destroy(End(other));

  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  EXPECT_TRUE(
      FailsWith(107033, aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskUpdateBegin(other, group_)));
  EXPECT_TRUE(FailsWith(
      107033, aclmdlRICaptureBegin(updates, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskGrpBegin(updates)));
  EXPECT_TRUE(FailsWith(507009, aclmdlRIExecuteAsync(graph, updates)));
  ScopedEvent event;
  EXPECT_TRUE(FailsWith(507009, aclrtRecordEvent(event, updates)));
  EXPECT_TRUE(FailsWith(507009, aclrtStreamWaitEvent(updates, event)));
  EXPECT_TRUE(FailsWith(507000, aclmdlRICaptureTaskUpdateEnd(updates)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskUpdateEnd(updates)));

  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  EXPECT_TRUE(Succeeds(Launch(second, updates)));
  EXPECT_EQ(Launch(second, updates), 361001);
  EXPECT_NE(Message().find("all replaced"), std::string::npos);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
  Destroy(graph);
}

TEST_F(TaskGroupTest, AnUpdateThatIsNotCompleteChangesNothing) {
  TinyCall first(1), second(1), other(1);
  first.SetValue(1.0f);
  second.SetValue(2.0f);
  other.SetValue(3.0f);
  ScopedStream stream, updates;
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(Succeeds(Launch(first, stream)));
  EXPECT_TRUE(Succeeds(Launch(second, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(stream, &group_)));
  const aclmdlRI graph = End(stream);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  EXPECT_TRUE(Succeeds(Launch(other, updates)));
  EXPECT_TRUE(FailsWith(507000, aclmdlRICaptureTaskUpdateEnd(updates)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(updates)));
  Replay(graph, stream);
  EXPECT_EQ(first.out_data[0], 1.0f);
  EXPECT_EQ(second.out_data[0], 2.0f);
  EXPECT_EQ(other.out_data[0], 0.0f);
  Destroy(graph);
}

TEST_F(TaskGroupTest, AStreamThatIsDestroyedFreesTheGroup) {
  TinyCall first(1), second(1);
  ScopedStream stream, updates;
  const aclmdlRI graph = CaptureGroup(first, stream);
  aclrtStream gone = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&gone)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(gone, group_)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(gone)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  EXPECT_TRUE(Succeeds(Launch(second, updates)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
  Destroy(graph);
}

TEST_F(TaskGroupTest, OnlyTheSameOperatorReplaces) {
  static const acl::Operator kOther{"other", kTinyArguments, 561103};
  TinyCall call(1);
  ScopedStream stream, updates;
  const aclmdlRI graph = CaptureGroup(call, stream);
  const std::vector<acl::Passed> passed{call.query, call.key, call.value,
                                        static_cast<const aclTensor*>(nullptr),
                                        call.out};
  EXPECT_TRUE(Succeeds(acl::Prepare(kOther, passed, LowerTiny,
                                    {&call.workspace_size, &call.executor})));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group_)));
  std::vector<std::byte> workspace(call.workspace_size);
  EXPECT_EQ(
      acl::Launch(workspace.data(), workspace.size(), call.executor, updates),
      361001);
  EXPECT_NE(Message().find("is tiny"), std::string::npos);
  EXPECT_TRUE(FailsWith(507000, aclmdlRICaptureTaskUpdateEnd(updates)));
  Destroy(graph);
}

}  // namespace
}  // namespace flashacl::testing
