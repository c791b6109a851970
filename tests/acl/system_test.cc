// SPDX-License-Identifier: Apache-2.0
// Facts about the system and the device, and every code of asking for them.
#include <gtest/gtest.h>

#include <cstdint>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Succeeds;

TEST(System, RunModeSocAndVersion) {
  aclrtRunMode mode = ACL_DEVICE;
  EXPECT_TRUE(FailsWith(100000, aclrtGetRunMode(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtGetRunMode(&mode)));
  EXPECT_EQ(mode, ACL_HOST);
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910B1");
  EXPECT_EQ(aclrtGetSocName(), aclrtGetSocName());
  int32_t v[3] = {};
  EXPECT_TRUE(FailsWith(100000, aclrtGetVersion(nullptr, v + 1, v + 2)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetVersion(v, nullptr, v + 2)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetVersion(v, v + 1, nullptr)));
  EXPECT_EQ(v[0], 0);
  EXPECT_TRUE(Succeeds(aclrtGetVersion(v, v + 1, v + 2)));
  EXPECT_EQ(v[0], 1);
  EXPECT_EQ(v[1], 17);
  EXPECT_EQ(v[2], 0);
}

TEST(System, Attributes) {
  const aclCannAttr* list = nullptr;
  size_t count = 0;
  EXPECT_TRUE(FailsWith(100000, aclGetCannAttributeList(nullptr, &count)));
  EXPECT_TRUE(FailsWith(100000, aclGetCannAttributeList(&list, nullptr)));
  ASSERT_TRUE(Succeeds(aclGetCannAttributeList(&list, &count)));
  ASSERT_EQ(count, 3u);
  int32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(list[i], static_cast<aclCannAttr>(i));
    value = 0;
    EXPECT_TRUE(Succeeds(aclGetCannAttribute(list[i], &value)));
    EXPECT_EQ(value, 1);
  }
  EXPECT_TRUE(
      FailsWith(100000, aclGetCannAttribute(ACL_CANN_ATTR_BF16, nullptr)));
  for (const int bad : {-1, 3}) {
    EXPECT_TRUE(FailsWith(
        100000, aclGetCannAttribute(static_cast<aclCannAttr>(bad), &value)));
  }
}

TEST(System, Capabilities) {
  const int64_t expected[] = {24, 48, 201326592};
  int64_t value = 0;
  for (int i = 0; i < 3; ++i) {
    const auto info = static_cast<aclDeviceInfo>(i);
    EXPECT_TRUE(Succeeds(aclGetDeviceCapability(0, info, &value)));
    EXPECT_EQ(value, expected[i]);
    EXPECT_TRUE(FailsWith(100000, aclGetDeviceCapability(1, info, &value)));
    EXPECT_TRUE(FailsWith(100000, aclGetDeviceCapability(0, info, nullptr)));
  }
  for (const int bad : {-1, 3}) {
    EXPECT_TRUE(FailsWith(
        100000,
        aclGetDeviceCapability(0, static_cast<aclDeviceInfo>(bad), &value)));
  }
}

TEST(System, DeviceInfo) {
  const struct {
    int attr;
    int64_t value;
  } table[] = {{1, 6},     {101, 24}, {102, 24}, {201, 48}, {202, 0},
               {203, 0},   {204, 0},  {205, 0},  {212, 0},  {302, 201326592},
               {401, 0},   {402, 0},  {403, 0},  {404, 0},  {405, 0},
               {406, 0},   {407, 0},  {408, 0},  {409, 3},  {501, 0},
               {601, 2201}};
  for (const auto& row : table) {
    int64_t value = -1;
    EXPECT_TRUE(Succeeds(
        aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(row.attr), &value)));
    EXPECT_EQ(value, row.value) << row.attr;
  }
  int64_t total = 0;
  EXPECT_TRUE(Succeeds(
      aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &total)));
  EXPECT_GT(total, int64_t{1} << 28);
  for (const uint32_t device : {1u, UINT32_MAX}) {
    EXPECT_TRUE(FailsWith(
        107001, aclrtGetDeviceInfo(device, ACL_DEV_ATTR_NPU_ARCH, &total)));
  }
  EXPECT_TRUE(
      FailsWith(100000, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, nullptr)));
  for (const int bad : {0, 2, 213, 410, 602}) {
    EXPECT_TRUE(FailsWith(
        107000, aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(bad), &total)));
  }
}

TEST(System, UtilizationAndStatus) {
  aclrtUtilizationInfo info = {};
  info.utilizationExtend = &info;
  EXPECT_TRUE(FailsWith(100000, aclrtGetDeviceUtilizationRate(0, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetDeviceUtilizationRate(-1, &info)));
  EXPECT_TRUE(Succeeds(aclrtGetDeviceUtilizationRate(0, &info)));
  for (const int32_t load :
       {info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization}) {
    EXPECT_GE(load, 0);
    EXPECT_LE(load, 100);
  }
  EXPECT_EQ(info.memoryUtilization, -1);
  EXPECT_EQ(info.utilizationExtend, &info);
  aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
  EXPECT_TRUE(FailsWith(100000, aclrtQueryDeviceStatus(0, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtQueryDeviceStatus(1, &status)));
  EXPECT_TRUE(Succeeds(aclrtQueryDeviceStatus(0, &status)));
  EXPECT_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
}

}  // namespace
}  // namespace flashacl::acl
