// SPDX-License-Identifier: Apache-2.0
// A queue's shares have every line of its rows, eight rows at a time; and the
// loop that takes a share has all its turns and issues all its lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "base/range.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/tile/prefetch_queue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
std::vector<const std::byte*> LinesOf(const LineShare& share) {
  return {share.left().begin(), share.left().end()};
}
LineShare NextOf(PrefetchQueue& queue, int64_t turns) {
  return queue.NextShare(turns);
}
void IssueOf(PrefetchQueue& queue) { queue.Issue(); }
void AddTo(PrefetchQueue& queue, std::span<const std::byte* const> rows,
           int64_t bytes) {
  queue.Add(static_cast<int64_t>(rows.size()), bytes,
            [&](int64_t n) { return rows[static_cast<size_t>(n)]; });
}
// How many lines are left before each turn, and after the last.
std::vector<size_t> LeftByTurn(LineShare share, int64_t turns) {
  std::vector<size_t> left;
  share.ForTurns(turns, [&] { left.push_back(share.left().size()); });
  left.push_back(share.left().size());
  return left;
}
template <class Product>
bool BlockGetsLines(PrefetchQueue& queue, int64_t turns) {
  bool lines = false;
  queue.WithShare<Product>(turns, [&](auto share) {
    lines = !std::is_same_v<decltype(share), NoLines>;
  });
  return lines;
}
struct OtherProduct {};
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::AddTo;
using HWY_NAMESPACE::BlockGetsLines;
using HWY_NAMESPACE::IssueOf;
using HWY_NAMESPACE::kLineBytes;
using HWY_NAMESPACE::LeftByTurn;
using HWY_NAMESPACE::LinesOf;
using HWY_NAMESPACE::NextOf;
using HWY_NAMESPACE::OfFloats;
using HWY_NAMESPACE::OtherProduct;
using HWY_NAMESPACE::PrefetchQueue;

constexpr int64_t kRowBytes = 4096;

// A queue of some rows, and the lines that they have.
struct Queued {
  PrefetchQueue queue;
  std::set<const std::byte*> lines;

  Queued(Random& random, const std::vector<std::byte>& memory) {
    const auto first = reinterpret_cast<uintptr_t>(memory.data());
    const int64_t kinds = random.Within(1, 3);
    int64_t row = 0;
    for (int64_t kind = 0; kind < kinds; ++kind) {
      const int64_t bytes = random.Within(1, 640);
      const int64_t count = random.Within(1, 20);
      for (int64_t n = 0; n < count; ++n, ++row) {
        const uintptr_t from =
            first +
            static_cast<uintptr_t>(row * kRowBytes + random.Within(0, 200));
        queue.Add(reinterpret_cast<const std::byte*>(from), bytes);
        for (uintptr_t at = from / kLineBytes * kLineBytes;
             at < from + static_cast<uintptr_t>(bytes); at += kLineBytes) {
          lines.insert(reinterpret_cast<const std::byte*>(at));
        }
      }
    }
  }
};

std::vector<std::byte> Memory() {
  return std::vector<std::byte>(size_t{64} * kRowBytes);
}

// Calls body(queue, divided somehow; random) for many queues.
template <typename Body>
void ForQueues(Body body) {
  Random random(1);
  const std::vector<std::byte> memory = Memory();
  for (int n = 0; n < 300; ++n) {
    Queued queued(random, memory);
    queued.queue.Divide(random.Within(1, 40), kMaxRowPrefetchLines);
    body(queued, random);
  }
}

TEST(PrefetchQueues, SharesHaveEveryLine) {
  ForQueues([](Queued& queued, Random& random) {
    std::set<const std::byte*> taken;
    for (;;) {
      const auto lines = LinesOf(NextOf(queued.queue, random.Within(8, 256)));
      if (lines.empty()) break;
      ASSERT_LE(lines.size(), static_cast<size_t>(kMaxRowPrefetchLines));
      taken.insert(lines.begin(), lines.end());
    }
    EXPECT_TRUE(std::ranges::includes(taken, queued.lines));
  });
}

