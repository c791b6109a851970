// SPDX-License-Identifier: Apache-2.0
// The checked copy below the C API: what Check finds out and Run does with it.
#include "acl/transfer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "acl/memory.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class TransferTest : public RuntimeTest {};

TEST_F(TransferTest, RowsThatTouchAreOneRow) {
  std::vector<std::byte> a(64), b(64);
  Transfer transfer{a.data(), 8, b.data(), 8, 8, 4};
  ASSERT_EQ(Check("f", ACL_MEMCPY_DEFAULT, &transfer), 0);
  EXPECT_EQ(transfer.width, 32u);
  EXPECT_EQ(transfer.height, 1u);
  Transfer apart{a.data(), 9, b.data(), 8, 8, 4};
  ASSERT_EQ(Check("f", ACL_MEMCPY_DEFAULT, &apart), 0);
  EXPECT_EQ(apart.height, 4u);
}

TEST_F(TransferTest, OnlyPageableMemoryWaits) {
  std::byte* const device = AllocateBlock({.size = 64, .reserved = 96});
  std::byte* const host =
      AllocateBlock({.size = 64, .reserved = 64, .kind = BlockKind::kHost});
  std::byte local[64];
  const struct {
    std::byte* dst;
    std::byte* src;
    bool waits;
  } cases[] = {{device, host, false},
               {host, device, false},
               {device, local, true},
               {local, host, true},
               {device + 8, host + 8, false}};
  for (const auto& c : cases) {
    Transfer transfer{c.dst, 8, c.src, 8, 8};
    Locate(&transfer);
    EXPECT_EQ(transfer.waits, c.waits);
  }
  // What is registered does not wait either, as far as it reaches.
  void* mapped = nullptr;
  ASSERT_TRUE(Succeeds(
      aclrtHostRegister(local, 64, ACL_HOST_REGISTER_MAPPED, &mapped)));
  Transfer registered{device, 8, local + 56, 8, 8};
  Locate(&registered);
  EXPECT_FALSE(registered.waits);
  Transfer beyond{device, 8, local + 57, 8, 8};
  Locate(&beyond);
  EXPECT_TRUE(beyond.waits);
  EXPECT_TRUE(Succeeds(aclrtHostUnregister(local)));
  FreeBlock(device, BlockKind::kDevice);
  FreeBlock(host, BlockKind::kHost);
}

TEST_F(TransferTest, WritesAreCheckedAgainstTheBlock) {
  std::byte* const device = AllocateBlock({.size = 64, .reserved = 96});
  EXPECT_EQ(CheckWrite("f", device, 96), 0);
  EXPECT_EQ(CheckWrite("f", device + 90, 6), 0);
  EXPECT_TRUE(FailsWith(107000, CheckWrite("f", device + 90, 7),
                        "write of 7 bytes at offset 90 of a 64-byte"));
  EXPECT_TRUE(FailsWith(107000, CheckWrite("f", device, SIZE_MAX)));
  std::byte local[8];
  EXPECT_EQ(CheckWrite("f", local, 8), 0);
  EXPECT_TRUE(FailsWith(107000, CheckWrite("f", local, SIZE_MAX)));
  FreeBlock(device, BlockKind::kDevice);
}

// Whatever the pitches and the room, each byte that exists is copied, each that
// does not is zero, and no other is touched.
TEST_F(TransferTest, RandomRectanglesAgreeWithTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 200;
    std::byte* const device = AllocateBlock({.size = size, .reserved = size});
    for (size_t i = 0; i < size; ++i) device[i] = std::byte(1 + i % 250);
    const size_t width = 1 + random() % 40;
    const size_t height = 1 + random() % 8;
    const size_t src_pitch = width + random() % 3;
    const size_t dst_pitch = width + random() % 3;
    const size_t start = random() % size;
    std::vector<std::byte> got(dst_pitch * height + 8, std::byte{255});
    Transfer transfer{got.data(), dst_pitch, device + start,
                      src_pitch,  width,     height};
    ASSERT_EQ(Check("f", ACL_MEMCPY_DEVICE_TO_HOST, &transfer), 0);
    ASSERT_EQ(acl::Run("copy", transfer), 0);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / dst_pitch;
      const size_t at = start + row * src_pitch + i % dst_pitch;
      std::byte expected{255};
      if (row < height && i % dst_pitch < width) {
        expected = at < size ? device[at] : std::byte{0};
      }
      ASSERT_EQ(got[i], expected) << "round " << round << " byte " << i;
    }
    FreeBlock(device, BlockKind::kDevice);
  }
}

TEST_F(TransferTest, SubmittedCopiesRunInOrder) {
  std::byte* const host =
      AllocateBlock({.size = 64, .reserved = 64, .kind = BlockKind::kHost});
  std::byte* const device = AllocateBlock({.size = 64, .reserved = 64});
  host[0] = std::byte{1};
  const Transfer there{device, 1, host, 1, 1};
  const Transfer back{host + 1, 1, device, 1, 1};
  const Transfer both[] = {there, back};
  EXPECT_TRUE(Succeeds(Submit("f", both, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_EQ(host[1], std::byte{1});
  FreeBlock(device, BlockKind::kDevice);
  FreeBlock(host, BlockKind::kHost);
}

}  // namespace
}  // namespace flashacl::acl
