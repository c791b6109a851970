// SPDX-License-Identifier: Apache-2.0
// A run takes from what its thread kept; the next run of the size fits.
#include "base/run_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "base/random.h"

namespace flashacl {
namespace {

TEST(RunMemory, TheSecondRunIsWhereTheFirstWas) {
  std::thread([] {
    const auto run = [] {
      const RunMemoryScope scope;
      const RunVector<int64_t> numbers(1000, 7);
      return numbers.data();
    };
    run();  // learns the size
    const int64_t* const second = run();
    EXPECT_EQ(run(), second);
  }).join();
}

// Vectors of any sizes, some too large for what is kept, in runs and between:
// none shares memory with another, and each is freed where it came from.
TEST(RunMemory, VectorsHaveMemoryOfTheirOwn) {
  Random random(1);
  RunVector<int64_t> outside(100, -1);
  for (int n = 0; n < 200; ++n) {
    const RunMemoryScope scope;
    std::vector<RunVector<int64_t>> vectors;
    for (int64_t v = random.Within(1, 8); v > 0; --v) {
      vectors.emplace_back();
      for (int64_t k = random.Within(0, 3000); k > 0; --k) {
        vectors.back().push_back(v);
      }
    }
    int64_t expected = static_cast<int64_t>(vectors.size());
    for (const RunVector<int64_t>& vector : vectors) {
      for (const int64_t number : vector) ASSERT_EQ(number, expected);
      --expected;
    }
    if (n == 100) outside = RunVector<int64_t>();
  }
}

}  // namespace
}  // namespace flashacl
