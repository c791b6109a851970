// SPDX-License-Identifier: Apache-2.0
// Who has how much device memory, now and at most.
#include <gtest/gtest.h>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Succeeds;

class MemoryUsage : public ::flashacl::testing::RuntimeTest {};

TEST_F(MemoryUsage, FollowsAllocations) {
  constexpr size_t kBytes = size_t{5} << 20;
  aclrtMemUsageInfo before[3] = {}, during[3] = {}, after[3] = {};
  size_t count = 0;
  void* at = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetMemUsageInfo(0, before, 3, &count)));
  EXPECT_EQ(count, 2u);
  ASSERT_TRUE(Succeeds(aclrtMalloc(&at, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(Succeeds(aclrtGetMemUsageInfo(0, during, 3, &count)));
  EXPECT_TRUE(Succeeds(aclrtFree(at)));
  EXPECT_TRUE(Succeeds(aclrtGetMemUsageInfo(0, after, 1, &count)));
  EXPECT_EQ(count, 1u);
  EXPECT_STREQ(during[0].name, "app");
  EXPECT_STREQ(during[1].name, "runtime");
  EXPECT_GE(during[0].curMemSize, before[0].curMemSize + kBytes);
  EXPECT_GE(during[0].memPeakSize, during[0].curMemSize);
  EXPECT_EQ(after[0].curMemSize, before[0].curMemSize);
  EXPECT_EQ(after[0].memPeakSize, during[0].memPeakSize);
  EXPECT_EQ(after[1].name[0], '\0');
}

TEST_F(MemoryUsage, ArgumentsAreChecked) {
  aclrtMemUsageInfo info{};
  size_t count = 7;
  EXPECT_TRUE(FailsWith(100000, aclrtGetMemUsageInfo(0, nullptr, 1, &count)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetMemUsageInfo(0, &info, 1, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtGetMemUsageInfo(0, &info, 0, &count)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetMemUsageInfo(1, &info, 1, &count)));
  EXPECT_EQ(count, 7u);
}

}  // namespace
}  // namespace flashacl::acl
