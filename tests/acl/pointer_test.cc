// SPDX-License-Identifier: Apache-2.0
// What the runtime says of pointers and of the memory that is left.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class PointerTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtMalloc(&device_, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
    ASSERT_TRUE(Succeeds(aclrtMallocHost(&host_, 64)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtFree(device_)));
    EXPECT_TRUE(Succeeds(aclrtFreeHost(host_)));
    RuntimeTest::TearDown();
  }

  void* device_ = nullptr;
  void* host_ = nullptr;
  int local_ = 0;
};

TEST_F(PointerTest, AttributesTellWhereItPoints) {
  const struct {
    const void* p;
    aclrtMemLocationType type;
    uint32_t page;
  } cases[] = {
      {device_, ACL_MEM_LOCATION_TYPE_DEVICE, 4096},
      {static_cast<char*>(device_) + 63, ACL_MEM_LOCATION_TYPE_DEVICE, 4096},
      {host_, ACL_MEM_LOCATION_TYPE_HOST, 4096},
      {&local_, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0}};
  for (const auto& c : cases) {
    aclrtPtrAttributes attributes;
    attributes.rsv[3] = 7;
    attributes.location.id = 7;
    ASSERT_TRUE(Succeeds(aclrtPointerGetAttributes(c.p, &attributes)));
    EXPECT_EQ(attributes.location.type, c.type);
    EXPECT_EQ(attributes.location.id, 0u);
    EXPECT_EQ(attributes.pageSize, c.page);
    EXPECT_EQ(attributes.rsv[3], 0u);
  }
  aclrtPtrAttributes attributes;
  EXPECT_TRUE(
      FailsWith(100000, aclrtPointerGetAttributes(nullptr, &attributes)));
  EXPECT_TRUE(FailsWith(100000, aclrtPointerGetAttributes(device_, nullptr)));
}

TEST_F(PointerTest, CheckMemType) {
  void* both[] = {device_, static_cast<char*>(device_) + 8};
  void* mixed[] = {device_, host_};
  uint32_t result = 7;
  const uint32_t dev = ACL_RT_MEM_TYPE_DEV;
  EXPECT_TRUE(
      FailsWith(100000, aclrtCheckMemType(nullptr, 2, dev, &result, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCheckMemType(both, 2, dev, nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCheckMemType(both, 0, dev, &result, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCheckMemType(both, 2, 0, &result, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCheckMemType(both, 2, 1, &result, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCheckMemType(both, 2, dev, &result, 1)));
  EXPECT_EQ(result, 7u);
  EXPECT_TRUE(Succeeds(aclrtCheckMemType(both, 2, dev, &result, 0)));
  EXPECT_EQ(result, 1u);
  EXPECT_TRUE(Succeeds(aclrtCheckMemType(mixed, 2, dev, &result, 0)));
  EXPECT_EQ(result, 0u);
  EXPECT_TRUE(
      Succeeds(aclrtCheckMemType(both, 2, ACL_RT_MEM_TYPE_DVPP, &result, 0)));
  EXPECT_EQ(result, 0u);
}

TEST_F(PointerTest, FlushAndInvalidateOnlyCheck) {
  for (auto* call : {aclrtMemFlush, aclrtMemInvalidate}) {
    EXPECT_TRUE(FailsWith(100000, call(nullptr, 8)));
    EXPECT_TRUE(FailsWith(100000, call(device_, 0)));
    EXPECT_TRUE(Succeeds(call(device_, 8)));
  }
}

TEST_F(PointerTest, MemInfoFollowsAllocations) {
  size_t before = 0, during = 0, total = 0;
  EXPECT_TRUE(FailsWith(100000, aclrtGetMemInfo(ACL_DDR_MEM, nullptr, &total)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtGetMemInfo(ACL_DDR_MEM, &before, nullptr)));
  for (const int bad : {-1, 18}) {
    EXPECT_TRUE(FailsWith(
        100000,
        aclrtGetMemInfo(static_cast<aclrtMemAttr>(bad), &before, &total)));
  }
  std::thread([&] {
    EXPECT_TRUE(
        FailsWith(107002, aclrtGetMemInfo(ACL_HBM_MEM, &before, &total)));
  }).join();
  EXPECT_EQ(total, 0u);
  for (int attr = 0; attr <= 17; ++attr) {
    ASSERT_TRUE(Succeeds(
        aclrtGetMemInfo(static_cast<aclrtMemAttr>(attr), &before, &total)));
    EXPECT_GT(before, 0u);
    EXPECT_LE(before, total);
  }
  void* p = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &during, &total)));
  EXPECT_EQ(during, before - (1 << 20) - 32);
  ASSERT_TRUE(Succeeds(aclrtFree(p)));
  ASSERT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &during, &total)));
  EXPECT_EQ(during, before);
}

}  // namespace
}  // namespace flashacl::acl
