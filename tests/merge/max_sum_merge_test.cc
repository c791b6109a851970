// SPDX-License-Identifier: Apache-2.0
// The computation as the runtime has it: its line, and the same bits however
// many workers there are and in whatever order they come.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "merge/merge.h"
#include "plan/host_queue.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::merge {
namespace {

// Heads, and tokens, of more than one chunk.
constexpr int64_t kTokens = 83;
constexpr int64_t kHeads = 70;
constexpr int64_t kChannels = 24;

MaxSumMerge Packed() {
  const HeadRows rows{.token_stride = kHeads * kChannels,
                      .head_stride = kChannels};
  const Statistic statistic{.strides = {0, kHeads * kCopies, kCopies, 1}};
  MaxSumMerge merge;
  merge.tokens = kTokens;
  merge.heads = kHeads;
  merge.channels = kChannels;
  merge.parts = {rows, rows};
  merge.max = {statistic, statistic};
  merge.sum = {statistic, statistic};
  merge.out = rows;
  merge.max_out = merge.sum_out = statistic;
  size_t argument = 0;
  for (size_t part = 0; part < 2; ++part) {
    merge.parts[part].argument = argument++;
    merge.max[part].argument = argument++;
    merge.sum[part].argument = argument++;
  }
  merge.ends = {.argument = argument++, .count = 4};
  merge.out.argument = argument++;
  merge.max_out.argument = argument++;
  merge.sum_out.argument = argument++;
  merge.order = StatisticOrder::kBlocks;
  return merge;
}

TEST(MaxSumMerge, SaysWhatItComputes) {
  const auto merge = MakeMaxSumMerge(Packed());
  EXPECT_EQ(merge->name(), "merge/max and sum");
  EXPECT_EQ(merge->Describe(), "f32: [1, 83, 70, 24], statistics by blocks");
  EXPECT_EQ(merge->workspace_bytes(), 0);
}

TEST(MaxSumMerge, IsTheSameForAnyWorkers) {
  Random random(1);
  const auto merge = MakeMaxSumMerge(Packed());
  std::vector<std::vector<float>> tensors(10);
  std::vector<int64_t> ends{0, 7, 60, kTokens};
  std::vector<std::vector<float>> first;
  for (const int workers : {1, 2, 7}) {
    Random same(1);
    std::vector<std::byte*> at;
    for (size_t n = 0; n < tensors.size(); ++n) {
      const bool attention = n == 0 || n == 3 || n == 7;
      tensors[n].resize(kTokens * kHeads * (attention ? kChannels : kCopies));
      for (float& value : tensors[n]) {
        value = 1 + static_cast<float>(same.Fraction());
      }
      at.push_back(reinterpret_cast<std::byte*>(tensors[n].data()));
    }
    at[6] = reinterpret_cast<std::byte*>(ends.data());
    ShuffledWorkers shuffled(workers);
    HostQueue queue(shuffled);
    ASSERT_TRUE(merge->Run(at, nullptr, queue).ok());
    const std::vector<std::vector<float>> out(tensors.begin() + 7,
                                              tensors.end());
    if (first.empty()) first = out;
    EXPECT_EQ(out, first);
  }
}

}  // namespace
}  // namespace flashacl::merge
