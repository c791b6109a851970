// SPDX-License-Identifier: Apache-2.0
// Peers and device numbers, with one device and with several.
#include <gtest/gtest.h>

#include <thread>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class PeerTest : public RuntimeTest {};

TEST_F(PeerTest, OneDeviceHasNoPeers) {
  int32_t can = 7;
  uint64_t topology = 7;
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceCanAccessPeer(nullptr, 0, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceCanAccessPeer(&can, 0, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceCanAccessPeer(&can, 1, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceCanAccessPeer(&can, 0, 1)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceCanAccessPeer(&can, 0, -1)));
  EXPECT_TRUE(FailsWith(200006, aclrtDeviceEnablePeerAccess(1, 1), "flags"));
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceEnablePeerAccess(0, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceEnablePeerAccess(1, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceDisablePeerAccess(0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceDisablePeerAccess(1)));
  EXPECT_TRUE(FailsWith(100000, aclrtDevicePeerAccessStatus(0, 1, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtDevicePeerAccessStatus(0, 1, &can)));
  EXPECT_TRUE(FailsWith(107000, aclrtDevicePeerAccessStatus(1, 0, &can)));
  EXPECT_TRUE(FailsWith(107000, aclrtDevicePeerAccessStatus(0, 0, &can)));
  EXPECT_EQ(can, 7);
  EXPECT_TRUE(FailsWith(100000, aclrtGetDevicesTopo(0, 0, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetDevicesTopo(0, 1, &topology)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetDevicesTopo(1, 0, &topology)));
  EXPECT_EQ(topology, 7u);
  std::thread([] {
    EXPECT_TRUE(FailsWith(107002, aclrtDeviceEnablePeerAccess(0, 0)));
    EXPECT_TRUE(FailsWith(107002, aclrtDeviceDisablePeerAccess(0)));
  }).join();
}

using Mapping = aclError (*)(int32_t, int32_t*);
const Mapping kMappings[] = {
    aclrtGetLogicDevIdByUserDevId, aclrtGetUserDevIdByLogicDevId,
    aclrtGetPhyDevIdByLogicDevId,  aclrtGetLogicDevIdByPhyDevId,
    aclrtGetPhyDevIdByUserDevId,   aclrtGetUserDevIdByPhyDevId};

TEST_F(PeerTest, OneDeviceIsNumberZeroEverywhere) {
  for (const Mapping mapping : kMappings) {
    int32_t id = 7;
    EXPECT_TRUE(FailsWith(100000, mapping(0, nullptr)));
    EXPECT_TRUE(FailsWith(107001, mapping(1, &id)));
    EXPECT_TRUE(FailsWith(107001, mapping(-1, &id)));
    EXPECT_EQ(id, 7);
    EXPECT_TRUE(Succeeds(mapping(0, &id)));
    EXPECT_EQ(id, 0);
  }
}

// A child, which Peer.SeveralDevicesReachEachOther starts.
TEST(PeerChild, DISABLED_Several) {
  const int32_t from[] = {1, 5, 5, 5, 1, 5};
  const int32_t to[] = {5, 1, 5, 5, 5, 1};
  for (int i = 0; i < 6; ++i) {
    int32_t id = 7;
    EXPECT_TRUE(Succeeds(kMappings[i](from[i], &id))) << i;
    EXPECT_EQ(id, to[i]) << i;
  }
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  int32_t answer = 0;
  EXPECT_TRUE(Succeeds(aclrtDeviceCanAccessPeer(&answer, 0, 1)));
  EXPECT_EQ(answer, 1);
  EXPECT_TRUE(Succeeds(aclrtDevicePeerAccessStatus(0, 1, &answer)));
  EXPECT_EQ(answer, 0);
  EXPECT_TRUE(Succeeds(aclrtDeviceEnablePeerAccess(1, 0)));
  EXPECT_TRUE(Succeeds(aclrtDevicePeerAccessStatus(0, 1, &answer)));
  EXPECT_EQ(answer, 1);
  EXPECT_TRUE(Succeeds(aclrtDeviceDisablePeerAccess(1)));
  EXPECT_TRUE(Succeeds(aclrtDevicePeerAccessStatus(0, 1, &answer)));
  EXPECT_EQ(answer, 0);
}

TEST(Peer, SeveralDevicesReachEachOther) {
  const auto child = RunChild("PeerChild.DISABLED_Several",
                              {{"ASCEND_RT_VISIBLE_DEVICES", "4,5"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// Children, which Peer.CopiesBetweenDevices starts: what a program with several
// devices does.
void FillAndCopy(int32_t from, int32_t to) {
  constexpr size_t kBytes = 4096;
  void* block[2] = {};
  ASSERT_TRUE(Succeeds(aclrtSetDevice(from)));
  EXPECT_TRUE(Succeeds(aclrtDeviceEnablePeerAccess(to, 0)));
  EXPECT_TRUE(Succeeds(aclrtDeviceEnablePeerAccess(to, 0)));
  ASSERT_TRUE(
      Succeeds(aclrtMalloc(&block[0], kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  aclrtStream producer = nullptr, consumer = nullptr;
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&producer)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)));
  EXPECT_TRUE(
      Succeeds(aclrtMemsetAsync(block[0], kBytes, 5, kBytes, producer)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, producer)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(to)));
  ASSERT_TRUE(
      Succeeds(aclrtMalloc(&block[1], kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&consumer)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(consumer, event)));
  EXPECT_TRUE(
      Succeeds(aclrtMemcpyAsync(block[1], kBytes, block[0], kBytes,
                                ACL_MEMCPY_DEVICE_TO_DEVICE, consumer)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(consumer)));
  char read[kBytes] = {};
  EXPECT_TRUE(Succeeds(
      aclrtMemcpy(read, kBytes, block[1], kBytes, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(read[0], 5);
  EXPECT_EQ(read[kBytes - 1], 5);
  aclrtPtrAttributes attributes{};
  EXPECT_TRUE(Succeeds(aclrtPointerGetAttributes(block[1], &attributes)));
  EXPECT_EQ(attributes.location.id, static_cast<uint32_t>(to));
  for (void* at : block) EXPECT_TRUE(Succeeds(aclrtFree(at)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(producer)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(consumer)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(from)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(to)));
}

// A child, which Peer.CopiesBetweenDevices starts.
TEST(PeerChild, DISABLED_Copies) {
  uint32_t count = 0;
  EXPECT_TRUE(Succeeds(aclrtGetDeviceCount(&count)));
  EXPECT_EQ(count, 3u);
  for (int32_t from = 0; from < 3; ++from) {
    for (int32_t to = 0; to < 3; ++to) {
      int32_t can = 0;
      uint64_t topology = 0;
      EXPECT_TRUE(Succeeds(aclrtGetDevicesTopo(
          static_cast<uint32_t>(from), static_cast<uint32_t>(to), &topology)));
      EXPECT_EQ(topology, ACL_RT_DEVS_TOPOLOGY_HCCS);
      if (from == to) continue;
      EXPECT_TRUE(Succeeds(aclrtDeviceCanAccessPeer(&can, from, to)));
      EXPECT_EQ(can, 1);
      FillAndCopy(from, to);
    }
  }
  std::thread other([] { FillAndCopy(2, 0); });
  FillAndCopy(0, 1);
  other.join();
}

TEST(Peer, CopiesBetweenDevices) {
  const auto child =
      RunChild("PeerChild.DISABLED_Copies", {{"FLASHACL_DEVICES", "3"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
