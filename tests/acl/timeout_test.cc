// SPDX-License-Identifier: Apache-2.0
// Operator timeouts are kept, and nothing else.
#include <gtest/gtest.h>

#include <cstdint>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Succeeds;

uint32_t Milliseconds() {
  uint32_t ms = 0;
  EXPECT_TRUE(Succeeds(aclrtGetOpExecuteTimeout(&ms)));
  return ms;
}

TEST(Timeout, IsKept) {
  EXPECT_EQ(Milliseconds(), 1091000u);
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOut(7)));
  EXPECT_EQ(Milliseconds(), 7000u);
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOutWithMs(12)));
  EXPECT_EQ(Milliseconds(), 12u);
  uint64_t actual = 0;
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOutV2(5000, &actual)));
  EXPECT_EQ(actual, 5000u);
  EXPECT_EQ(Milliseconds(), 5u);
  EXPECT_TRUE(Succeeds(aclrtSetOpWaitTimeout(3)));
  EXPECT_EQ(Milliseconds(), 5u);
}

TEST(Timeout, ZeroIsTheLongest) {
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOut(0)));
  EXPECT_EQ(Milliseconds(), UINT32_MAX);
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOut(UINT32_MAX)));
  EXPECT_EQ(Milliseconds(), UINT32_MAX);
  uint64_t actual = 0;
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual)));
  EXPECT_EQ(actual, uint64_t{UINT32_MAX} * 1000);
  EXPECT_TRUE(Succeeds(aclrtSetOpExecuteTimeOut(1091)));
}

TEST(Timeout, NullIsRefused) {
  EXPECT_TRUE(FailsWith(100000, aclrtSetOpExecuteTimeOutV2(1, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetOpTimeOutInterval(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetOpExecuteTimeout(nullptr)));
  uint64_t interval = 0;
  EXPECT_TRUE(Succeeds(aclrtGetOpTimeOutInterval(&interval)));
  EXPECT_EQ(interval, 1u);
}

}  // namespace
}  // namespace flashacl::acl
