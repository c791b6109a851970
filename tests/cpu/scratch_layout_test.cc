// SPDX-License-Identifier: Apache-2.0
// Every struct has buffers as large as was said, aligned for vectors, and what
// is not shared nobody shares: so it is for every scratch struct there is.
#include "cpu/scratch_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cpu/buffers.h"
#include "tests/testing/random.h"

namespace flashacl::cpu {
namespace {

struct Toy {
  float* floats;
  float* more_floats;
  uint32_t* words;
  std::byte* bytes;
  int64_t* longs;
  int64_t stride = 0;
};

// What is asked for, in elements.
struct Asked {
  int64_t structs, shared_by, floats, words, bytes, longs;
};

ScratchLayout<Toy> Reserved(const Asked& asked, WorkspaceLayout& layout) {
  Toy sizes{};
  sizes.stride = 7;
  ScratchLayout<Toy> toys(sizes, asked.structs);
  toys.Add("bytes", {&Toy::bytes}, asked.bytes, layout);
  toys.Add("floats", {&Toy::floats, &Toy::more_floats}, asked.floats, layout);
  toys.Add("words", {&Toy::words}, asked.words, layout, asked.shared_by);
  toys.Add("longs", {&Toy::longs}, asked.longs, layout);
  return toys;
}

template <typename T>
bool IsAligned(const T* at, size_t unit = alignof(T)) {
  return reinterpret_cast<uintptr_t>(at) % unit == 0;
}

TEST(ScratchLayout, BuffersAreApartLargeEnoughAndAligned) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    Asked asked{};
    asked.shared_by = random.Within(1, 4);
    asked.structs = asked.shared_by * random.Within(1, 5);
    for (int64_t* size :
         {&asked.floats, &asked.words, &asked.bytes, &asked.longs}) {
      *size = random.OneIn(5) ? 0 : random.Within(1, 100);
    }
    WorkspaceLayout layout;
    layout.Reserve<std::byte>("of others", random.Within(0, 99));
    const ScratchLayout<Toy> toys = Reserved(asked, layout);
    ASSERT_EQ(toys.count(), asked.structs);
    // Never touched, so it may be anywhere.
    auto* const workspace = reinterpret_cast<std::byte*>(uintptr_t{1} << 32);
    std::vector<std::pair<const std::byte*, const std::byte*>> all;
    const auto add = [&](const auto* at, int64_t count) {
      const auto* first = reinterpret_cast<const std::byte*>(at);
      if (count > 0) all.emplace_back(first, first + count * sizeof(*at));
    };
    for (int64_t n = 0; n < asked.structs; ++n) {
      const Toy toy = toys.At(workspace, n);
      EXPECT_EQ(toy.stride, 7);
      EXPECT_TRUE(IsAligned(toy.floats, 64) && IsAligned(toy.words, 64));
      EXPECT_TRUE(IsAligned(toy.more_floats) && IsAligned(toy.longs));
      add(toy.floats, asked.floats);
      add(toy.more_floats, asked.floats);
      add(toy.bytes, asked.bytes);
      add(toy.longs, asked.longs);
      const Toy first =
          toys.At(workspace, n / asked.shared_by * asked.shared_by);
      EXPECT_EQ(toy.words, first.words);
      if (n % asked.shared_by == 0) add(toy.words, asked.words);
    }
    std::sort(all.begin(), all.end());
    const std::byte* end = workspace;
    for (const auto& [first, last] : all) {
      EXPECT_GE(first, end);
      end = last;
    }
    EXPECT_LE(end, workspace + layout.bytes());
  }
}

// Else workers that write to memory of their own would wait for each other.
TEST(ScratchLayout, OwnersShareNoCacheLine) {
  struct Odd {
    char bytes[24];
  };
  struct Mixture {
    float* floats;
    Odd* odd;
    std::byte* bytes;
  };
  constexpr int64_t kOdd = 3, kBytes = 7, kFloats = 5;
  WorkspaceLayout layout;
  ScratchLayout<Mixture> scratch({}, 3);
  scratch.Add("floats", {&Mixture::floats}, kFloats, layout);
  scratch.Add("odd", {&Mixture::odd}, kOdd, layout);
  scratch.Add("bytes", {&Mixture::bytes}, kBytes, layout);
  alignas(64) static std::byte memory[4096];
  ASSERT_LE(layout.bytes(), 4096);
  const auto line = [](const void* at) {
    return reinterpret_cast<uintptr_t>(at) / 64;
  };
  for (int64_t n = 0; n < 2; ++n) {
    const Mixture own = scratch.At(memory, n);
    const Mixture next = scratch.At(memory, n + 1);
    EXPECT_LT(line(own.floats + kFloats - 1), line(next.floats));
    EXPECT_LT(line(own.odd + kOdd - 1), line(next.odd));
    EXPECT_LT(line(own.bytes + kBytes - 1), line(next.bytes));
  }
}

TEST(ScratchLayout, ApartAsksForEachBuffersBytes) {
  WorkspaceLayout layout;
  const ScratchLayout<Toy> toys = Reserved({6, 3, 5, 9, 3, 2}, layout);
  testing::Buffers buffers;
  const Toy toy = toys.Apart(std::ref(buffers));
  EXPECT_EQ(toy.stride, 7);
  EXPECT_EQ(buffers.BytesOf(toy.bytes), 3);
  EXPECT_EQ(buffers.BytesOf(toy.floats), 5 * 4);
  EXPECT_EQ(buffers.BytesOf(toy.more_floats), 5 * 4);
  EXPECT_EQ(buffers.BytesOf(toy.words), 9 * 4);
  EXPECT_EQ(buffers.BytesOf(toy.longs), 2 * 8);
}

}  // namespace
}  // namespace flashacl::cpu
