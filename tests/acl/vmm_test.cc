// SPDX-License-Identifier: Apache-2.0
// Reserved addresses, physical memory and mappings, as framework allocators use
// them.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/memory.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

constexpr size_t kPage = kHugePageBytes;

aclrtPhysicalMemProp OnDevice() {
  aclrtPhysicalMemProp prop = {};
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

class VmmTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(
        Succeeds(aclrtReserveMemAddress(&space_, 4 * kPage, 0, nullptr, 1)));
    base_ = static_cast<char*>(space_);
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtReleaseMemAddress(space_)));
    RuntimeTest::TearDown();
  }

  static aclrtDrvMemHandle Memory(size_t pages) {
    aclrtDrvMemHandle handle = nullptr;
    const aclrtPhysicalMemProp prop = OnDevice();
    EXPECT_TRUE(
        Succeeds(aclrtMallocPhysical(&handle, pages * kPage, &prop, 0)));
    return handle;
  }

  void* space_ = nullptr;
  char* base_ = nullptr;
};

TEST_F(VmmTest, NeighbouringMappingsActAsOneBlock) {
  aclrtDrvMemHandle one = Memory(1);
  aclrtDrvMemHandle two = Memory(1);
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_, kPage, 0, one, 0)));
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_ + kPage, kPage, 0, two, 0)));
  std::vector<char> sent(2 * kPage, 'x');
  EXPECT_TRUE(Succeeds(aclrtMemcpy(base_, 2 * kPage, sent.data(), 2 * kPage,
                                   ACL_MEMCPY_HOST_TO_DEVICE)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtMemcpy(base_ + 1, 2 * kPage, sent.data(),
                                    2 * kPage, ACL_MEMCPY_HOST_TO_DEVICE)));
  std::vector<char> got(3 * kPage, 'y');
  EXPECT_TRUE(Succeeds(aclrtMemcpy(got.data(), got.size(), base_, got.size(),
                                   ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(std::memcmp(got.data(), sent.data(), 2 * kPage), 0);
  EXPECT_EQ(got[2 * kPage], 0);
  aclrtPtrAttributes attributes;
  ASSERT_TRUE(Succeeds(aclrtPointerGetAttributes(base_ + 5, &attributes)));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_TRUE(FailsWith(107000, aclrtFree(base_)));
  EXPECT_TRUE(FailsWith(107000, aclrtReleaseMemAddress(base_), "mapped"));
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_)));
  EXPECT_TRUE(FailsWith(107000, aclrtReleaseMemAddress(base_), "mapped"));
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_ + kPage)));
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(one)));
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(two)));
}

TEST_F(VmmTest, MappingsApartAreBlocksOfTheirOwn) {
  aclrtDrvMemHandle memory = Memory(1);
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_, kPage, 0, memory, 0)));
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_ + 2 * kPage, kPage, 0, memory, 0)));
  base_[2 * kPage] = 'x';
  std::vector<char> host(kPage + 1, 'y');
  EXPECT_TRUE(
      FailsWith(107000, aclrtMemcpy(base_, host.size(), host.data(),
                                    host.size(), ACL_MEMCPY_HOST_TO_DEVICE)));
  // The second row lies in the other block: what is past the end reads as 0.
  ASSERT_TRUE(Succeeds(aclrtMemcpy2d(host.data(), 8, base_, 2 * kPage, 8, 2,
                                     ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(host[0], 'x');
  EXPECT_EQ(host[8], 0);
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_)));
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_ + 2 * kPage)));
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory)));
}

TEST_F(VmmTest, MemoryKeepsItsContentWhereverItIsMapped) {
  size_t free_before = 0, free_now = 0, total = 0;
  ASSERT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total)));
  aclrtDrvMemHandle memory = Memory(1);
  ASSERT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total)));
  EXPECT_EQ(free_now + kPage, free_before);
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_, kPage, 0, memory, 0)));
  base_[7] = 'a';
  ASSERT_TRUE(Succeeds(aclrtUnmapMem(base_)));
  EXPECT_EQ(base_[7], 0);  // addresses without memory read as zeros
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_ + 2 * kPage, kPage, 0, memory, 0)));
  EXPECT_EQ(base_[2 * kPage + 7], 'a');
  // Freed, it lives until it is unmapped.
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory)));
  EXPECT_EQ(base_[2 * kPage + 7], 'a');
  ASSERT_TRUE(Succeeds(aclrtUnmapMem(base_ + 2 * kPage)));
  ASSERT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total)));
  EXPECT_EQ(free_now, free_before);
}

TEST_F(VmmTest, QueuedWorkSurvivesUnmappingAndReleasing) {
  void* other = nullptr;
  ASSERT_TRUE(Succeeds(aclrtReserveMemAddress(&other, kPage, 0, nullptr, 0)));
  aclrtDrvMemHandle memory = Memory(1);
  ASSERT_TRUE(Succeeds(aclrtMapMem(other, kPage, 0, memory, 0)));
  const void* const address = other;
  {
    const BlockUse use({&address, 1});
    ASSERT_TRUE(Succeeds(aclrtUnmapMem(other)));
    ASSERT_TRUE(Succeeds(aclrtReleaseMemAddress(other)));
    static_cast<char*>(other)[0] = 1;
  }
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory)));
}

