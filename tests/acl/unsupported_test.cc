// SPDX-License-Identifier: Apache-2.0
// What is not offered says so; what frameworks call at their start does not.
#include <gtest/gtest.h>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_tdt.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;

TEST(Later, SaysSoByName) {
  EXPECT_TRUE(
      FailsWith(207000, aclrtSetGroup(0), "aclrtSetGroup is not supported"));
  EXPECT_TRUE(FailsWith(207000, aclrtSetGroup(0), "Not_Supported(EH0006)"));
  EXPECT_TRUE(FailsWith(207000, aclrtSnapShotProcessLock(1, nullptr)));
  uint32_t model = 7;
  EXPECT_TRUE(FailsWith(207000, aclmdlLoadFromFile("x", &model)));
  EXPECT_EQ(model, 7u);
}

TEST(Later, SaysWhy) {
  const auto says = [](aclError code, const char* why) {
    return FailsWith(207000, code, why);
  };
  uint32_t model = 0;
  EXPECT_TRUE(says(aclmdlLoadFromFile("x", &model),
                   "aclmdlLoadFromFile is not supported: offline models hold "
                   "code for the NPU."));
  EXPECT_TRUE(says(aclrtBinaryUnLoad(nullptr), "kernels of the program"));
  EXPECT_TRUE(says(aclrtLaunchKernel(nullptr, 1, nullptr, 0, nullptr),
                   "kernels of the program are for the NPU"));
  EXPECT_TRUE(says(acltdtStopChannel(nullptr), "no queue serves channels"));
  EXPECT_TRUE(says(aclrtAllocatorUnregister(nullptr), "allocates device"));
  EXPECT_TRUE(says(aclrtDestroyGroupInfo(nullptr), "a device is one"));
  EXPECT_TRUE(says(aclrtSnapShotProcessUnlock(1, nullptr), "is not saved"));
}

TEST(Later, ObjectsAreNull) {
  EXPECT_EQ(aclrtCreateBinary("x", 1), nullptr);
  EXPECT_NE(Message(), "");
  EXPECT_EQ(aclmdlCreateDesc(), nullptr);
  EXPECT_NE(Message(), "");
  EXPECT_EQ(aclrtAllocatorCreateDesc(), nullptr);
  EXPECT_NE(Message(), "");
  EXPECT_EQ(acltdtCreateChannel(0, "x"), nullptr);
  EXPECT_NE(Message(), "");
  EXPECT_EQ(aclmdlGetNumInputs(nullptr), 0u);
}

}  // namespace
}  // namespace flashacl::acl
