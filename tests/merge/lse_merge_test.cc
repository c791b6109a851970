// SPDX-License-Identifier: Apache-2.0
// The computation as the runtime has it: its line, and the same bits however
// many workers there are and in whatever order they come.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "cpu/streams.h"
#include "merge/merge.h"
#include "merge/merge_kernel.h"
#include "plan/host_queue.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::merge {
namespace {

constexpr int64_t kRows = 1001;
constexpr int64_t kChannels = 130;

LseMerge ThreeParts() {
  LseMerge merge;
  merge.rows = kRows;
  merge.channels = kChannels;
  for (size_t part = 0; part < 3; ++part) {
    merge.lse.push_back({.argument = part, .stride = 1});
    merge.parts.push_back({.argument = 3 + part, .stride = kChannels});
  }
  merge.out = {.argument = 6, .dtype = DType::kF16, .stride = kChannels};
  merge.lse_out = Rows{.argument = 7, .stride = 1};
  return merge;
}

TEST(LseMerge, SaysWhatItComputes) {
  const auto merge = MakeLseMerge(ThreeParts());
  EXPECT_EQ(merge->name(), "merge/lse");
  EXPECT_EQ(merge->Describe(), "3 parts of f32 to f16: [1001, 130]");
  EXPECT_EQ(merge->workspace_bytes(), 0);
}

TEST(LseMerge, IsTheSameForAnyWorkers) {
  Random random(1);
  const auto merge = MakeLseMerge(ThreeParts());
  std::vector<std::vector<float>> inputs(6);
  std::vector<std::byte*> at;
  for (size_t n = 0; n < inputs.size(); ++n) {
    inputs[n].resize(n < 3 ? kRows : kRows * kChannels);
    for (float& value : inputs[n])
      value = static_cast<float>(random.Fraction());
    at.push_back(reinterpret_cast<std::byte*>(inputs[n].data()));
  }
  at.resize(8);
  std::vector<uint16_t> first;
  std::vector<float> first_lse;
  for (const int workers : {1, 2, 7}) {
    std::vector<uint16_t> out(kRows * kChannels);
    std::vector<float> lse(kRows);
    at[6] = reinterpret_cast<std::byte*>(out.data());
    at[7] = reinterpret_cast<std::byte*>(lse.data());
    ShuffledWorkers shuffled(workers);
    HostQueue queue(shuffled);
    ASSERT_TRUE(merge->Run(at, nullptr, queue).ok());
    if (first.empty()) {
      first = out;
      first_lse = lse;
    }
    EXPECT_EQ(out, first);
    EXPECT_EQ(lse, first_lse);
  }
}

// Results that are too large for caches are written past them.
TEST(LseMerge, IsTheSameHoweverManyRowsThereAre) {
  constexpr int64_t kMany = 1 << 14;
  constexpr int64_t kDim = 128;
  static_assert(cpu::Streams(kMany * kDim * 4) &&
                !cpu::Streams(kRows * kDim * 4));
  struct alignas(64) Line {
    float at[16];
  };
  std::vector<Line> rows(kMany * kDim / 16), out(rows.size());
  std::vector<float> lse(kMany);
  for (size_t n = 0; n < rows.size() * 16; ++n) {
    rows[n / 16].at[n % 16] = static_cast<float>(n % 1009);
  }
  for (size_t n = 0; n < lse.size(); ++n) lse[n] = static_cast<float>(n % 7);
  std::byte* const at[] = {reinterpret_cast<std::byte*>(lse.data()),
                           reinterpret_cast<std::byte*>(rows.data()),
                           reinterpret_cast<std::byte*>(out.data())};
  ShuffledWorkers workers(2);
  HostQueue queue(workers);
  LseMerge merge;
  merge.channels = kDim;
  merge.lse = {{.argument = 0, .stride = 1}, {.argument = 0, .stride = 1}};
  merge.parts = {{.argument = 1, .stride = kDim},
                 {.argument = 1, .stride = kDim}};
  merge.out = {.argument = 2, .stride = kDim};
  merge.rows = kMany;
  ASSERT_TRUE(MakeLseMerge(merge)->Run(at, nullptr, queue).ok());
  // Two equal parts are what they are.
  EXPECT_EQ(std::memcmp(out.data(), rows.data(), rows.size() * 64), 0);
}

}  // namespace
}  // namespace flashacl::merge
