// SPDX-License-Identifier: Apache-2.0
// Tickets follow the schedule: every tile that sees a step has one, in the
// order of tiles, and adds while no other does.
#include "cpu/backward/ordered_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "cpu/forward/forward_operands.h"
#include "tests/testing/generator.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::Space;

Space OrderedSumSpace() {
  Space space;
  space.forward = false;
  space.sources = space.device_lengths = false;
  space.most_dim = 4;
  space.most_rows = 60;
  return space;
}

// A problem's tiles, of at most `rows` rows.
struct Cut {
  const AttentionProblem& problem;
  TileShape shape;
  Schedule schedule;

  Cut(const AttentionProblem& p, Random& random) : problem(p) {
    shape.rows = random.Within(1, 30);
    shape.split_rows = shape.split_open_rows = 0;
    shape.by_head = true;
    schedule = BuildSchedule(
        Extent{p.lengths.sequences, &p.mask, p.kv_heads, p.group()}, shape);
  }
  OrderedSum MakeOrderedSum(const OrderedSum::Limits& limits) const {
    return {problem, problem.lengths.sequences, schedule, limits};
  }
  const Sequence& extent(const Tile& tile) const {
    return problem.lengths.sequences[static_cast<size_t>(tile.sequence)];
  }
  bool Sees(const Tile& tile, int64_t j) const {
    const Band band = problem.mask.BandOf(tile.sequence, extent(tile).rows(),
                                          extent(tile).columns());
    for (int64_t row = tile.rows.first; row < tile.rows.last; ++row) {
      if (band.Sees(row / problem.group(), j)) return true;
    }
    return false;
  }
};

// By definition: a tile that sees some key of a step has a ticket.
TEST(OrderedSum, TicketsAreThoseOfTheTilesThatSeeAStep) {
  ForRandomProblems(
      500, OrderedSumSpace(), [](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum ordered_sum =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        for (int64_t n = 0; n < cut.schedule.count(); ++n) {
          const Tile tile = cut.schedule.At(n);
          const HeadTiles& head = ordered_sum.HeadOf(n);
          ASSERT_LE(head.first, n);
          ASSERT_LT(n, head.first + head.tiles);
          ASSERT_GE(head.steps * head.step_columns, cut.extent(tile).columns());
          for (int64_t j = 0; j < cut.extent(tile).columns(); ++j) {
            if (!cut.Sees(tile, j)) continue;
            const Range cols = ordered_sum.SeenStep(n, j / head.step_columns);
            EXPECT_LE(cols.first, j);
            EXPECT_LT(j, cols.last);
          }
        }
      });
}

TEST(OrderedSum, TicketsAreCountedInTheOrderOfTiles) {
  int64_t shared = 0;
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum ordered_sum =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        for (int64_t n = 0; n < cut.schedule.count();) {
          const HeadTiles head = ordered_sum.HeadOf(n);
          std::vector<int32_t> next(static_cast<size_t>(head.steps));
          std::vector<bool> over(next.size());
          for (int64_t end = n + head.tiles; n < end; ++n) {
            for (size_t s = 0; s < next.size(); ++s) {
              const auto step = static_cast<int64_t>(s);
              if (ordered_sum.SeenStep(n, step).empty()) continue;
              const Ticket ticket = ordered_sum.TicketOf(n, step);
              EXPECT_FALSE(over[s]);
              shared += next[s] > 0 ? 1 : 0;
              EXPECT_EQ(ticket.before, next[s]++);
              over[s] = ticket.last;
            }
          }
          for (size_t s = 0; s < next.size(); ++s) {
            EXPECT_EQ(over[s], next[s] > 0);
          }
        }
      });
  EXPECT_TRUE(testing::SeenOften(shared, 1000));
}

// Tiles of a head come in their order, and a head begins only when all but a
// few before it are over.
TEST(OrderedSum, TakesTilesOfAFewGroupsAtATime) {
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const int64_t interleaved = random.Within(1, 5);
        const OrderedSum ordered_sum = cut.MakeOrderedSum(
            {.step_columns = 40, .interleaved = interleaved});
        std::vector<bool> taken(static_cast<size_t>(cut.schedule.count()));
        ASSERT_EQ(ordered_sum.order().size(), taken.size());
        for (const int64_t n : ordered_sum.order()) {
          const HeadTiles& head = ordered_sum.HeadOf(n);
          EXPECT_FALSE(taken[static_cast<size_t>(n)]);
          EXPECT_TRUE(n == head.first || taken[static_cast<size_t>(n - 1)]);
          taken[static_cast<size_t>(n)] = true;
          int64_t open = 0;
          for (int64_t m = 0; m < head.first;) {
            const HeadTiles& other = ordered_sum.HeadOf(m);
            m += other.tiles;
            open += taken[static_cast<size_t>(m - 1)] ? 0 : 1;
          }
          EXPECT_LT(open, interleaved);
        }
      });
}

TEST(OrderedSum, TellsOfKeysThatNobodySees) {
  int64_t unseen = 0;
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum ordered_sum =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        bool all = true;
        for (const Sequence& sequence : p.lengths.sequences) {
          all &= sequence.rows() > 0 || sequence.columns() == 0;
        }
        for (int64_t n = 0; n < cut.schedule.count();) {
          const HeadTiles head = ordered_sum.HeadOf(n);
          std::vector<bool> seen(static_cast<size_t>(head.steps));
          for (int64_t end = n + head.tiles; n < end; ++n) {
            for (size_t s = 0; s < seen.size(); ++s) {
              const auto step = static_cast<int64_t>(s);
              if (!ordered_sum.SeenStep(n, step).empty()) seen[s] = true;
            }
          }
          all &= std::count(seen.begin(), seen.end(), false) == 0;
        }
        EXPECT_EQ(ordered_sum.SomeKeysAreUnseen(), !all);
        unseen += all ? 0 : 1;
      });
  EXPECT_TRUE(testing::SeenOften(unseen, 10));
}

