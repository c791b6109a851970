// SPDX-License-Identifier: Apache-2.0
// Filling memory: every code, and what is written.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class MemsetTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtMalloc(&device_, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
    ASSERT_TRUE(Succeeds(aclrtMemset(device_, 96, 0, 96)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtFree(device_)));
    RuntimeTest::TearDown();
  }

  std::vector<unsigned char> Read(size_t bytes) {
    std::vector<unsigned char> got(bytes);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    EXPECT_TRUE(Succeeds(aclrtMemcpy(got.data(), bytes, device_, bytes,
                                     ACL_MEMCPY_DEVICE_TO_HOST)));
    return got;
  }

  void* device_ = nullptr;
};

aclError Fill(bool async, void* p, size_t max, int32_t value, size_t count) {
  return async ? aclrtMemsetAsync(p, max, value, count, nullptr)
               : aclrtMemset(p, max, value, count);
}

aclError FillWords(bool async, void* p, size_t max, uint32_t value,
                   size_t words) {
  return async ? aclrtMemsetD32Async(p, max, value, words, nullptr)
               : aclrtMemsetD32(p, max, value, words);
}

TEST_F(MemsetTest, EveryCode) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async);
    EXPECT_TRUE(Succeeds(Fill(async, nullptr, 0, 1, 0)));
    EXPECT_TRUE(FailsWith(100000, Fill(async, nullptr, 8, 1, 8), "devPtr"));
    EXPECT_TRUE(FailsWith(107000, Fill(async, device_, 7, 1, 8), "maxCount"));
    EXPECT_TRUE(FailsWith(107000, Fill(async, device_, 97, 1, 97), "write"));
    std::thread([&] {
      EXPECT_TRUE(FailsWith(107002, Fill(async, device_, 8, 1, 8)));
    }).join();
    EXPECT_EQ(Read(96), std::vector<unsigned char>(96, 0));
    EXPECT_TRUE(Succeeds(Fill(async, device_, 64, 0x1234, 64)));
    EXPECT_EQ(Read(64), std::vector<unsigned char>(64, 0x34));
    EXPECT_TRUE(Succeeds(Fill(async, device_, 96, 0, 96)));
    std::vector<unsigned char> local(8, 1);
    EXPECT_TRUE(Succeeds(Fill(async, local.data(), 8, 9, 8)));
    EXPECT_EQ(local, std::vector<unsigned char>(8, 9));
  }
}

TEST_F(MemsetTest, EveryCodeOfWords) {
  char* const bytes = static_cast<char*>(device_);
  alignas(4) char local[16];
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async);
    EXPECT_TRUE(FailsWith(100000, FillWords(async, nullptr, 8, 1, 1)));
    EXPECT_TRUE(FailsWith(100000, FillWords(async, bytes + 2, 8, 1, 1),
                          "multiple of 4"));
    EXPECT_TRUE(FailsWith(100000, FillWords(async, device_, 8, 1, 3), "num"));
    EXPECT_TRUE(
        FailsWith(100000, FillWords(async, local, 16, 1, 1), "device memory"));
    EXPECT_TRUE(FailsWith(100000, FillWords(async, device_, 400, 1, 100)));
    // Of the 96 bytes there are 24 words, and no more.
    EXPECT_TRUE(FailsWith(100000, FillWords(async, device_, 400, 1, 25)));
    EXPECT_TRUE(Succeeds(FillWords(async, device_, 400, 0, 24)));
    EXPECT_TRUE(
        FailsWith(100000, FillWords(async, device_, 8, 1, SIZE_MAX / 2)));
    std::thread([&] {
      EXPECT_TRUE(FailsWith(107002, FillWords(async, device_, 8, 1, 1)));
    }).join();
    EXPECT_EQ(Read(96), std::vector<unsigned char>(96, 0));
    EXPECT_TRUE(Succeeds(FillWords(async, device_, 64, 0x01020304, 0)));
    EXPECT_TRUE(Succeeds(FillWords(async, bytes + 4, 60, 0x01020304, 2)));
    const auto got = Read(16);
    const std::vector<unsigned char> expected = {0, 0, 0, 0, 4, 3, 2, 1,
                                                 4, 3, 2, 1, 0, 0, 0, 0};
    EXPECT_EQ(got, expected);
    EXPECT_TRUE(Succeeds(Fill(async, device_, 96, 0, 96)));
  }
}

}  // namespace
}  // namespace flashacl::acl
