// SPDX-License-Identifier: Apache-2.0
// The table of blocks: who an address belongs to, and how long memory lives.
#include "acl/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/testing/child.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::RunChild;

std::byte* Device(size_t size, bool huge = false) {
  return AllocateBlock({.size = size,
                        .reserved = size + 32,
                        .kind = BlockKind::kDevice,
                        .huge = huge});
}

// All sizes from one byte to several huge pages are aligned, and readable for
// as long as a vector load at the end may reach.
TEST(Memory, BlocksAreAlignedZeroBehindAndReadableBeyond) {
  for (const size_t size : {size_t{1}, size_t{64}, size_t{4095}, size_t{4096},
                            (size_t{1} << 20) + 1, kHugePageBytes - 96,
                            kHugePageBytes, 3 * kHugePageBytes + 5}) {
    for (const bool huge : {false, true}) {
      SCOPED_TRACE(size);
      std::byte* const base = Device(size, huge);
      ASSERT_NE(base, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);
      std::memset(base, 0xFF, size);
      for (size_t i = size; i < size + 32 + kSlackBytes; ++i) {
        ASSERT_EQ(base[i], std::byte{0}) << i - size;
      }
      EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
    }
  }
}

TEST(Memory, AnAddressBelongsToTheBlockItLiesIn) {
  std::byte* const base = Device(100);
  Block block;
  for (const size_t offset : {0, 1, 99, 100, 131}) {
    ASSERT_TRUE(FindBlock(base + offset, &block)) << offset;
    EXPECT_EQ(block.base, base);
    EXPECT_EQ(block.size, 100u);
    EXPECT_EQ(block.reserved, 132u);
    EXPECT_TRUE(block.device());
  }
  EXPECT_FALSE(FindBlock(base + 132, &block));
  EXPECT_FALSE(FindBlock(base - 1, &block));
  EXPECT_FALSE(FindBlock(nullptr, &block));
  int local = 0;
  EXPECT_FALSE(FindBlock(&local, &block));
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
  EXPECT_FALSE(FindBlock(base, &block));
}

TEST(Memory, OnlyTheBaseOfTheRightKindIsFreed) {
  std::byte* const base = Device(100);
  EXPECT_EQ(FreeBlock(base + 1, BlockKind::kDevice), FreeResult::kInterior);
  EXPECT_EQ(FreeBlock(base, BlockKind::kHost), FreeResult::kKind);
  EXPECT_EQ(FreeBlock(base - 4096, BlockKind::kDevice), FreeResult::kUnknown);
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kUnknown);
}

TEST(Memory, AUseKeepsAFreedBlockAlive) {
  const size_t before = FreeDeviceBytes();
  std::byte* const base = Device(kHugePageBytes, true);
  std::memset(base, 7, kHugePageBytes);
  const void* const addresses[] = {nullptr, base + 5, &before};
  {
    BlockUse use(addresses);
    EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
    Block block;
    EXPECT_FALSE(FindBlock(base, &block));
    const BlockUse copy = use;
    use = BlockUse();
    EXPECT_EQ(base[kHugePageBytes - 1], std::byte{7});
    EXPECT_LT(FreeDeviceBytes(), before);
  }
  EXPECT_EQ(FreeDeviceBytes(), before);
}

TEST(Memory, TheDeviceHasSoMuchAndNoMore) {
  const size_t before = FreeDeviceBytes();
  EXPECT_LE(before, DeviceBytes());
  EXPECT_LE(DeviceBytes(), size_t{64} << 30);
  EXPECT_EQ(Device(DeviceBytes()), nullptr);
  EXPECT_EQ(Device(SIZE_MAX - 64), nullptr);
  EXPECT_EQ(Device(SIZE_MAX), nullptr);
  EXPECT_EQ(FreeDeviceBytes(), before);
  EXPECT_FALSE(TakeDeviceBytes(before + 1));
  ASSERT_TRUE(TakeDeviceBytes(before));
  EXPECT_EQ(FreeDeviceBytes(), 0u);
  EXPECT_EQ(Device(1), nullptr);
  // The host's memory is another.
  std::byte* const host =
      AllocateBlock({.size = 8, .reserved = 32, .kind = BlockKind::kHost});
  EXPECT_NE(host, nullptr);
  EXPECT_EQ(FreeBlock(host, BlockKind::kHost), FreeResult::kFreed);
  ReturnDeviceBytes(before);
  EXPECT_EQ(FreeDeviceBytes(), before);
}

TEST(Memory, NeighbouringMappedBlocksAreOneFromWhereOneLooks) {
  std::byte* const base = Device(3 * 4096);  // addresses nobody else has
  ASSERT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
  const BlockRequest page = {.size = 4096, .kind = BlockKind::kMapped};
  ASSERT_TRUE(AddMapped(base, page, nullptr));
  ASSERT_TRUE(AddMapped(base + 4096, page, nullptr));
  EXPECT_FALSE(AddMapped(base + 2048, page, nullptr));
  EXPECT_FALSE(AddMapped(base, page, nullptr));
  Block block;
  ASSERT_TRUE(FindBlock(base + 10, &block));
  EXPECT_EQ(block.base, base);
  EXPECT_EQ(block.reserved, 8192u);
  ASSERT_TRUE(FindBlock(base + 5000, &block));
  EXPECT_EQ(block.base, base + 4096);
  EXPECT_EQ(block.reserved, 4096u);
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kKind);
  size_t size = 0;
  EXPECT_FALSE(RemoveMapped(base + 1, BlockKind::kMapped, &size));
  EXPECT_TRUE(RemoveMapped(base, BlockKind::kMapped, &size));
  EXPECT_EQ(size, 4096u);
  EXPECT_TRUE(RemoveMapped(base + 4096, BlockKind::kMapped, &size));
  EXPECT_FALSE(RemoveMapped(base, BlockKind::kMapped, &size));
}

