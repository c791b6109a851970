// SPDX-License-Identifier: Apache-2.0
// The program's callback hears of each failed task once.
#include "acl/exception.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

std::vector<aclrtExceptionInfo> heard;

void Hear(aclrtExceptionInfo* info) {
  heard.push_back({aclrtGetTaskIdFromExceptionInfo(info),
                   aclrtGetStreamIdFromExceptionInfo(info),
                   aclrtGetThreadIdFromExceptionInfo(info),
                   aclrtGetDeviceIdFromExceptionInfo(info),
                   aclrtGetErrorCodeFromExceptionInfo(info)});
}

class ExceptionTest : public ::flashacl::testing::RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    heard.clear();
    EXPECT_TRUE(Succeeds(aclrtSetExceptionInfoCallback(Hear)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtSetExceptionInfoCallback(nullptr)));
    RuntimeTest::TearDown();
  }
};

TEST_F(ExceptionTest, EachFailedDeviceTaskIsToldOnce) {
  ScopedStream stream;
  const auto fail = [] { return Fail(507015, Title::kRuntime, "bad"); };
  Enqueue(stream, fail, "test");
  Enqueue(
      stream, [] { return 0; }, "test");
  Enqueue(stream, fail, "test");
  Enqueue(stream, fail, "test", TaskKind::kControl);  // no device task
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream)));
  ASSERT_EQ(heard.size(), 2u);
  int32_t id = -1;
  EXPECT_TRUE(Succeeds(aclrtStreamGetId(stream, &id)));
  for (const aclrtExceptionInfo& info : heard) {
    EXPECT_EQ(info.stream_id, static_cast<uint32_t>(id));
    EXPECT_EQ(info.thread_id, static_cast<uint32_t>(syscall(SYS_gettid)));
    EXPECT_EQ(info.device_id, 0u);
    EXPECT_EQ(info.code, 507015u);
  }
  EXPECT_EQ(heard[0].task_id + 2, heard[1].task_id);
}

TEST_F(ExceptionTest, NobodyIsToldWithoutACallback) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSetExceptionInfoCallback(nullptr)));
  Enqueue(
      stream, [] { return 507015; }, "test");
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(heard.empty());
}

TEST_F(ExceptionTest, NullHasNoInformation) {
  Hear(nullptr);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].task_id, 0xFFFFFFFFu);
  EXPECT_EQ(heard[0].stream_id, 0xFFFFFFFFu);
  EXPECT_EQ(heard[0].thread_id, 0xFFFFFFFFu);
  EXPECT_EQ(heard[0].device_id, 0xFFFFFFFFu);
  EXPECT_EQ(heard[0].code, 0xFFFFFFFFu);
}

}  // namespace
}  // namespace flashacl::acl
