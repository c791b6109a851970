// SPDX-License-Identifier: Apache-2.0
// Slots share out numbers: each goes to one of them, whoever works.
#include "cpu/work_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/testing/shuffled_workers.h"

namespace flashacl::cpu {
namespace {

TEST(Slots, GetEveryNumberOnce) {
  for (const int workers : {1, 3}) {
    ShuffledWorkers some(workers);
    std::vector<std::atomic<int>> times(50);
    ForEachWorker(some, 4, 50, [&](int64_t slot, auto take) {
      EXPECT_LT(slot, 4);
      for (int64_t n = take(); n < 50; n = take()) {
        ++times[static_cast<size_t>(n)];
      }
      EXPECT_EQ(take(), 50);
    });
    EXPECT_TRUE(std::all_of(times.begin(), times.end(),
                            [](const auto& one) { return one == 1; }));
  }
}

// A slot without a number would fill its scratch memory for nothing.
TEST(Slots, AreNoMoreThanNumbers) {
  ShuffledWorkers some(3);
  for (const int64_t count : {0, 1, 2}) {
    std::atomic<int64_t> slots{0};
    ForEachWorker(some, 4, count, [&](int64_t, auto) { ++slots; });
    EXPECT_EQ(slots, count);
  }
}

}  // namespace
}  // namespace flashacl::cpu
