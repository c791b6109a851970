// SPDX-License-Identifier: Apache-2.0
// The two phases: what each validates, who owns the executor, what is a
// snapshot.
#include "acl/executor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/context.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::acl {
namespace {

using testing::TinyCall;

std::string Message() {
  const char* text = aclGetRecentErrMsg();
  EXPECT_NE(text, nullptr);
  return text == nullptr ? "" : text;
}

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() { call_.SetValue(2.5f); }

  void ExpectAnswer(float number) {
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
    for (int64_t n = 0; n < call_.elements(); ++n) {
      ASSERT_EQ(call_.out_data[n], number) << n;
    }
  }

  TinyCall call_{3};
};

TEST_F(ExecutorTest, ComputesInTwoPhases) {
  ASSERT_EQ(call_.Prepare(), 0);
  std::vector<char> workspace(call_.workspace_size);
  ASSERT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            0);
  ExpectAnswer(2.5f);
}

TEST_F(ExecutorTest, HandlesMayDieAfterPhaseOne) {
  ASSERT_EQ(call_.Prepare(), 0);
  call_.DestroyHandles();
  std::vector<char> workspace(call_.workspace_size);
  ASSERT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            0);
  ExpectAnswer(2.5f);
}

TEST_F(ExecutorTest, PhaseOneNeedsNoContext) {
  aclnnStatus status = -1;
  std::thread([&] { status = call_.Prepare(); }).join();
  EXPECT_EQ(status, 0);
  aclDestroyAclOpExecutor(call_.executor);
}

TEST_F(ExecutorTest, PhaseTwoOnTheDefaultStreamNeedsAContext) {
  ASSERT_EQ(call_.Prepare(), 0);
  std::vector<char> workspace(call_.workspace_size);
  aclnnStatus status = 0;
  std::string message;
  std::thread([&] {
    status =
        Launch(workspace.data(), workspace.size(), call_.executor, nullptr);
    message = Message();
  }).join();
  EXPECT_EQ(status, 361001);
  EXPECT_FALSE(message.empty());
}

TEST_F(ExecutorTest, FailureWritesNeitherAnswer) {
  uint64_t size = 77;
  auto* executor = reinterpret_cast<aclOpExecutor*>(uintptr_t{88});
  const std::vector<Passed> passed{
      static_cast<const aclTensor*>(nullptr), call_.key, call_.value,
      static_cast<const aclTensor*>(nullptr), call_.out};
  EXPECT_EQ(Prepare(testing::kTinyOperator, passed, testing::LowerTiny,
                    {&size, &executor}),
            161001);
  EXPECT_NE(Message().find("The query cannot be nullptr."), std::string::npos);
  EXPECT_EQ(size, 77u);
  EXPECT_EQ(executor, reinterpret_cast<aclOpExecutor*>(uintptr_t{88}));
}

TEST_F(ExecutorTest, PhaseOneNeedsPlacesForItsAnswers) {
  const std::vector<Passed> passed{call_.query, call_.key, call_.value,
                                   static_cast<const aclTensor*>(nullptr),
                                   call_.out};
  EXPECT_EQ(Prepare(testing::kTinyOperator, passed, testing::LowerTiny,
                    {nullptr, &call_.executor}),
            161001);
  EXPECT_NE(Message().find("workspaceSize"), std::string::npos);
  EXPECT_EQ(Prepare(testing::kTinyOperator, passed, testing::LowerTiny,
                    {&call_.workspace_size, nullptr}),
            161001);
  EXPECT_NE(Message().find("executor"), std::string::npos);
}

TEST_F(ExecutorTest, IsSingleUse) {
  ASSERT_EQ(call_.Prepare(), 0);
  std::vector<char> workspace(call_.workspace_size);
  ASSERT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            0);
  EXPECT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            561000);
  EXPECT_NE(Message().find("phase two consumes it"), std::string::npos);
  ExpectAnswer(2.5f);
}

TEST_F(ExecutorTest, NullExecutorIs161001) {
  EXPECT_EQ(Launch(nullptr, 0, nullptr, nullptr), 161001);
  EXPECT_NE(Message().find("The executor cannot be nullptr."),
            std::string::npos);
}

