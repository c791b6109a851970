// SPDX-License-Identifier: Apache-2.0
// Every line of every row is prefetched once: in the order in which rows are
// given, however many are taken at a time; or by sections in turn. And loops
// are chosen by what there is to prefetch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "cpu/targets.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
LinePrefetcher PrefetcherOf(const std::vector<const std::byte*>& rows,
                            int64_t bytes, bool in_sections) {
  return {rows.data(), rows.data() + rows.size(), bytes, in_sections};
}
const std::byte* TakeOf(LinePrefetcher& prefetch, int64_t lines) {
  return prefetch.Take(lines);
}
std::vector<const std::byte*> LinesTaken(LinePrefetcher& prefetch,
                                         int64_t lines) {
  std::vector<const std::byte*> taken;
  prefetch.TakeLines(lines,
                     [&](const std::byte* line) { taken.push_back(line); });
  return taken;
}
int64_t NextOf(EvenShares& shares) { return shares.Next(); }
template <LoopBody kBody, bool kMayIntoFirst>
Prefetches HowOf(const LinePrefetcher& prefetch, bool into_first) {
  Prefetches chosen{};
  WithPrefetches<kBody, kMayIntoFirst>(
      prefetch, [&](auto how) { chosen = how(); }, into_first);
  return chosen;
}
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::EvenShares;
using HWY_NAMESPACE::HowOf;
using HWY_NAMESPACE::kLineBytes;
using HWY_NAMESPACE::LinePrefetcher;
using HWY_NAMESPACE::LinesTaken;
using HWY_NAMESPACE::LoopBody;
using HWY_NAMESPACE::NextOf;
using HWY_NAMESPACE::PrefetcherOf;
using HWY_NAMESPACE::Prefetches;
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

