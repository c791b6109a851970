// SPDX-License-Identifier: Apache-2.0
// The chip that programs are told, and FLASHACL_SOC.
#include "acl/soc.h"

#include <gtest/gtest.h>

#include <string>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

TEST(Soc, NamesAreWholeButOfTheNewestFamily) {
  for (const char* name :
       {"Ascend910B1", "Ascend910B4-1", "Ascend310P3", "Ascend910_9391",
        "Ascend910B", "Ascend950", "Ascend950PR_9579", "Ascend910PremiumA"}) {
    EXPECT_TRUE(IsSocName(name)) << name;
  }
  for (const char* name :
       {"", "Ascend", "910B1", "ascend910B1", "Ascend910B5", "Ascend910B1 ",
        "Ascend910", "Ascend95", "Ascend950 \n"}) {
    EXPECT_FALSE(IsSocName(name)) << name;
  }
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910B1");
}

// Children, which Soc.IsThatOfTheEnvironment starts.
TEST(SocChild, DISABLED_Known) {
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910_9391");
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
}
TEST(SocChild, DISABLED_Unknown) {
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910B1");
  EXPECT_TRUE(FailsWith(507008, aclInit(nullptr), "FLASHACL_SOC is Ascend7"));
  EXPECT_TRUE(FailsWith(507008, aclrtSetDevice(0), "910B2C"));
}

TEST(Soc, IsThatOfTheEnvironment) {
  auto child =
      RunChild("SocChild.DISABLED_Known", {{"FLASHACL_SOC", "Ascend910_9391"}});
  EXPECT_TRUE(child.ok()) << child.output;
  child = RunChild("SocChild.DISABLED_Unknown", {{"FLASHACL_SOC", "Ascend7"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
