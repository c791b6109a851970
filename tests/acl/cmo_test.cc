// SPDX-License-Identifier: Apache-2.0
// Cache operations and overflow flags: checked, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "acl/acl.h"
#include "acl/memory.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class CmoTest : public ::flashacl::testing::RuntimeTest {};

TEST_F(CmoTest, CacheOperationsAreCheckedOnly) {
  char bytes[64] = {};
  for (int type = 0; type < 4; ++type) {
    EXPECT_TRUE(Succeeds(
        aclrtCmoAsync(bytes, 64, static_cast<aclrtCmoType>(type), nullptr)));
  }
  const auto unknown = static_cast<aclrtCmoType>(4);
  constexpr auto kPrefetch = ACL_RT_CMO_TYPE_PREFETCH;
  EXPECT_TRUE(
      FailsWith(100000, aclrtCmoAsync(nullptr, 64, kPrefetch, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtCmoAsync(bytes, 0, kPrefetch, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCmoAsync(bytes, 64, unknown, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCmoAsync(bytes, 64, kPrefetch, bytes)));
}

TEST_F(CmoTest, NothingEverOverflows) {
  void* at = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&at, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(at, 64, 7, 64, stream)));
  EXPECT_TRUE(Succeeds(aclrtGetOverflowStatus(at, 64, stream)));
  EXPECT_TRUE(Succeeds(aclrtResetOverflowStatus(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  std::vector<char> read(64, 1);
  EXPECT_TRUE(Succeeds(
      aclrtMemcpy(read.data(), 64, at, 64, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(std::count(read.begin(), read.end(), 0), 64);
  EXPECT_TRUE(FailsWith(100000, aclrtGetOverflowStatus(nullptr, 64, stream)));
  for (const size_t size : {size_t{63}, size_t{65}}) {
    EXPECT_TRUE(FailsWith(107000, aclrtGetOverflowStatus(at, size, stream)));
  }
  Block block;
  ASSERT_TRUE(FindBlock(at, &block));
  std::byte* const late = block.base + block.reserved - 63;
  EXPECT_TRUE(FailsWith(107000, aclrtGetOverflowStatus(late, 64, stream)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtGetOverflowStatus(read.data(), 64, stream)));
  EXPECT_TRUE(FailsWith(107000, aclrtResetOverflowStatus(at)));
  EXPECT_TRUE(Succeeds(aclrtFree(at)));
}

TEST_F(CmoTest, ACaptureHasNoOverflowStatus) {
  void* at = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&at, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  ScopedStream stream;
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(FailsWith(107027, aclrtGetOverflowStatus(at, 64, stream)));
  EXPECT_TRUE(FailsWith(107027, aclrtResetOverflowStatus(stream)));
  EXPECT_TRUE(
      Succeeds(aclrtCmoAsync(at, 64, ACL_RT_CMO_TYPE_PREFETCH, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtFree(at)));
}

}  // namespace
}  // namespace flashacl::acl
