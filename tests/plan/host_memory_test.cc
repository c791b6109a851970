// SPDX-License-Identifier: Apache-2.0
// Requests of every size; tests/acl/memory_test.cc has those of the runtime.
#include "plan/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace flashacl {
namespace {

TEST(HostMemory, IsAlignedAndEndsInZeros) {
  constexpr size_t kHugePage = size_t{2} << 20;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{4096}, kHugePage, 2 * kHugePage + 3}) {
    for (const bool huge : {false, true}) {
      const auto got = HostMemory::Get().Allocate(
          {.bytes = bytes, .zeros = 100, .huge_pages = huge});
      ASSERT_NE(got, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got.get()) % 64, 0u);
#if !defined(FLASHACL_DCHECKS) && !defined(__SANITIZE_ADDRESS__)
      // Where memory ends at a guard page or is the heap's, it is as it is.
      if (bytes > kHugePage) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(got.get()) % kHugePage, 0u);
      }
#endif
      std::fill_n(got.get(), bytes, std::byte{1});
      EXPECT_EQ(
          std::count(got.get() + bytes, got.get() + bytes + 100, std::byte{0}),
          100);
    }
  }
}

// Into the file and back: addresses stay, and neighbours with them.
TEST(HostMemory, MovesToAFileThatOthersMap) {
  HostMemory& memory = HostMemory::Get();
  for (const size_t bytes : {size_t{1}, size_t{70000}, size_t{3} << 20}) {
    const auto before = memory.Allocate({.bytes = bytes, .own_pages = true});
    const auto moved = memory.Allocate({.bytes = bytes, .own_pages = true});
    const auto after = memory.Allocate({.bytes = bytes, .own_pages = true});
    std::byte* const last = moved.get() + bytes - 1;
    for (const auto& one : {before, moved, after}) {
      std::fill_n(one.get(), bytes, std::byte{7});
    }
    const MemoryFile file = memory.MoveToFile(moved.get(), bytes);
    ASSERT_GE(file.file, 0);
    EXPECT_GE(file.bytes, file.offset + bytes);
    EXPECT_EQ(*last, std::byte{7});
    *last = std::byte{8};
    const auto at = static_cast<off_t>(file.offset + bytes - 1);
    std::byte read{0};
    EXPECT_EQ(pread(file.file, &read, 1, at), 1);
    EXPECT_EQ(read, std::byte{8});
    EXPECT_TRUE(memory.LeaveFile(moved.get(), bytes));
    *last = std::byte{9};
    EXPECT_EQ(pread(file.file, &read, 1, at), 1);
    EXPECT_EQ(read, std::byte{8});
    close(file.file);
    for (const auto& one : {before, after}) {
      EXPECT_EQ(std::count(one.get(), one.get() + bytes, std::byte{7}),
                static_cast<ptrdiff_t>(bytes));
    }
  }
}

TEST(HostMemory, SaysWhenThereIsNone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process";
#endif
  EXPECT_EQ(HostMemory::Get().Allocate({.bytes = size_t{1} << 60}), nullptr);
}

TEST(HostMemory, CopiesOverlappingSidesAndFills) {
  HostMemory& memory = HostMemory::Get();
  alignas(4) std::byte bytes[8] = {};
  memory.FillWords(bytes, 0x01010101, 2);
  memory.Fill(bytes, std::byte{2}, 3);
  memory.Copy(bytes + 1, bytes, 7);
  const std::vector<int> expected{2, 2, 2, 2, 1, 1, 1, 1};
  for (size_t n = 0; n < 8; ++n) {
    EXPECT_EQ(std::to_integer<int>(bytes[n]), expected[n]) << n;
  }
}

TEST(HostMemory, LoadsAndStoresWords) {
  HostMemory& memory = HostMemory::Get();
  alignas(8) std::byte bytes[24] = {};
  memory.StoreWord(bytes + 8, 0x0202020202020202);
  EXPECT_EQ(memory.LoadWord(bytes), 0u);
  EXPECT_EQ(memory.LoadWord(bytes + 8), 0x0202020202020202u);
  EXPECT_EQ(memory.LoadWord(bytes + 16), 0u);
}

}  // namespace
}  // namespace flashacl
