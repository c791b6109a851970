// SPDX-License-Identifier: Apache-2.0
// Asking what went wrong, through the C API.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;

TEST(ErrorApi, EveryFailureHasItsMessageOnce) {
  Message();
  EXPECT_EQ(aclrtSetDevice(-1), 107001);
  const std::string message = Message();
  EXPECT_NE(message.find("aclrtSetDevice"), std::string::npos);
  EXPECT_NE(message.find("-1"), std::string::npos);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST(ErrorApi, TheTextLivesUntilTheNextCall) {
  aclrtSetDevice(-1);
  const char* text = aclGetRecentErrMsg();
  ASSERT_NE(text, nullptr);
  const std::string copy = text;
  aclrtSetDevice(-2);
  EXPECT_EQ(copy, text);
  EXPECT_NE(Message(), copy);
}

TEST(ErrorApi, LastErrorIsPerThread) {
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  aclrtSetDevice(-1);
  int local = 0;  // its address is no context
  std::thread([&] {
    EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    EXPECT_EQ(aclrtSetCurrentContext(&local), 107000);
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 107000);
    EXPECT_NE(Message(), "");
  }).join();
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 107001);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 107001);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
  EXPECT_NE(Message(), "");
}

TEST(ErrorApi, OtherLevelsAreRefused) {
  const auto level = static_cast<aclrtLastErrLevel>(1);
  EXPECT_TRUE(FailsWith(100000, aclrtPeekAtLastError(level)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetLastError(level)));
}

}  // namespace
}  // namespace flashacl::acl