// Workers take tiles in order and wait for their tickets: all come, one at a
// time, however few accumulators there are.
TEST(OrderedSum, TicketsComeOneByOneForAnyNumberOfWorkers) {
  ForRandomProblems(
      100, OrderedSumSpace(), [](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const int64_t in_flight = random.Within(1, 3);
        OrderedSum ordered_sum =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 20),
                                .interleaved = random.Within(1, in_flight),
                                .in_flight = in_flight});
        // By accumulator: which head adds to it.
        std::vector<std::atomic<int64_t>> owner(static_cast<size_t>(in_flight));
        for (auto& one : owner) one = -1;
        // By tile and step: unguarded on purpose, as one at a time adds.
        std::vector<int64_t> sums(64 * 64);
        std::atomic<int64_t> next{0};
        ShuffledWorkers workers(4, random.Bits());
        workers.ForEach(5, [&](int64_t) {
          for (int64_t k = next++; k < cut.schedule.count(); k = next++) {
            const int64_t n = ordered_sum.order()[static_cast<size_t>(k)];
            const HeadTiles& head = ordered_sum.HeadOf(n);
            if (!head.summed()) continue;
            ordered_sum.WaitForAccumulator(head);
            auto& mine =
                owner[static_cast<size_t>(head.accumulator % in_flight)];
            EXPECT_LE(mine.load(), head.accumulator);
            mine = head.accumulator;
            for (int64_t s = 0; s < head.steps; ++s) {
              if (ordered_sum.SeenStep(n, s).empty()) continue;
              const Ticket ticket = ordered_sum.TicketOf(n, s);
              ordered_sum.Wait(head, s, ticket);
              int64_t& sum = sums[static_cast<size_t>(
                  head.accumulator % in_flight * 64 + s)];
              if (ticket.before == 0) sum = 0;
              EXPECT_EQ(sum++, ticket.before);
              EXPECT_EQ(mine.load(), head.accumulator);
              ordered_sum.Pass(head, s, ticket);
            }
            ordered_sum.Finish(head);
          }
        });
        EXPECT_GE(next.load(), cut.schedule.count());
      });
}

// A head begins when all tiles of the one that had its accumulator are over:
// who gave up is told instead of waiting.
TEST(OrderedSum, AnAccumulatorIsFreeWhenItsHeadIsOver) {
  int64_t waited = 0;
  ForRandomProblems(
      300, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const int64_t in_flight = random.Within(1, 3);
        OrderedSum ordered_sum = cut.MakeOrderedSum(
            {.step_columns = random.Within(1, 20), .in_flight = in_flight});
        ordered_sum.GiveUp();
        std::vector<const HeadTiles*> summed;
        for (const HeadTiles& head : ordered_sum.heads()) {
          if (head.summed()) summed.push_back(&head);
        }
        for (size_t n = 0; n < summed.size(); ++n) {
          const HeadTiles& head = *summed[n];
          ASSERT_EQ(head.accumulator, static_cast<int64_t>(n));
          if (head.accumulator < in_flight) {
            EXPECT_TRUE(ordered_sum.WaitForAccumulator(head));
            continue;
          }
          const HeadTiles& owner = *summed[n - static_cast<size_t>(in_flight)];
          for (int64_t tile = 0; tile < owner.tiles; ++tile) {
            EXPECT_FALSE(ordered_sum.WaitForAccumulator(head));
            ordered_sum.Finish(owner);
          }
          EXPECT_TRUE(ordered_sum.WaitForAccumulator(head));
          ++waited;
        }
      });
  EXPECT_TRUE(testing::SeenOften(waited, 30));
}

// A worker that leaves in the middle ends all waits for it, now and later.
TEST(OrderedSum, NobodyWaitsForAWorkerThatGaveUp) {
  ForRandomProblems(
      100, OrderedSumSpace(), [](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        OrderedSum ordered_sum =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 20),
                                .interleaved = 1,
                                .in_flight = 1});
        const int64_t leaves_at = random.Within(0, cut.schedule.count());
        std::atomic<int64_t> next{0};
        ShuffledWorkers workers(4, random.Bits());
        workers.ForEach(4, [&](int64_t) {
          for (int64_t k = next++; k < cut.schedule.count(); k = next++) {
            if (k == leaves_at) return ordered_sum.GiveUp();
            const int64_t n = ordered_sum.order()[static_cast<size_t>(k)];
            const HeadTiles& head = ordered_sum.HeadOf(n);
            if (!head.summed()) continue;
            if (!ordered_sum.WaitForAccumulator(head)) return;
            for (int64_t s = 0; s < head.steps; ++s) {
              if (ordered_sum.SeenStep(n, s).empty()) continue;
              const Ticket ticket = ordered_sum.TicketOf(n, s);
              if (!ordered_sum.Wait(head, s, ticket)) return;
              ordered_sum.Pass(head, s, ticket);
            }
            ordered_sum.Finish(head);
          }
        });
      });
}

}  // namespace
}  // namespace flashacl::cpu