TEST_F(VmmTest, EveryCodeOfReserving) {
  void* p = nullptr;
  EXPECT_TRUE(
      FailsWith(100000, aclrtReserveMemAddress(nullptr, kPage, 0, nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtReserveMemAddress(&p, 0, 0, nullptr, 0)));
  EXPECT_TRUE(FailsWith(
      107000, aclrtReserveMemAddress(&p, kPage, 3, nullptr, 0), "power"));
  EXPECT_TRUE(
      FailsWith(207001, aclrtReserveMemAddress(&p, SIZE_MAX, 0, nullptr, 0)));
  EXPECT_EQ(p, nullptr);
  constexpr size_t kAlignment = size_t{64} << 20;
  ASSERT_TRUE(Succeeds(aclrtReserveMemAddress(&p, 1, kAlignment, nullptr, 0)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kAlignment, 0u);
  EXPECT_TRUE(FailsWith(100000, aclrtReleaseMemAddress(nullptr)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtReleaseMemAddress(static_cast<char*>(p) + 1)));
  EXPECT_TRUE(Succeeds(aclrtReleaseMemAddress(p)));
  EXPECT_TRUE(FailsWith(107000, aclrtReleaseMemAddress(p)));
}

TEST_F(VmmTest, EveryCodeOfPhysicalMemory) {
  aclrtDrvMemHandle handle = nullptr;
  aclrtPhysicalMemProp prop = OnDevice();
  EXPECT_TRUE(FailsWith(100000, aclrtMallocPhysical(nullptr, kPage, &prop, 0)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtMallocPhysical(&handle, kPage, nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtMallocPhysical(&handle, 0, &prop, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMallocPhysical(&handle, 1, &prop, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMallocPhysical(&handle, kPage, &prop, 1)));
  EXPECT_TRUE(
      FailsWith(207001, aclrtMallocPhysical(&handle, kPage << 30, &prop, 0)));
  prop.location.id = 99;
  EXPECT_TRUE(FailsWith(107001, aclrtMallocPhysical(&handle, kPage, &prop, 0)));
  prop.location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
  EXPECT_TRUE(FailsWith(107000, aclrtMallocPhysical(&handle, kPage, &prop, 0)));
  EXPECT_EQ(handle, nullptr);
  EXPECT_TRUE(FailsWith(100000, aclrtFreePhysical(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtFreePhysical(&prop)));
  handle = Memory(1);
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(handle)));
  EXPECT_TRUE(FailsWith(107000, aclrtFreePhysical(handle)));
}

TEST_F(VmmTest, EveryCodeOfMapping) {
  aclrtDrvMemHandle memory = Memory(2);
  EXPECT_TRUE(FailsWith(100000, aclrtMapMem(nullptr, kPage, 0, memory, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtMapMem(base_, kPage, 0, nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtMapMem(base_, 0, 0, memory, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_, kPage, 1, memory, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_, kPage, 0, memory, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_, kPage, 0, base_, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_, 3 * kPage, 0, memory, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_, 4096, 0, memory, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMapMem(base_ + 64, kPage, 0, memory, 0)));
  EXPECT_TRUE(FailsWith(107000,
                        aclrtMapMem(base_ + 3 * kPage, 2 * kPage, 0, memory, 0),
                        "reserved addresses"));
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_ + kPage, 2 * kPage, 0, memory, 0)));
  for (const size_t page : {0, 1, 2}) {
    EXPECT_TRUE(FailsWith(
        107000, aclrtMapMem(base_ + page * kPage, 2 * kPage, 0, memory, 0)));
  }
  EXPECT_TRUE(FailsWith(100000, aclrtUnmapMem(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtUnmapMem(base_)));
  EXPECT_TRUE(FailsWith(107000, aclrtUnmapMem(base_ + 2 * kPage)));
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_ + kPage)));
  EXPECT_TRUE(FailsWith(107000, aclrtUnmapMem(base_ + kPage)));
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory)));
}

TEST_F(VmmTest, GranularityAndAccess) {
  aclrtPhysicalMemProp prop = OnDevice();
  size_t granularity = 0;
  const auto minimum = ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM;
  EXPECT_TRUE(FailsWith(100000, aclrtMemGetAllocationGranularity(
                                    nullptr, minimum, &granularity)));
  EXPECT_TRUE(FailsWith(
      100000, aclrtMemGetAllocationGranularity(&prop, minimum, nullptr)));
  EXPECT_TRUE(FailsWith(
      107000, aclrtMemGetAllocationGranularity(
                  &prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &granularity)));
  ASSERT_TRUE(
      Succeeds(aclrtMemGetAllocationGranularity(&prop, minimum, &granularity)));
  EXPECT_EQ(granularity, kPage);
  aclrtDrvMemHandle memory = Memory(1);
  ASSERT_TRUE(Succeeds(aclrtMapMem(base_, kPage, 0, memory, 0)));
  aclrtMemAccessDesc desc = {};
  desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
  EXPECT_TRUE(FailsWith(100000, aclrtMemSetAccess(nullptr, kPage, &desc, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemSetAccess(base_, kPage, nullptr, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemSetAccess(base_, 0, &desc, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemSetAccess(base_, kPage, &desc, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMemSetAccess(base_, 2 * kPage, &desc, 1)));
  EXPECT_TRUE(Succeeds(aclrtMemSetAccess(base_, kPage, &desc, 1)));
  EXPECT_TRUE(Succeeds(aclrtUnmapMem(base_)));
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory)));
}

}  // namespace
}  // namespace flashacl::acl
