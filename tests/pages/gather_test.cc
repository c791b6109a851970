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

constexpr int64_t kBlocks = 50, kBlockRows = 32, kRowBytes = 200;
constexpr int64_t kSequences = 5, kColumns = 20, kRows = 2500;

Gather Dense() {
  PagedRows part;
  part.dims = {1, 1, kRowBytes / 2};
  part.tokens = {
      .argument = 0, .offset = 0, .stride = kRowBytes, .axes = {0, 0, 2}};
  part.cache = {.argument = 1,
                .offset = 0,
                .block_stride = kBlockRows * kRowBytes,
                .stride = kRowBytes,
                .axes = {0, 0, 2}};
  Gather gather;
  gather.rows = kRows;
  gather.blocks = kBlocks;
  gather.block_rows = kBlockRows;
  gather.sequences = kSequences;
  gather.columns = kColumns;
  gather.table = {.argument = 2, .strides = {kColumns, 1}};
  gather.lengths = {.argument = 3, .strides = {1, 0}};
  gather.parts = {part};
  return gather;
}

TEST(Gather, SaysWhatItDoes) {
  const auto gather = MakeGather(Dense());
  EXPECT_EQ(gather->name(), "pages/gather");
  EXPECT_EQ(gather->Describe(),
            "up to 2500 rows of 5 sequences from 50 blocks of 32: 200 bytes");
  EXPECT_EQ(gather->workspace_bytes(), 0);
}

TEST(Gather, IsTheSameForAnyWorkers) {
  Random random(1);
  std::vector<std::byte> cache(kBlocks * kBlockRows * kRowBytes);
  for (std::byte& one : cache) one = static_cast<std::byte>(random.Bits());
  std::vector<int32_t> table(kSequences * kColumns);
  for (int32_t& id : table) {
    id = static_cast<int32_t>(random.Within(-2, kBlocks + 1));
  }
  std::vector<int32_t> lengths{600, 0, 611, 1, 640};
  std::vector<std::byte> expected(kRows * kRowBytes, std::byte{0xA5});
  size_t row = 0;
  for (size_t b = 0; b < kSequences; ++b) {
    for (int64_t t = 0; t < lengths[b]; ++t, ++row) {
      const int64_t id =
          table[b * kColumns + static_cast<size_t>(t / kBlockRows)];
      if (id < 0 || id >= kBlocks) continue;
      const int64_t from = (id * kBlockRows + t % kBlockRows) * kRowBytes;
      std::copy_n(cache.data() + from, kRowBytes,
                  expected.data() + row * kRowBytes);
    }
  }
  for (const int count : {1, 2, 7}) {
    std::vector<std::byte> rows(kRows * kRowBytes, std::byte{0xA5});
    std::byte* const at[] = {rows.data(), cache.data(),
                             reinterpret_cast<std::byte*>(table.data()),
                             reinterpret_cast<std::byte*>(lengths.data())};
    ShuffledWorkers workers(count);
    HostQueue queue(workers);
    ASSERT_TRUE(MakeGather(Dense())->Run(at, nullptr, queue).ok());
    EXPECT_TRUE(rows == expected) << count << " workers";
  }
}

}  // namespace
}  // namespace flashacl::pages
