// SPDX-License-Identifier: Apache-2.0
// The stream functions of the C API: every code, every stored value.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class StreamApi : public ::flashacl::testing::RuntimeTest {};

TEST_F(StreamApi, NullOutputsAreRefused) {
  ScopedStream s;
  aclrtStreamAttrValue value{};
  const auto type = ACL_STREAM_ATTR_PRIORITY;
  EXPECT_TRUE(FailsWith(100000, aclrtCreateStream(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtCreateStreamWithConfig(nullptr, 0, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyStream(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyStreamForce(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamQuery(s, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamGetId(s, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamGetPriority(s, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamGetFlags(s, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetStreamAvailableNum(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetStreamAttribute(s, type, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtSetStreamAttribute(s, type, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetStreamOverflowSwitch(s, nullptr)));
  int32_t number = 0;
  EXPECT_TRUE(
      FailsWith(100000, aclrtDeviceGetStreamPriorityRange(nullptr, &number)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtDeviceGetStreamPriorityRange(&number, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtGetStreamAttribute(s, type, &value)));
}

TEST_F(StreamApi, StaleStreamsAreRefusedEverywhere) {
  aclrtStream s = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&s)));
  ASSERT_TRUE(Succeeds(aclrtDestroyStream(s)));
  int32_t id = 0;
  uint32_t number = 0;
  aclrtStreamStatus status{};
  aclrtStreamAttrValue value{};
  const auto type = ACL_STREAM_ATTR_PRIORITY;
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyStream(s)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyStreamForce(s)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStream(s)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStreamWithTimeout(s, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtStreamQuery(s, &status)));
  EXPECT_TRUE(FailsWith(107000, aclrtStreamAbort(s)));
  EXPECT_TRUE(FailsWith(107000, aclrtStreamGetId(s, &id)));
  EXPECT_TRUE(FailsWith(107000, aclrtStreamGetPriority(s, &number)));
  EXPECT_TRUE(FailsWith(107000, aclrtStreamGetFlags(s, &number)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetStreamFailureMode(s, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetStreamAttribute(s, type, &value)));
  EXPECT_TRUE(FailsWith(107000, aclrtGetStreamAttribute(s, type, &value)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetStreamOverflowSwitch(s, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtGetStreamOverflowSwitch(s, &number)));
}

TEST_F(StreamApi, NullIsTheDefaultStream) {
  aclrtStream byname = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCtxGetCurrentDefaultStream(&byname)));
  int32_t a = -1, b = -2;
  EXPECT_TRUE(Succeeds(aclrtStreamGetId(nullptr, &a)));
  EXPECT_TRUE(Succeeds(aclrtStreamGetId(byname, &b)));
  EXPECT_EQ(a, b);
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  EXPECT_TRUE(Succeeds(aclrtStreamQuery(nullptr, &status)));
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  std::thread([] {
    EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeStream(nullptr)));
    uint32_t n = 0;
    EXPECT_TRUE(FailsWith(107002, aclrtStreamGetFlags(nullptr, &n)));
    EXPECT_TRUE(FailsWith(107002, aclrtGetStreamAvailableNum(&n)));
  }).join();
}

TEST_F(StreamApi, AnExplicitStreamNeedsNoContext) {
  ScopedStream stream;
  std::thread([&] {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    aclrtStreamStatus status{};
    EXPECT_TRUE(Succeeds(aclrtStreamQuery(stream, &status)));
  }).join();
}

TEST_F(StreamApi, FlagsAndPriorities) {
  const struct {
    uint32_t priority, flags;
    int code;
    uint32_t stored;
  } cases[] = {
      {0, 0, 0, 0},
      {7, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC, 0, 7},
      {3, ACL_STREAM_HUGE, 0, 3},
      {99, 0x80000000U, 0, 7},
      {0, ACL_STREAM_PERSISTENT, 0, 0},
      {0, ACL_STREAM_CPU_SCHEDULE, 207000, 0},
      {0, ACL_STREAM_DEVICE_USE_ONLY, 207000, 0},
  };
  for (const auto& c : cases) {
    aclrtStream stream = nullptr;
    const aclError got =
        aclrtCreateStreamWithConfig(&stream, c.priority, c.flags);
    if (c.code != 0) {
      EXPECT_TRUE(FailsWith(c.code, got));
      EXPECT_EQ(stream, nullptr);
      continue;
    }
    ASSERT_TRUE(Succeeds(got));
    uint32_t priority = 99, flags = 99;
    EXPECT_TRUE(Succeeds(aclrtStreamGetPriority(stream, &priority)));
    EXPECT_TRUE(Succeeds(aclrtStreamGetFlags(stream, &flags)));
    EXPECT_EQ(priority, c.stored);
    EXPECT_EQ(flags, c.flags);
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  }
  int32_t least = 0, greatest = 1;
  EXPECT_TRUE(Succeeds(aclrtDeviceGetStreamPriorityRange(&least, &greatest)));
  EXPECT_EQ(least, 7);
  EXPECT_EQ(greatest, 0);
}

TEST_F(StreamApi, AttributesAreStored) {
  ScopedStream s;
  const struct {
    aclrtStreamAttr type;
    uint32_t value;
    int code;
  } cases[] = {
      {ACL_STREAM_ATTR_FAILURE_MODE, 1, 0},
      {ACL_STREAM_ATTR_FAILURE_MODE, 2, 107000},
      {ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, 1, 0},
      {ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, 2, 107000},
      {ACL_STREAM_ATTR_USER_CUSTOM_TAG, 0xABCDEF, 0},
      {ACL_STREAM_ATTR_CACHE_OP_INFO, 1, 0},
      {ACL_STREAM_ATTR_CACHE_OP_INFO, 5, 107000},
      {ACL_STREAM_ATTR_PRIORITY, 4, 0},
      {static_cast<aclrtStreamAttr>(0), 0, 107000},
      {static_cast<aclrtStreamAttr>(6), 0, 107000},
  };
  for (const auto& c : cases) {
    aclrtStreamAttrValue in{}, out{};
    in.failureMode = c.value;
    const aclError got = aclrtSetStreamAttribute(s, c.type, &in);
    if (c.code != 0) {
      EXPECT_TRUE(FailsWith(c.code, got)) << c.type;
      continue;
    }
    EXPECT_TRUE(Succeeds(got));
    EXPECT_TRUE(Succeeds(aclrtGetStreamAttribute(s, c.type, &out)));
    EXPECT_EQ(out.userCustomTag, c.value);
  }
  aclrtStreamAttrValue out{};
  EXPECT_TRUE(FailsWith(107000, aclrtGetStreamAttribute(
                                    s, static_cast<aclrtStreamAttr>(9), &out)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetStreamFailureMode(s, 7)));
  EXPECT_TRUE(Succeeds(aclrtSetStreamOverflowSwitch(s, 0)));
  uint32_t overflow = 9;
  EXPECT_TRUE(Succeeds(aclrtGetStreamOverflowSwitch(s, &overflow)));
  EXPECT_EQ(overflow, 0u);
  EXPECT_TRUE(FailsWith(107000, aclrtSetStreamOverflowSwitch(s, 2)));
}

TEST_F(StreamApi, TimeoutsAreChecked) {
  ScopedStream s;
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStreamWithTimeout(s, -2)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(s, -1)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStreamWithTimeout(s, 0)));
}

TEST_F(StreamApi, QueryNeverBlocks) {
  ScopedStream s;
  Latch gate;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      s, [](void* at) { static_cast<Latch*>(at)->Wait(std::nullopt); },
      &gate)));
  aclrtStreamStatus status{};
  EXPECT_TRUE(Succeeds(aclrtStreamQuery(s, &status)));
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(s)));
  EXPECT_TRUE(Succeeds(aclrtStreamQuery(s, &status)));
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(StreamApi, ADeviceHas1984Streams) {
  uint32_t available = 0;
  EXPECT_TRUE(Succeeds(aclrtGetStreamAvailableNum(&available)));
  EXPECT_EQ(available, 1984u);
  std::vector<aclrtStream> streams(available);
  for (aclrtStream& s : streams) ASSERT_TRUE(Succeeds(aclrtCreateStream(&s)));
  aclrtStream more = nullptr;
  EXPECT_TRUE(FailsWith(207008, aclrtCreateStream(&more)));
  EXPECT_TRUE(Succeeds(aclrtGetStreamAvailableNum(&available)));
  EXPECT_EQ(available, 0u);
  EXPECT_EQ(std::set<aclrtStream>(streams.begin(), streams.end()).size(),
            streams.size());
  for (aclrtStream s : streams) EXPECT_TRUE(Succeeds(aclrtDestroyStream(s)));
  EXPECT_TRUE(Succeeds(aclrtGetStreamAvailableNum(&available)));
  EXPECT_EQ(available, 1984u);
}

}  // namespace
}  // namespace flashacl::acl
