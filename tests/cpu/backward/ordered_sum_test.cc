// SPDX-License-Identifier: Apache-2.0
// OrderedSum follow the schedule: everybody who sees a step has one, in the
// order of tiles, and nobody has it while another does.
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
    shape.split_rows = 0;
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

// By definition: who sees some key of a step has a turn at it.
TEST(OrderedSum, AreThoseOfTheTilesThatSeeAStep) {
  ForRandomProblems(
      500, OrderedSumSpace(), [](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum tickets =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        for (int64_t n = 0; n < cut.schedule.count(); ++n) {
          const Tile tile = cut.schedule.At(n);
          const TileGroup& group = tickets.GroupOf(n);
          ASSERT_LE(group.first, n);
          ASSERT_LT(n, group.first + group.tiles);
          const std::vector<Ticket> of = tickets.Of(n);
          ASSERT_EQ(static_cast<int64_t>(of.size()), group.steps);
          for (int64_t j = 0; j < cut.extent(tile).columns(); ++j) {
            const Ticket& ticket =
                of[static_cast<size_t>(j / group.step_columns)];
            if (!cut.Sees(tile, j)) continue;
            EXPECT_LE(ticket.cols.first, j);
            EXPECT_LT(j, ticket.cols.last);
          }
        }
      });
}

TEST(OrderedSum, AreCountedInTheOrderOfTiles) {
  int64_t shared = 0;
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum tickets =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        for (int64_t n = 0; n < cut.schedule.count();) {
          const TileGroup group = tickets.GroupOf(n);
          std::vector<int32_t> next(static_cast<size_t>(group.steps));
          std::vector<bool> over(next.size());
          for (int64_t end = n + group.tiles; n < end; ++n) {
            const std::vector<Ticket> of = tickets.Of(n);
            for (size_t s = 0; s < of.size(); ++s) {
              if (of[s].cols.empty()) continue;
              EXPECT_FALSE(over[s]);
              shared += next[s] > 0 ? 1 : 0;
              EXPECT_EQ(of[s].before, next[s]++);
              over[s] = of[s].last;
            }
          }
          for (size_t s = 0; s < next.size(); ++s) {
            EXPECT_EQ(over[s], next[s] > 0);
          }
        }
      });
  EXPECT_GT(shared, 1000);
}

// Tiles of a group come in their order, and a group begins only when all but a
// few before it are over.
TEST(OrderedSum, TakeTilesOfAFewGroupsAtATime) {
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const int64_t interleaved = random.Within(1, 5);
        const OrderedSum tickets = cut.MakeOrderedSum(
            {.step_columns = 40, .interleaved = interleaved});
        std::vector<bool> taken(static_cast<size_t>(cut.schedule.count()));
        ASSERT_EQ(tickets.order().size(), taken.size());
        for (const int64_t n : tickets.order()) {
          const TileGroup& group = tickets.GroupOf(n);
          EXPECT_FALSE(taken[static_cast<size_t>(n)]);
          EXPECT_TRUE(n == group.first || taken[static_cast<size_t>(n - 1)]);
          taken[static_cast<size_t>(n)] = true;
          int64_t open = 0;
          for (int64_t m = 0; m < group.first;) {
            const TileGroup& other = tickets.GroupOf(m);
            m += other.tiles;
            open += taken[static_cast<size_t>(m - 1)] ? 0 : 1;
          }
          EXPECT_LT(open, interleaved);
        }
      });
}

TEST(OrderedSum, TellOfKeysThatNobodySees) {
  int64_t unseen = 0;
  ForRandomProblems(
      500, OrderedSumSpace(), [&](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const OrderedSum tickets =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 40)});
        bool all = true;
        for (const Sequence& sequence : p.lengths.sequences) {
          all &= sequence.rows() > 0 || sequence.columns() == 0;
        }
        for (int64_t n = 0; n < cut.schedule.count();) {
          const TileGroup group = tickets.GroupOf(n);
          std::vector<bool> seen(static_cast<size_t>(group.steps));
          for (int64_t end = n + group.tiles; n < end; ++n) {
            const std::vector<Ticket> of = tickets.Of(n);
            for (size_t s = 0; s < of.size(); ++s) {
              if (!of[s].cols.empty()) seen[s] = true;
            }
          }
          all &= std::count(seen.begin(), seen.end(), false) == 0;
        }
        EXPECT_EQ(tickets.SomeKeysAreUnseen(), !all);
        unseen += all ? 0 : 1;
      });
  EXPECT_GT(unseen, 10);
}

// Workers take tiles in order and wait for their turns: they all come, one at a
// time, however few sets of sums there are.
TEST(OrderedSum, ComeOneByOneForAnyNumberOfWorkers) {
  ForRandomProblems(
      100, OrderedSumSpace(), [](const AttentionProblem& p, Random& random) {
        const Cut cut(p, random);
        const int64_t in_flight = random.Within(1, 3);
        OrderedSum tickets =
            cut.MakeOrderedSum({.step_columns = random.Within(1, 20),
                                .interleaved = random.Within(1, in_flight),
                                .in_flight = in_flight});
        // By set of sums: which group adds to it.
        std::vector<std::atomic<int64_t>> owner(static_cast<size_t>(in_flight));
        for (auto& one : owner) one = -1;
        // By tile and step: unguarded on purpose, as one at a time adds.
        std::vector<int64_t> sums(64 * 64);
        std::atomic<int64_t> next{0};
        ShuffledWorkers workers(4, random.Bits());
        workers.ForEach(5, [&](int64_t) {
          for (int64_t k = next++; k < cut.schedule.count(); k = next++) {
            const int64_t n = tickets.order()[static_cast<size_t>(k)];
            const TileGroup& group = tickets.GroupOf(n);
            if (!group.summed()) continue;
            tickets.WaitForSums(group);
            auto& mine = owner[static_cast<size_t>(group.sums % in_flight)];
            EXPECT_LE(mine.load(), group.sums);
            mine = group.sums;
            const std::vector<Ticket> of = tickets.Of(n);
            for (int64_t s = 0; s < group.steps; ++s) {
              const Ticket& ticket = of[static_cast<size_t>(s)];
              if (ticket.cols.empty()) continue;
              tickets.Wait(group, s, ticket);
              int64_t& sum =
                  sums[static_cast<size_t>(group.sums % in_flight * 64 + s)];
              if (ticket.before == 0) sum = 0;
              EXPECT_EQ(sum++, ticket.before);
              EXPECT_EQ(mine.load(), group.sums);
              tickets.Pass(group, s, ticket);
            }
            tickets.Finish(group);
          }
        });
        EXPECT_GE(next.load(), cut.schedule.count());
      });
}

}  // namespace
}  // namespace flashacl::cpu
