// SPDX-License-Identifier: Apache-2.0
// Opening and resetting devices: the count, and what becomes current.
#include "acl/device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

TEST(Device, IdsOutsideAreRefused) {
  for (const int32_t id : {-1, 1, 64, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(id), std::to_string(id)));
    EXPECT_TRUE(FailsWith(107001, aclrtResetDevice(id)));
    EXPECT_TRUE(FailsWith(107001, aclrtResetDeviceForce(id)));
    int32_t active = 7;
    EXPECT_TRUE(
        FailsWith(107001, aclrtGetPrimaryCtxState(id, nullptr, &active)));
    EXPECT_EQ(active, 7);
  }
}

TEST(Device, TellsHowToHaveMore) {
  EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(3),
                        "value 3 for parameter deviceId is invalid. Expected "
                        "value: [0, 1); FLASHACL_DEVICES=4 shows 4 devices."));
  for (const int32_t id : {-1, 64}) {
    EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(id), "value: [0, 1)."));
  }
}

TEST(Device, NullIsRefused) {
  EXPECT_TRUE(FailsWith(100000, aclrtGetDevice(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetDeviceCount(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetPrimaryCtxState(0, nullptr, nullptr)));
}

TEST(Device, ResetsAsOftenAsSet) {
  EXPECT_TRUE(FailsWith(507007, aclrtResetDevice(0), "not set or already"));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtContext first = nullptr, again = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&first)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&again)));
  EXPECT_EQ(first, again);
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  int32_t active = 0;
  uint32_t flags = 7;
  EXPECT_TRUE(Succeeds(aclrtGetPrimaryCtxState(0, &flags, &active)));
  EXPECT_EQ(active, 1);
  EXPECT_EQ(flags, 0u);
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtGetPrimaryCtxState(0, nullptr, &active)));
  EXPECT_EQ(active, 0);
  EXPECT_TRUE(FailsWith(507007, aclrtResetDevice(0)));
  EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&again)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetCurrentContext(first)));
}

TEST(Device, ForceIgnoresTheCount) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
  EXPECT_TRUE(FailsWith(507007, aclrtResetDeviceForce(0)));
  EXPECT_TRUE(FailsWith(507007, aclrtResetDevice(0)));
}

TEST(Device, SetDeviceReplacesAnExplicitContext) {
  aclrtContext own = nullptr, current = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&own, 0)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&current)));
  EXPECT_NE(own, current);
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(own)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST(Device, ThreadsShareTheDefaultContext) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtContext here = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&here)));
  std::thread([here] {
    int32_t device = -1;
    EXPECT_TRUE(FailsWith(107002, aclrtGetDevice(&device)));
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    aclrtContext there = nullptr;
    EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&there)));
    EXPECT_EQ(here, there);
    EXPECT_TRUE(Succeeds(aclrtGetDevice(&device)));
    EXPECT_EQ(device, 0);
    EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
    EXPECT_TRUE(Succeeds(aclrtGetDevice(&device)));
  }).join();
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST(Device, ResetEndsStreamsThatWereLeft) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  int ran = 0;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void* at) { ++*static_cast<int*>(at); }, &ran)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyStream(stream)));
}

TEST(Device, ManyThreadsSetAndReset) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
        EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
        EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(FailsWith(507007, aclrtResetDevice(0)));
}

TEST(Device, SynchronizingNeedsAContext) {
  EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeDevice()));
  EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeDeviceWithTimeout(5)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeDeviceWithTimeout(-2)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeDeviceWithTimeout(0)));
}

uint32_t Count() {
  uint32_t count = 99;
  EXPECT_TRUE(Succeeds(aclrtGetDeviceCount(&count)));
  EXPECT_EQ(static_cast<int>(count), DeviceCount());
  return count;
}

// Children, which Device.CountFollowsTheVisibleOnes starts.
TEST(DeviceChild, DISABLED_One) { EXPECT_EQ(Count(), 1u); }
TEST(DeviceChild, DISABLED_Three) {
  EXPECT_EQ(Count(), 3u);
  EXPECT_EQ(VisibleDevices(), (std::vector<int>{0, 2, 7}));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(2)));
  int32_t device = -1;
  EXPECT_TRUE(Succeeds(aclrtGetDevice(&device)));
  EXPECT_EQ(device, 2);
  EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(3)));
}
TEST(DeviceChild, DISABLED_None) {
  EXPECT_EQ(Count(), 0u);
  EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(0)));
}

TEST(Device, CountFollowsTheVisibleOnes) {
  const struct {
    const char* list;
    const char* test;
  } cases[] = {
      {"0", "One"},         {"5", "One"},          {"1,0", "One"},
      {"3,3", "One"},       {"0,x,1", "One"},      {"0, 1", "One"},
      {"0,64", "One"},      {"0,", "One"},         {"0,2,7", "Three"},
      {"0,2,7,7", "Three"}, {"0,2,7,9x", "Three"}, {"", "None"},
      {"-1", "None"},       {"x", "None"},         {" 0", "None"},
      {"64", "None"},       {",0", "None"},
  };
  for (const auto& c : cases) {
    const auto child = RunChild(std::string("DeviceChild.DISABLED_") + c.test,
                                {{"ASCEND_RT_VISIBLE_DEVICES", c.list}});
    EXPECT_TRUE(child.ok()) << "'" << c.list << "'\n" << child.output;
  }
}

// Children, which Device.CountIsThatOfTheEnvironment starts.
TEST(DeviceChild, DISABLED_FourThere) {
  EXPECT_EQ(Count(), 4u);
  EXPECT_EQ(VisibleDevices(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(3)));
  EXPECT_TRUE(FailsWith(107001, aclrtSetDevice(4), "[0, 4)"));
}
TEST(DeviceChild, DISABLED_TwoOfFour) {
  EXPECT_EQ(VisibleDevices(), (std::vector<int>{1, 3}));
}

TEST(Device, CountIsThatOfTheEnvironment) {
  auto child =
      RunChild("DeviceChild.DISABLED_FourThere", {{"FLASHACL_DEVICES", "4"}});
  EXPECT_TRUE(child.ok()) << child.output;
  child = RunChild(
      "DeviceChild.DISABLED_TwoOfFour",
      {{"FLASHACL_DEVICES", "4"}, {"ASCEND_RT_VISIBLE_DEVICES", "1,3,4"}});
  EXPECT_TRUE(child.ok()) << child.output;
  for (const char* value : {"0", "65", "x"}) {
    child = RunChild("DeviceChild.DISABLED_One", {{"FLASHACL_DEVICES", value}});
    EXPECT_TRUE(child.ok()) << value << child.output;
  }
}

}  // namespace
}  // namespace flashacl::acl
