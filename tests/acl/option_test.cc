// SPDX-License-Identifier: Apache-2.0
// Options are stored where they were set, and read back.
#include <gtest/gtest.h>

#include <thread>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class OptionTest : public RuntimeTest {};

TEST_F(OptionTest, OfTheProcess) {
  int64_t value = 7;
  for (int i = 0; i <= 3; ++i) {
    const auto opt = static_cast<aclSysParamOpt>(i);
    EXPECT_TRUE(Succeeds(aclrtGetSysParamOpt(opt, &value)));
    EXPECT_EQ(value, 0);
    EXPECT_TRUE(Succeeds(aclrtSetSysParamOpt(opt, 2)));
    std::thread([&] {
      EXPECT_TRUE(Succeeds(aclrtGetSysParamOpt(opt, &value)));
    }).join();
    EXPECT_EQ(value, 2);
    EXPECT_TRUE(Succeeds(aclrtSetSysParamOpt(opt, 0)));
    EXPECT_TRUE(FailsWith(100000, aclrtGetSysParamOpt(opt, nullptr)));
  }
  for (const int bad : {-1, 4}) {
    const auto opt = static_cast<aclSysParamOpt>(bad);
    EXPECT_TRUE(FailsWith(100000, aclrtSetSysParamOpt(opt, 1)));
    EXPECT_TRUE(FailsWith(100000, aclrtGetSysParamOpt(opt, &value)));
  }
}

TEST_F(OptionTest, OfAContext) {
  int64_t value = 7;
  for (int i = 0; i <= 2; ++i) {
    const auto opt = static_cast<aclSysParamOpt>(i);
    EXPECT_TRUE(FailsWith(107021, aclrtCtxGetSysParamOpt(opt, &value)));
    EXPECT_TRUE(FailsWith(100000, aclrtCtxGetSysParamOpt(opt, nullptr)));
    EXPECT_TRUE(Succeeds(aclrtCtxSetSysParamOpt(opt, 3)));
    EXPECT_TRUE(Succeeds(aclrtCtxGetSysParamOpt(opt, &value)));
    EXPECT_EQ(value, 3);
    std::thread([&] {
      EXPECT_TRUE(FailsWith(107002, aclrtCtxGetSysParamOpt(opt, &value)));
      EXPECT_TRUE(FailsWith(107002, aclrtCtxSetSysParamOpt(opt, 1)));
    }).join();
  }
  for (const int bad : {-1, 3, 4}) {
    const auto opt = static_cast<aclSysParamOpt>(bad);
    EXPECT_TRUE(FailsWith(100000, aclrtCtxSetSysParamOpt(opt, 1)));
    EXPECT_TRUE(FailsWith(100000, aclrtCtxGetSysParamOpt(opt, &value)));
  }
  // Another context has its own, and the process's is a third.
  aclrtContext context = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  EXPECT_TRUE(
      FailsWith(107021, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_TRUE(Succeeds(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value)));
  EXPECT_EQ(value, 0);
}

TEST_F(OptionTest, SaturationModeAndTaskScheduler) {
  aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
  EXPECT_TRUE(FailsWith(100000, aclrtGetDeviceSatMode(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtGetDeviceSatMode(&mode)));
  EXPECT_EQ(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
  EXPECT_TRUE(Succeeds(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF)));
  EXPECT_TRUE(Succeeds(aclrtGetDeviceSatMode(&mode)));
  EXPECT_EQ(mode, ACL_RT_OVERFLOW_MODE_SATURATION);
  EXPECT_TRUE(Succeeds(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN)));
  for (int id = 0; id <= 2; ++id) {
    EXPECT_TRUE(Succeeds(aclrtSetTsDevice(static_cast<aclrtTsId>(id))));
  }
  for (const int bad : {-1, 3}) {
    EXPECT_TRUE(
        FailsWith(107000, aclrtSetTsDevice(static_cast<aclrtTsId>(bad))));
  }
}

}  // namespace
}  // namespace flashacl::acl
