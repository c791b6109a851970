// SPDX-License-Identifier: Apache-2.0
// The computation as the runtime has it: its line, and the same bits however
// many workers there are and in whatever order they come.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "pages/pages.h"
#include "plan/host_queue.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::pages {
namespace {

constexpr int64_t kTokens = 3000, kBlocks = 100, kBlockRows = 32;
constexpr int64_t kPieces = 8, kPieceBytes = 32;
constexpr int64_t kRowBytes = kPieces * kPieceBytes;

// Rows of eight pieces into NZ pages.
Scatter Nz(int64_t tokens = kTokens) {
  PagedRows part;
  part.dims = {1, kPieces, kPieceBytes / 2};
  part.tokens = {.argument = 0,
                 .offset = 0,
                 .stride = kRowBytes,
                 .axes = {0, kPieceBytes, 2}};
  part.cache = {.argument = 1,
                .offset = 0,
                .block_stride = kBlockRows * kRowBytes,
                .stride = kPieceBytes,
                .axes = {0, kBlockRows * kPieceBytes, 2}};
  Scatter scatter;
  scatter.tokens = tokens;
  scatter.blocks = kBlocks;
  scatter.block_rows = kBlockRows;
  scatter.slots = {.argument = 2, .strides = {1, 0}};
  scatter.parts = {part};
  return scatter;
}

TEST(Scatter, SaysWhatItDoes) {
  const auto scatter = MakeScatter(Nz());
  EXPECT_EQ(scatter->name(), "pages/scatter");
  EXPECT_EQ(scatter->Describe(), "3000 rows into 100 blocks of 32: 256 bytes");
  EXPECT_EQ(scatter->workspace_bytes(), 0);
}

// Random rows go to these slots, whoever comes first.
void ExpectTheLastIsKept(std::vector<int32_t> slots, Random& random) {
  constexpr auto kCacheBytes =
      static_cast<size_t>(kBlocks * kBlockRows * kRowBytes);
  std::vector<std::byte> rows(kTokens * kRowBytes);
  for (std::byte& one : rows) one = static_cast<std::byte>(random.Bits());
  std::vector<std::byte> expected(kCacheBytes, std::byte{0xA5});
  for (size_t n = 0; n < slots.size(); ++n) {
    const int64_t slot = slots[n];
    if (slot < 0 || slot >= kBlocks * kBlockRows) continue;
    for (int64_t b = 0; b < kRowBytes; ++b) {
      const int64_t at =
          ((slot / kBlockRows * kPieces + b / kPieceBytes) * kBlockRows +
           slot % kBlockRows) *
              kPieceBytes +
          b % kPieceBytes;
      expected[static_cast<size_t>(at)] =
          rows[n * kRowBytes + static_cast<size_t>(b)];
    }
  }
  for (const int count : {1, 2, 7}) {
    std::vector<std::byte> cache(kCacheBytes, std::byte{0xA5});
    std::byte* const at[] = {rows.data(), cache.data(),
                             reinterpret_cast<std::byte*>(slots.data())};
    ShuffledWorkers workers(count);
    HostQueue queue(workers);
    ASSERT_TRUE(
        MakeScatter(Nz(std::ssize(slots)))->Run(at, nullptr, queue).ok());
    EXPECT_TRUE(cache == expected) << count << " workers";
  }
}

TEST(Scatter, TheLastTokenOfASlotIsKeptForAnyWorkers) {
  Random random(1);
  // Slots are remembered in one way for many tokens, in another for few.
  for (const int64_t tokens : {kTokens, int64_t{20}}) {
    // One row; few, so that most are some tokens'; then all of them.
    for (const int64_t most :
         {int64_t{0}, tokens / 10, kBlocks * kBlockRows + 20}) {
      std::vector<int32_t> slots(static_cast<size_t>(tokens));
      for (int32_t& slot : slots) {
        slot = static_cast<int32_t>(random.Within(-3, most));
      }
      ExpectTheLastIsKept(slots, random);
    }
  }
}

// Seven tokens to a slot: workers meet in the midst of seven.
TEST(Scatter, TheLastOfEqualNeighboursIsKept) {
  Random random(1);
  std::vector<int32_t> slots(kTokens);
  for (size_t n = 0; n < slots.size(); ++n) {
    slots[n] = static_cast<int32_t>(n / 7);
  }
  ExpectTheLastIsKept(slots, random);
}

}  // namespace
}  // namespace flashacl::pages