TEST_F(ExecutorTest, AFailedPhaseTwoConsumesTheExecutor) {
  ASSERT_EQ(call_.Prepare(), 0);
  if (call_.workspace_size == 0) {
    // No workspace to get wrong: take away an address instead.
    aclSetAclOpExecutorRepeatable(call_.executor);
    aclSetInputTensorAddr(call_.executor, 0, call_.query, nullptr);
    EXPECT_EQ(Launch(nullptr, 0, call_.executor, nullptr), 161001);
    EXPECT_NE(Message().find("no data address"), std::string::npos);
    aclDestroyAclOpExecutor(call_.executor);
    return;
  }
  EXPECT_EQ(Launch(nullptr, call_.workspace_size, call_.executor, nullptr),
            161001);
  EXPECT_NE(Message().find("workspace"), std::string::npos);
  EXPECT_EQ(Launch(nullptr, 0, call_.executor, nullptr), 561000);
  Message();
}

// Keys that are not there have no address.
TEST_F(ExecutorTest, TensorsWithoutElementsNeedNoMemory) {
  TinyCall none(2, 4, 0);
  ASSERT_EQ(none.key_data, nullptr);
  ASSERT_EQ(none.Prepare(), 0);
  std::vector<char> workspace(none.workspace_size);
  EXPECT_EQ(Launch(workspace.data(), workspace.size(), none.executor, nullptr),
            0);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
  EXPECT_EQ(none.out_data[0], 0);
}

// What is freed before its call runs stays until then.
TEST_F(ExecutorTest, QueuedCallsKeepTheirMemory) {
  ASSERT_EQ(call_.Prepare(), 0);
  std::vector<char> workspace(call_.workspace_size);
  const std::shared_ptr<Context> context = CurrentContext();
  Latch gate;
  Stream& stream = *context->default_stream();
  stream.Push([&] { return stream.WaitInTask(gate, std::nullopt), 0; }, "test",
              TaskKind::kControl);
  ASSERT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            0);
  const size_t free_bytes = FreeDeviceBytes();
  for (float** data : {&call_.query_data, &call_.key_data, &call_.value_data}) {
    EXPECT_EQ(aclrtFree(std::exchange(*data, nullptr)), 0);
  }
  EXPECT_EQ(FreeDeviceBytes(), free_bytes);
  gate.Open();
  ExpectAnswer(2.5f);
  EXPECT_GT(FreeDeviceBytes(), free_bytes);
}

TEST_F(ExecutorTest, RepeatsAtNewAddresses) {
  ASSERT_EQ(call_.Prepare(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(call_.executor), 0);
  std::vector<char> workspace(call_.workspace_size);
  std::vector<float> other_value(4, 7.0f);
  for (int n = 0; n < 1000; ++n) {
    float* const to = n % 2 == 0 ? other_value.data() : call_.value_data;
    // Position 2 among the inputs: query, key[0], value[0].
    ASSERT_EQ(aclSetInputTensorAddr(call_.executor, 2, call_.value_member, to),
              0);
    ASSERT_EQ(
        Launch(workspace.data(), workspace.size(), call_.executor, nullptr), 0);
    if (n % 100 < 2) ExpectAnswer(n % 2 == 0 ? 7.0f : 2.5f);
  }
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(call_.executor), 0);
  EXPECT_EQ(Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
            561000);
  Message();
}

TEST_F(ExecutorTest, RepeatsByListAfterHandlesDied) {
  ASSERT_EQ(call_.Prepare(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(call_.executor), 0);
  std::vector<char> workspace(call_.workspace_size);
  std::vector<float> other_value(4, -1.0f);
  // Parameter 2 is the list of values.
  ASSERT_EQ(aclSetDynamicInputTensorAddr(call_.executor, 2, 0, call_.value,
                                         other_value.data()),
            0);
  call_.DestroyHandles();
  std::thread([&] {
    aclrtSetDevice(0);
    EXPECT_EQ(
        Launch(workspace.data(), workspace.size(), call_.executor, nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
    aclrtResetDevice(0);
  }).join();
  ExpectAnswer(-1.0f);
  aclDestroyAclOpExecutor(call_.executor);
}

TEST_F(ExecutorTest, NothingToDoIsASuccess) {
  TinyCall empty(0);
  ASSERT_EQ(empty.Prepare(), 0);
  EXPECT_EQ(empty.workspace_size, 0u);
  EXPECT_EQ(Launch(nullptr, 0, empty.executor, nullptr), 0);
}

TEST_F(ExecutorTest, AMisalignedWorkspaceIsFine) {
  ASSERT_EQ(call_.Prepare(), 0);
  std::vector<char> workspace(call_.workspace_size + 1);
  ASSERT_EQ(Launch(workspace.data() + 1, call_.workspace_size, call_.executor,
                   nullptr),
            0);
  ExpectAnswer(2.5f);
}

}  // namespace
}  // namespace flashacl::acl
