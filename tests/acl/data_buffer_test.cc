// SPDX-License-Identifier: Apache-2.0
// aclDataBuffer keeps an address and a size, and never looks at the memory.
#include <gtest/gtest.h>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

TEST(DataBuffer, KeepsWhatItWasGiven) {
  int data = 0;
  constexpr size_t kSize = (size_t{1} << 32) + 5;
  aclDataBuffer* const buffer = aclCreateDataBuffer(&data, kSize);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(aclGetDataBufferAddr(buffer), &data);
  EXPECT_EQ(aclGetDataBufferSizeV2(buffer), kSize);
  EXPECT_EQ(aclGetDataBufferSize(buffer), 5u);
  EXPECT_TRUE(Succeeds(aclUpdateDataBuffer(buffer, nullptr, 3)));
  EXPECT_EQ(aclGetDataBufferAddr(buffer), nullptr);
  EXPECT_EQ(aclGetDataBufferSizeV2(buffer), 3u);
  EXPECT_TRUE(Succeeds(aclDestroyDataBuffer(buffer)));
}

TEST(DataBuffer, NullForeignAndDestroyedAreErrors) {
  int foreign = 0;
  aclDataBuffer* const destroyed = aclCreateDataBuffer(nullptr, 0);
  ASSERT_TRUE(Succeeds(aclDestroyDataBuffer(destroyed)));
  for (aclDataBuffer* bad :
       {static_cast<aclDataBuffer*>(nullptr),
        reinterpret_cast<aclDataBuffer*>(&foreign), destroyed}) {
    Message();
    EXPECT_TRUE(FailsWith(100000, aclDestroyDataBuffer(bad)));
    EXPECT_TRUE(FailsWith(100000, aclUpdateDataBuffer(bad, &foreign, 4)));
    EXPECT_EQ(aclGetDataBufferAddr(bad), nullptr);
    EXPECT_NE(Message(), "");
    EXPECT_EQ(aclGetDataBufferSize(bad), 0u);
    EXPECT_NE(Message(), "");
    EXPECT_EQ(aclGetDataBufferSizeV2(bad), 0u);
    EXPECT_NE(Message(), "");
  }
}

}  // namespace
}  // namespace flashacl::acl
