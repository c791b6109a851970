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
  EXPECT_TRUE(FailsWith(100000, aclrtDeviceCanAccessPeer(nullptr, 0, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceCanAccessPeer(&can, 0, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceCanAccessPeer(&can, 1, 0)));
  EXPECT_EQ(can, 7);
  EXPECT_TRUE(Succeeds(aclrtDeviceCanAccessPeer(&can, 0, 1)));
  EXPECT_EQ(can, 0);
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceEnablePeerAccess(1, 1), "flags"));
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceEnablePeerAccess(0, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceEnablePeerAccess(1, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceDisablePeerAccess(0)));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceDisablePeerAccess(1)));
  EXPECT_TRUE(FailsWith(100000, aclrtDevicePeerAccessStatus(0, 1, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtDevicePeerAccessStatus(0, 1, &can)));
  EXPECT_TRUE(FailsWith(107000, aclrtDevicePeerAccessStatus(0, 0, &can)));
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

}  // namespace
}  // namespace flashacl::acl