// Rows of one length added together, in any number of calls, are those added
// one by one, also where some are null or do not fit.
TEST(PrefetchQueues, ManyRowsAreThoseOneByOne) {
  Random random(5);
  const std::vector<std::byte> memory = Memory();
  for (int n = 0; n < 200; ++n) {
    PrefetchQueue many, one;
    for (int64_t kind = random.Within(1, 4); kind > 0; --kind) {
      const int64_t bytes = random.Within(0, 400);
      std::vector<const std::byte*> rows(static_cast<size_t>(
          random.OneIn(8) ? random.Within(500, 700) : random.Within(0, 40)));
      for (const std::byte*& row : rows) {
        row = random.OneIn(4)
                  ? nullptr
                  : memory.data() + random.Within(0, 60) * kRowBytes +
                        random.Within(0, 200);
        one.Add(row, bytes);
      }
      const std::span<const std::byte* const> all(rows);
      const auto cut = static_cast<size_t>(
          random.Within(0, static_cast<int64_t>(rows.size())));
      AddTo(many, all.first(cut), bytes);
      AddTo(many, all.subspan(cut), bytes);
    }
    const int64_t times = random.Within(1, 40);
    many.Divide(times, kMaxRowPrefetchLines);
    one.Divide(times, kMaxRowPrefetchLines);
    for (bool any = true; any;) {
      const auto lines = LinesOf(NextOf(many, 64));
      ASSERT_EQ(lines, LinesOf(NextOf(one, 64)));
      any = !lines.empty();
    }
  }
}

TEST(PrefetchQueues, SharesAreAsFewAsWereAskedFor) {
  const std::vector<std::byte> memory = Memory();
  PrefetchQueue queue;
  for (int64_t row = 0; row < 32; ++row) {
    queue.Add(memory.data() + row * kRowBytes, 8 * kLineBytes);
  }
  // 32 groups of lines; 36 if rows begin within one.
  queue.Divide(18, kMaxRowPrefetchLines);
  int64_t shares = 0;
  while (!LinesOf(NextOf(queue, 8)).empty()) ++shares;
  EXPECT_LE(shares, 18);
  EXPECT_GE(shares, 12);
}

TEST(PrefetchQueues, LoopsIssueTheirLinesEvenly) {
  ForQueues([](Queued& queued, Random& random) {
    const int64_t turns = random.Within(8, 300);
    const HWY_NAMESPACE::LineShare share = NextOf(queued.queue, turns);
    const size_t count = LinesOf(share).size();
    const std::vector<size_t> left = LeftByTurn(share, turns);
    ASSERT_EQ(static_cast<int64_t>(left.size()), turns + 1);
    EXPECT_EQ(left.back(), 0u);
    // What an eighth of the turns issue each time.
    const auto each =
        static_cast<size_t>(CeilDiv(static_cast<int64_t>(count), turns / 8));
    size_t before = count;
    for (const size_t now : left) {
      EXPECT_LE(before - now, each);
      before = now;
    }
  });
}

TEST(PrefetchQueues, ShortLoopsTakeNoLines) {
  const std::vector<std::byte> memory = Memory();
  PrefetchQueue queue;
  queue.Add(memory.data(), kLineBytes);
  queue.Divide(1);
  EXPECT_TRUE(LinesOf(NextOf(queue, 7)).empty());
  EXPECT_FALSE(LinesOf(NextOf(queue, 8)).empty());
  EXPECT_TRUE(LinesOf(NextOf(queue, 8)).empty());
}

// Whoever prefetches a share, the block or the queue after it: it is taken.
TEST(PrefetchQueues, BlocksOfFloatsGetLargeShares) {
  const std::vector<std::byte> memory = Memory();
  const auto fill = [&](PrefetchQueue& queue, int64_t blocks,
                        bool with_turns = true) {
    queue.Clear();
    for (int64_t row = 0; row < 8; ++row) {
      queue.Add(memory.data() + row * kRowBytes, 1);
      queue.Add(memory.data() + row * kRowBytes, 65);
      queue.Add(memory.data() + row * kRowBytes, 1);
    }
    queue.Divide(blocks, kMaxRowPrefetchLines, with_turns);
  };
  const auto left = [](PrefetchQueue& queue) {
    size_t lines = 0, now = 0;
    do lines += now = LinesOf(NextOf(queue, 64)).size();
    while (now > 0);
    return lines;
  };
  PrefetchQueue queue;
  fill(queue, 10);
  const size_t all = left(queue);
  for (const int64_t blocks : {10, 1000}) {
    const bool large = blocks == 10;
    fill(queue, blocks);
    EXPECT_EQ(BlockGetsLines<OfFloats>(queue, 64), HWY_ARCH_X86 && large);
    const size_t taken = all - left(queue);
    EXPECT_EQ(taken > kMaxPrefetchLines, large) << taken;
    fill(queue, blocks);
    EXPECT_FALSE(BlockGetsLines<OfFloats>(queue, 7));
    EXPECT_EQ(all - left(queue), taken);
    fill(queue, blocks, false);
    EXPECT_FALSE(BlockGetsLines<OfFloats>(queue, 64));
    EXPECT_EQ(all - left(queue), taken);
    fill(queue, blocks);
    EXPECT_FALSE(BlockGetsLines<OtherProduct>(queue, 64));
    EXPECT_EQ(all - left(queue), taken);
    fill(queue, blocks);
    IssueOf(queue);
    EXPECT_EQ(all - left(queue), taken);
  }
}

}  // namespace
}  // namespace flashacl::cpu
