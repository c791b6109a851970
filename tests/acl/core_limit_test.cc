// SPDX-License-Identifier: Apache-2.0
// Core limits: the stream's comes before the device's, that before the
// hardware's.
#include <gtest/gtest.h>

#include <thread>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

constexpr auto kCube = ACL_RT_DEV_RES_CUBE_CORE;
constexpr auto kVector = ACL_RT_DEV_RES_VECTOR_CORE;

class CoreLimitTest : public RuntimeTest {
 protected:
  static uint32_t OfDevice(aclrtDevResLimitType type) {
    uint32_t value = 0;
    EXPECT_TRUE(Succeeds(aclrtGetDeviceResLimit(0, type, &value)));
    return value;
  }
  static uint32_t OfStream(aclrtStream stream, aclrtDevResLimitType type) {
    uint32_t value = 0;
    EXPECT_TRUE(Succeeds(aclrtGetStreamResLimit(stream, type, &value)));
    return value;
  }
  static uint32_t Here(aclrtDevResLimitType type) {
    uint32_t value = 0;
    EXPECT_TRUE(Succeeds(aclrtGetResInCurrentThread(type, &value)));
    return value;
  }
};

TEST_F(CoreLimitTest, TheNearestLimitHolds) {
  ScopedStream stream;
  EXPECT_EQ(OfDevice(kCube), 24u);
  EXPECT_EQ(OfDevice(kVector), 48u);
  EXPECT_EQ(OfStream(stream, kCube), 24u);
  EXPECT_EQ(Here(kVector), 48u);
  ASSERT_TRUE(Succeeds(aclrtSetDeviceResLimit(0, kCube, 8)));
  EXPECT_EQ(OfDevice(kCube), 8u);
  EXPECT_EQ(OfStream(stream, kCube), 8u);
  EXPECT_EQ(Here(kCube), 8u);
  ASSERT_TRUE(Succeeds(aclrtSetStreamResLimit(stream, kCube, 4)));
  EXPECT_EQ(OfStream(stream, kCube), 4u);
  EXPECT_EQ(Here(kCube), 8u);
  ASSERT_TRUE(Succeeds(aclrtUseStreamResInCurrentThread(stream)));
  EXPECT_EQ(Here(kCube), 4u);
  EXPECT_EQ(Here(kVector), 48u);
  std::thread([] { EXPECT_EQ(Here(kCube), 24u); }).join();
  ASSERT_TRUE(Succeeds(aclrtResetStreamResLimit(stream)));
  EXPECT_EQ(Here(kCube), 8u);
  ASSERT_TRUE(Succeeds(aclrtUnuseStreamResInCurrentThread(stream)));
  ASSERT_TRUE(Succeeds(aclrtResetDeviceResLimit(0)));
  EXPECT_EQ(Here(kCube), 24u);
}

TEST_F(CoreLimitTest, EveryCode) {
  ScopedStream stream;
  uint32_t value = 7;
  for (const int32_t device : {-1, 1}) {
    EXPECT_TRUE(FailsWith(107001, aclrtSetDeviceResLimit(device, kCube, 1)));
    EXPECT_TRUE(
        FailsWith(107001, aclrtGetDeviceResLimit(device, kCube, &value)));
    EXPECT_TRUE(FailsWith(107001, aclrtResetDeviceResLimit(device)));
  }
  for (const int bad : {-1, 2}) {
    const auto type = static_cast<aclrtDevResLimitType>(bad);
    EXPECT_TRUE(FailsWith(107000, aclrtSetDeviceResLimit(0, type, 1)));
    EXPECT_TRUE(FailsWith(107000, aclrtGetDeviceResLimit(0, type, &value)));
    EXPECT_TRUE(FailsWith(107000, aclrtSetStreamResLimit(stream, type, 1)));
    EXPECT_TRUE(
        FailsWith(107000, aclrtGetStreamResLimit(stream, type, &value)));
    EXPECT_TRUE(FailsWith(107000, aclrtGetResInCurrentThread(type, &value)));
  }
  for (const uint32_t bad : {0u, 25u}) {
    EXPECT_TRUE(FailsWith(107000, aclrtSetDeviceResLimit(0, kCube, bad)));
    EXPECT_TRUE(FailsWith(107000, aclrtSetStreamResLimit(stream, kCube, bad)));
  }
  EXPECT_TRUE(FailsWith(100000, aclrtGetDeviceResLimit(0, kCube, nullptr)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtGetStreamResLimit(stream, kCube, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetResInCurrentThread(kCube, nullptr)));
  EXPECT_EQ(value, 7u);
}

TEST_F(CoreLimitTest, StreamsThatAreGoneDoNotCount) {
  aclrtStream stream = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  ASSERT_TRUE(Succeeds(aclrtSetStreamResLimit(stream, kCube, 4)));
  ASSERT_TRUE(Succeeds(aclrtUseStreamResInCurrentThread(stream)));
  ASSERT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_EQ(Here(kCube), 24u);
  uint32_t value = 0;
  EXPECT_NE(aclrtGetStreamResLimit(stream, kCube, &value), 0);
  EXPECT_NE(Message(), "");
  EXPECT_NE(aclrtUseStreamResInCurrentThread(stream), 0);
  EXPECT_NE(Message(), "");
}

}  // namespace
}  // namespace flashacl::acl
