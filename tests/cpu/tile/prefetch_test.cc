// SPDX-License-Identifier: Apache-2.0
// Every line of every row is prefetched once, in the order in which rows are
// given, however many are taken at a time.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "cpu/targets.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
const std::byte* TakeOf(LinePrefetcher& prefetch, int64_t lines) {
  return prefetch.Take(lines);
}
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::kLineBytes;
using HWY_NAMESPACE::LinePrefetcher;
using HWY_NAMESPACE::TakeOf;

struct Rows {
  std::vector<std::byte> memory;
  std::vector<const std::byte*> at;
  int64_t bytes;
};

// Rows in a row, some of which touch.
Rows AnyRows(Random& random) {
  Rows rows;
  rows.bytes = random.OneIn(3) ? random.Within(1, 700)
                               : kLineBytes * random.Within(1, 12);
  const int64_t count = random.Within(0, 48);
  const int64_t gap = random.Within(1, 300);
  const int64_t seldom = random.Within(1, 10);
  rows.memory.resize(static_cast<size_t>((rows.bytes + gap) * (count + 1)));
  const std::byte* next = rows.memory.data();
  for (int64_t n = 0; n < count; ++n) {
    rows.at.push_back(next);
    next += rows.bytes + (random.OneIn(seldom) ? gap : 0);
  }
  return rows;
}

// Rows that touch are one, so that lines may hold some of two.
std::vector<const std::byte*> LinesOf(const Rows& rows) {
  std::vector<const std::byte*> lines;
  for (size_t n = 0; n < rows.at.size();) {
    const std::byte* line = rows.at[n];
    const std::byte* end = line + rows.bytes;
    for (++n; n < rows.at.size() && rows.at[n] == end; ++n) end += rows.bytes;
    for (; line < end; line += kLineBytes) lines.push_back(line);
  }
  return lines;
}

bool IsOf(const Rows& rows, const std::byte* at) {
  return !rows.memory.empty() && at >= rows.memory.data() &&
         at < rows.memory.data() + rows.memory.size();
}

TEST(LinePrefetcherTest, HandsOutEveryLineOnce) {
  Random random(5);
  for (int rounds = 0; rounds < 3000; ++rounds) {
    const Rows rows = AnyRows(random);
    const std::vector<const std::byte*> lines = LinesOf(rows);
    LinePrefetcher prefetch(rows.at.data(), rows.at.data() + rows.at.size(),
                            rows.bytes);
    size_t next = 0;
    while (prefetch.any()) {
      ASSERT_LT(next, lines.size());
      const int64_t some = random.OneIn(9)
                               ? random.Within(1, LinePrefetcher::kMaxTaken)
                               : random.Within(1, 4);
      const std::byte* const taken = TakeOf(prefetch, some);
      if (IsOf(rows, taken)) {
        // All of one run of rows, to its last byte at most.
        const auto last = next + static_cast<size_t>(some) - 1;
        ASSERT_LT(last, lines.size());
        EXPECT_EQ(taken, lines[next]);
        EXPECT_EQ(taken + (some - 1) * kLineBytes, lines[last]);
      }
      next += static_cast<size_t>(some);
    }
    // The last may have been more than there was.
    EXPECT_GE(next, lines.size());
    EXPECT_LT(next, lines.size() + LinePrefetcher::kMaxTaken);
  }
}

TEST(LinePrefetcherTest, HandsOutSomethingElseAfterTheLast) {
  Random random(6);
  for (int rounds = 0; rounds < 300; ++rounds) {
    const Rows rows = AnyRows(random);
    LinePrefetcher prefetch(rows.at.data(), rows.at.data() + rows.at.size(),
                            rows.bytes);
    while (prefetch.any()) TakeOf(prefetch, 1);
    for (int n = 0; n < 3; ++n) {
      EXPECT_FALSE(IsOf(rows, TakeOf(prefetch, LinePrefetcher::kMaxTaken)));
      EXPECT_FALSE(prefetch.any());
    }
  }
  LinePrefetcher nothing;
  EXPECT_FALSE(nothing.any());
  EXPECT_NE(TakeOf(nothing, 1), nullptr);
}

}  // namespace
}  // namespace flashacl::cpu
