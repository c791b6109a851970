// SPDX-License-Identifier: Apache-2.0
// What tells devices apart, and processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

std::string Uuid(int32_t device) {
  aclrtUuid uuid{};
  EXPECT_TRUE(Succeeds(aclrtDeviceGetUuid(device, &uuid)));
  return std::string(uuid.bytes, sizeof(uuid.bytes));
}

TEST(DeviceId, UuidsAreStableAndNotZero) {
  EXPECT_EQ(Uuid(0), Uuid(0));
  EXPECT_NE(Uuid(0), std::string(16, '\0'));
  aclrtUuid uuid{};
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceGetUuid(0, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceGetUuid(1, &uuid)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceGetUuid(-1, &uuid)));
}

// A child, which DeviceId.UuidsDiffer starts.
TEST(DeviceIdChild, DISABLED_Several) { EXPECT_NE(Uuid(0), Uuid(1)); }

TEST(DeviceId, UuidsDiffer) {
  const auto child =
      RunChild("DeviceIdChild.DISABLED_Several", {{"FLASHACL_DEVICES", "2"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

TEST(DeviceId, TheProcessIsThisOne) {
  int32_t pid = 0;
  EXPECT_TRUE(Succeeds(aclrtDeviceGetBareTgid(&pid)));
  EXPECT_EQ(pid, getpid());
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceGetBareTgid(nullptr)));
}

}  // namespace
}  // namespace flashacl::acl