TEST(LinePrefetcherTest, HandsOutEveryLineInOrder) {
  Random random(5);
  for (int rounds = 0; rounds < 3000; ++rounds) {
    const Rows rows = AnyRows(random);
    const std::vector<const std::byte*> lines = LinesOf(rows);
    LinePrefetcher prefetch = PrefetcherOf(rows.at, rows.bytes, false);
    size_t next = 0;
    while (prefetch.any()) {
      ASSERT_LT(next, lines.size());
      const int64_t some = random.Within(1, LinePrefetcher::kMaxTaken);
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

// Rows that touch, in groups of any sizes; groups lie apart.
Rows AnyGroups(Random& random) {
  Rows rows;
  rows.bytes = kLineBytes * random.Within(1, 40);
  const int64_t count = random.Within(1, 48);
  const int64_t gap = kLineBytes * random.Within(5, 9);
  rows.memory.resize(static_cast<size_t>((rows.bytes + gap) * (count + 1)));
  const std::byte* next = rows.memory.data();
  for (int64_t n = 0, together = 0; n < count; ++n, --together) {
    if (together == 0) {
      together = random.Within(1, 24);
      next += gap;
    }
    rows.at.push_back(next);
    next += rows.bytes;
  }
  return rows;
}

TEST(LinePrefetcherTest, HandsOutEveryLineOfSectionsOnce) {
  Random random(7);
  for (int rounds = 0; rounds < 2000; ++rounds) {
    const Rows rows = AnyGroups(random);
    const std::vector<const std::byte*> lines = LinesOf(rows);
    LinePrefetcher prefetch = PrefetcherOf(rows.at, rows.bytes, true);
    const int64_t some = random.Within(1, LinePrefetcher::kMaxTaken);
    std::map<const std::byte*, int> times;
    int64_t all_at_once = 0, takes = 0;
    for (; prefetch.any(); ++takes) {
      const std::byte* const taken = TakeOf(prefetch, some);
      if (!IsOf(rows, taken)) ++all_at_once;
      for (int64_t n = 0; n < some && IsOf(rows, taken); ++n) {
        ++times[taken + n * kLineBytes];
      }
    }
    // What was prefetched all at once is not known here.
    int64_t missing = 0;
    for (const std::byte* const line : lines) {
      EXPECT_LE(times[line], 1);
      missing += times[line] == 0 ? 1 : 0;
      times.erase(line);
    }
    EXPECT_LE(missing, all_at_once * some);
    // Lines after a span's last, of its last section; fewer than are taken.
    const auto others = static_cast<int64_t>(times.size());
    EXPECT_LE(takes * some,
              static_cast<int64_t>(lines.size()) + others + all_at_once * some);
    for (const auto& [line, count] : times) {
      const bool follows =
          std::any_of(lines.begin(), lines.end(), [&](const std::byte* before) {
            return line > before && line - before < some * kLineBytes;
          });
      EXPECT_TRUE(follows);
    }
  }
}

// Many at once are those that Take() would hand out, and as many as were asked
// for, to the next four.
TEST(LinePrefetcherTest, TakesManyLinesAsItWouldHandThemOut) {
  constexpr int64_t kMost = LinePrefetcher::kMaxTaken;
  Random random(11);
  for (int rounds = 0; rounds < 2000; ++rounds) {
    Rows rows = AnyGroups(random);
    // Some rows touch, and so are taken in fours.
    rows.at.push_back(rows.at.back() + rows.bytes);
    const bool in_sections = !random.OneIn(4);
    LinePrefetcher many = PrefetcherOf(rows.at, rows.bytes, in_sections);
    LinePrefetcher few = PrefetcherOf(rows.at, rows.bytes, in_sections);
    int64_t asked = 0, taken = 0;
    const std::byte* next = nullptr;
    while (few.any()) {
      const int64_t lines = random.Within(0, 40);
      asked += lines;
      const std::vector<const std::byte*> got = LinesTaken(many, lines);
      ASSERT_EQ(got.size() % kMost, 0u);
      for (size_t n = 0; n < got.size(); ++n, ++taken) {
        if (n % kMost == 0) next = TakeOf(few, kMost);
        ASSERT_EQ(got[n], next + n % kMost * kLineBytes);
      }
      ASSERT_EQ(many.any(), few.any());
      if (!few.any()) break;
      ASSERT_EQ(taken, (asked + kMost - 1) / kMost * kMost);
      if (!random.OneIn(4)) continue;
      ASSERT_EQ(TakeOf(many, kMost), TakeOf(few, kMost));
    }
  }
}

// Of rows that lie apart they are as many as were asked for, in order, whatever
// Take() took before.
TEST(LinePrefetcherTest, TakesManyLinesOfRowsThatLieApart) {
  Random random(12);
  for (int rounds = 0; rounds < 2000; ++rounds) {
    const int64_t of_row = random.Within(1, 12), count = random.Within(1, 48);
    const int64_t step = of_row + random.Within(1, 5);
    const std::vector<std::byte> memory(
        static_cast<size_t>(count * step * kLineBytes));
    const int64_t part = random.OneIn(3) ? random.Within(1, 63) : 0;
    Rows rows{.memory = {}, .at = {}, .bytes = of_row * kLineBytes - part};
    for (int64_t n = 0; n < count; ++n) {
      rows.at.push_back(memory.data() + n * step * kLineBytes);
    }
    const std::vector<const std::byte*> lines = LinesOf(rows);
    LinePrefetcher prefetch =
        PrefetcherOf(rows.at, rows.bytes, random.OneIn(2));
    size_t next = 0;
    while (prefetch.any()) {
      if (random.OneIn(4)) {
        TakeOf(prefetch, 1);
        ++next;
      }
      const auto asked = static_cast<size_t>(random.Within(0, 40));
      const std::vector<const std::byte*> got =
          LinesTaken(prefetch, static_cast<int64_t>(asked));
      ASSERT_EQ(got.size(), std::min(asked, lines.size() - next));
      for (const std::byte* const line : got) ASSERT_EQ(line, lines[next++]);
    }
    ASSERT_EQ(next, lines.size());
    EXPECT_TRUE(LinesTaken(prefetch, 7).empty());
  }
}

// Rows that lie apart are in sections, too, if they are long: the first is.
TEST(LinePrefetcherTest, TakesManyLinesOfLongRowsInSections) {
  constexpr int64_t kBytes = 16384, kMost = LinePrefetcher::kMaxTaken;
  const std::vector<std::byte> memory(3 * kBytes);
  const std::vector<const std::byte*> rows = {memory.data(),
                                              memory.data() + 2 * kBytes};
  LinePrefetcher many = PrefetcherOf(rows, kBytes, true);
  LinePrefetcher few = PrefetcherOf(rows, kBytes, true);
  while (few.any()) {
    const std::byte* const next = TakeOf(few, kMost);
    const std::vector<const std::byte*> got = LinesTaken(many, kMost);
    ASSERT_EQ(got.size(), static_cast<size_t>(kMost));
    for (int64_t n = 0; n < kMost; ++n) {
      ASSERT_EQ(got[static_cast<size_t>(n)], next + n * kLineBytes);
    }
  }
  EXPECT_FALSE(many.any());
}

TEST(EvenSharesTest, AddUpWithinOneLine) {
  Random random(13);
  for (int rounds = 0; rounds < 300; ++rounds) {
    const int64_t lines = random.Within(0, 300), calls = random.Within(1, 40);
    EvenShares shares(lines, calls);
    int64_t sum = 0;
    for (int64_t n = 1; n <= calls; ++n) {
      sum += NextOf(shares);
      ASSERT_EQ(sum, lines * n / calls);
    }
  }
}

TEST(LinePrefetcherTest, TakesSectionsInTurn) {
  constexpr int64_t kRowBytes = 2048, kRows = 48, kSections = 8;
  constexpr int64_t kTurn = 4 * kLineBytes;
  std::vector<std::byte> memory(kRowBytes * kRows);
  std::vector<const std::byte*> rows;
  for (int64_t n = 0; n < kRows; ++n) {
    rows.push_back(memory.data() + n * kRowBytes);
  }
  LinePrefetcher prefetch = PrefetcherOf(rows, kRowBytes, true);
  constexpr int64_t kSectionBytes = kRowBytes * kRows / kSections;
  for (int64_t turn = 0; turn < kSectionBytes / kTurn; ++turn) {
    for (int64_t section = 0; section < kSections; ++section) {
      const int64_t at = section * kSectionBytes + turn * kTurn;
      for (int64_t n = 0; n < kTurn; n += 2 * kLineBytes) {
        EXPECT_TRUE(prefetch.any());
        EXPECT_EQ(TakeOf(prefetch, 2) - memory.data(), at + n);
      }
    }
  }
  EXPECT_FALSE(prefetch.any());
}

TEST(LinePrefetcherTest, GoesFromSectionsToThoseOfTheNextRowsAtOnce) {
  constexpr int64_t kBytes = 8192;  // two sections
  std::vector<std::byte> memory(5 * kBytes);
  // The last two touch, so not all rows lie apart.
  const std::vector<const std::byte*> rows = {
      memory.data(), memory.data() + 2 * kBytes, memory.data() + 3 * kBytes};
  LinePrefetcher prefetch = PrefetcherOf(rows, kBytes, true);
  for (int64_t n = 0; n < kBytes; n += 2 * kLineBytes) {
    EXPECT_LT(TakeOf(prefetch, 2) - memory.data(), kBytes);
  }
  EXPECT_EQ(TakeOf(prefetch, 2) - memory.data(), 2 * kBytes);
}

// Two sections in one page were no faster than one.
TEST(LinePrefetcherTest, SectionsAreNoShorterThanAPage) {
  constexpr int64_t kPage = 4096, kTurn = 4 * kLineBytes;
  std::vector<std::byte> memory(4 * kPage);
  const std::vector<const std::byte*> rows = {memory.data()};
  for (int64_t bytes = kTurn; bytes <= 4 * kPage; bytes += kTurn) {
    LinePrefetcher prefetch = PrefetcherOf(rows, bytes, true);
    const std::byte* const first = TakeOf(prefetch, 2);
    EXPECT_EQ(TakeOf(prefetch, 2) - first, 2 * kLineBytes);
    if (bytes == kTurn) {
      EXPECT_FALSE(prefetch.any());
    } else if (bytes < 2 * kPage) {
      EXPECT_EQ(TakeOf(prefetch, 2) - first, kTurn);
    } else {
      EXPECT_GE(TakeOf(prefetch, 2) - first, kPage);
    }
  }
}

TEST(LinePrefetcherTest, HandsOutSomethingElseAfterTheLast) {
  Random random(6);
  for (int rounds = 0; rounds < 300; ++rounds) {
    const Rows rows = AnyRows(random);
    LinePrefetcher prefetch = PrefetcherOf(rows.at, rows.bytes, false);
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

TEST(WithPrefetchesTest, ChoosesLoopsForWhatThereIs) {
  using P = Prefetches;
  const LinePrefetcher nothing;
  EXPECT_EQ((HowOf<LoopBody::kLong, true>(nothing, true)), P::kNone);
  EXPECT_EQ((HowOf<LoopBody::kShortest, true>(nothing, true)), P::kNone);
  EXPECT_EQ((HowOf<LoopBody::kShort, false>(nothing, false)), P::kNone);

  const std::vector<std::byte> memory(4 * kLineBytes);
  const std::vector<const std::byte*> rows = {memory.data()};
  LinePrefetcher some = PrefetcherOf(rows, 4 * kLineBytes, false);
  for (const bool slowly : {false, true}) {
    some.set_slowly(slowly);
    for (const bool into_first : {false, true}) {
      const P cache = into_first ? P::kFirst : P::kSecond;
      EXPECT_EQ((HowOf<LoopBody::kLong, true>(some, into_first)), P::kAny);
      EXPECT_EQ((HowOf<LoopBody::kShort, true>(some, into_first)), cache);
      EXPECT_EQ((HowOf<LoopBody::kShortest, true>(some, into_first)),
                slowly && into_first ? P::kFirstSlowly : cache);
      // Code for processors that do not.
      EXPECT_EQ((HowOf<LoopBody::kShortest, false>(some, into_first)),
                P::kSecond);
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
