// SPDX-License-Identifier: Apache-2.0
// Workers share out numbers: each goes to one of them, whoever runs.
#include "cpu/work_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/testing/shuffled_workers.h"

namespace flashacl::cpu {
namespace {

TEST(ForEachWorker, GivesEveryNumberOnce) {
  for (const int workers : {1, 3}) {
    ShuffledWorkers some(workers);
    std::vector<std::atomic<int>> times(50);
    ForEachWorker(some, 4, 50, [&](int64_t worker, auto take) {
      EXPECT_LT(worker, 4);
      for (int64_t n = take(); n < 50; n = take()) {
        ++times[static_cast<size_t>(n)];
      }
      EXPECT_EQ(take(), 50);
    });
    EXPECT_TRUE(std::all_of(times.begin(), times.end(),
                            [](const auto& one) { return one == 1; }));
  }
}

// A worker without a number would fill its scratch memory for nothing.
TEST(ForEachWorker, CallsNoMoreThanThereAreNumbers) {
  ShuffledWorkers some(3);
  for (const int64_t count : {0, 1, 2}) {
    std::atomic<int64_t> called{0};
    ForEachWorker(some, 4, count, [&](int64_t, auto) { ++called; });
    EXPECT_EQ(called, count);
  }
}

// What all workers write to lies on no line with anything that they read.
TEST(WorkList, HasItsNumberOnALineOfItsOwn) {
  static_assert(alignof(WorkList) >= 64 && sizeof(WorkList) >= 2 * 64);
}

}  // namespace
}  // namespace flashacl::cpu