// However blocks come and go, an address is found exactly while its block
// lives.
TEST(Memory, RandomBlocksNeverOverlap) {
  std::mt19937 random(20260101);
  std::set<std::byte*> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() < 40 || random() % 2 == 0) {
      const size_t size = 1 + random() % (random() % 50 == 0 ? 4000000 : 500);
      std::byte* const base = Device(size);
      ASSERT_NE(base, nullptr);
      ASSERT_TRUE(live.insert(base).second);
      Block block;
      ASSERT_TRUE(FindBlock(base + random() % size, &block));
      ASSERT_EQ(block.base, base);
      continue;
    }
    auto victim = live.begin();
    std::advance(victim, random() % live.size());
    ASSERT_EQ(FreeBlock(*victim, BlockKind::kDevice), FreeResult::kFreed);
    ASSERT_EQ(FreeBlock(*victim, BlockKind::kDevice), FreeResult::kUnknown);
    live.erase(victim);
  }
  for (std::byte* base : live) FreeBlock(base, BlockKind::kDevice);
}

TEST(Memory, ThreadsAllocateFindAndFreeAtOnce) {
  const size_t before = FreeDeviceBytes();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong] {
      for (int i = 0; i < 500; ++i) {
        std::byte* const base = Device(100);
        const void* const address = base + 50;
        const BlockUse use({&address, 1});
        Block block;
        if (!FindBlock(address, &block) || block.base != base) ++wrong;
        if (FreeBlock(base, BlockKind::kDevice) != FreeResult::kFreed) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(FreeDeviceBytes(), before);
}

// Where each range lies, in order; ranges without bytes are not told of.
std::vector<Placement> Placements(std::vector<ByteRange> ranges) {
  std::vector<Placement> placements;
  const BlockUse use(ranges, [&](size_t, Placement at, const Block* block) {
    EXPECT_EQ(block == nullptr, at == Placement::kUnknown);
    placements.push_back(at);
  });
  return placements;
}

TEST(Memory, ARangeLiesInOneBlock) {
  using enum Placement;
  std::byte* const base = Device(100);
  const std::byte local{0};
  EXPECT_EQ(Placements({{base, 100},
                        {base + 99, 33},
                        {nullptr, 5},
                        {base, 0},
                        {base + 99, 34},
                        {base, SIZE_MAX},
                        {base + 131, 1},
                        {base + 132, 1},
                        {base + 132 + kSlackBytes - 1, 1},
                        {base - 1, 1},
                        {base - 1, 2},
                        {&local, 1}}),
            (std::vector{kInside, kInside, kPastEnd, kPastEnd, kInside,
                         kPastEnd, kPastEnd, kUnknown, kRunsInto, kUnknown}));
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
  EXPECT_EQ(Placements({{base, 100}}), std::vector{kUnknown});
}

TEST(Memory, ARangeMayGoOnInMappedBlocks) {
  using enum Placement;
  constexpr size_t kBytes = 4096;
  const auto owner = std::make_shared<std::vector<std::byte>>(4 * kBytes);
  std::byte* const base = owner->data();
  const auto add = [&](size_t n) {
    EXPECT_TRUE(AddMapped(base + n * kBytes,
                          {.size = kBytes, .kind = BlockKind::kMapped}, owner));
  };
  for (const size_t n : {0, 1, 3}) add(n);
  EXPECT_EQ(Placements({{base + 5, 2 * kBytes - 5},
                        {base + 5, 2 * kBytes - 4},
                        {base + kBytes, kBytes},
                        {base + 2 * kBytes, kBytes},
                        {base + 2 * kBytes, kBytes + 1}}),
            (std::vector{kInside, kPastEnd, kInside, kUnknown, kRunsInto}));
  const long before = owner.use_count();
  {
    const std::vector<ByteRange> ranges{{base, 2 * kBytes}};
    const BlockUse use(ranges, [](size_t, Placement, const Block*) {});
    size_t size = 0;
    for (const size_t n : {0, 1, 3}) {
      EXPECT_TRUE(RemoveMapped(base + n * kBytes, BlockKind::kMapped, &size));
    }
    EXPECT_EQ(owner.use_count(), before - 1) << "both must be kept";
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Memory, LeaksAreCountedByKind) {
  std::string nothing;
  AppendMemoryLeaks(&nothing);
  EXPECT_EQ(nothing, "");
  std::byte* const one = Device(10);
  std::byte* const two = Device(20);
  std::byte* const host =
      AllocateBlock({.size = 8, .reserved = 32, .kind = BlockKind::kHost});
  std::string text = "1 stream";
  AppendMemoryLeaks(&text);
  EXPECT_EQ(text,
            "1 stream, 2 device blocks (30 bytes), 1 host block (8 bytes)");
  FreeBlock(one, BlockKind::kDevice);
  FreeBlock(two, BlockKind::kDevice);
  FreeBlock(host, BlockKind::kHost);
}

// A child, which Memory.StrictModeRefusesToFreeWhatIsUsed starts.
TEST(MemoryChild, DISABLED_StrictModeRefusesToFreeWhatIsUsed) {
  std::byte* const base = Device(10);
  const void* const address = base;
  {
    const BlockUse use({&address, 1});
    EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kInUse);
  }
  EXPECT_EQ(FreeBlock(base, BlockKind::kDevice), FreeResult::kFreed);
}

TEST(Memory, StrictModeRefusesToFreeWhatIsUsed) {
  const auto child =
      RunChild("MemoryChild.DISABLED_StrictModeRefusesToFreeWhatIsUsed",
               {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
