// SPDX-License-Identifier: Apache-2.0
// The laws of schedules, on thousands of random extents.
#include "plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "base/str.h"

namespace flashacl {
namespace {

// An extent that owns what it points to.
struct Case {
  std::vector<Sequence> sequences;
  Mask mask;
  int64_t kv_heads = 1;
  int64_t group = 1;
  TileShape shape;

  Extent extent() const { return {sequences, &mask, kv_heads, group}; }
  Schedule Build() const { return BuildSchedule(extent(), shape); }

  Band band(int64_t sequence) const {
    const Sequence& s = sequences[static_cast<size_t>(sequence)];
    return mask.BandOf(sequence, s.rows(), s.columns());
  }

  // Pairs of one head of a sequence that see each other.
  int64_t Pairs(int64_t sequence) const {
    const Sequence& s = sequences[static_cast<size_t>(sequence)];
    int64_t pairs = 0;
    for (int64_t i = 0; i < s.rows(); ++i) {
      for (int64_t j = 0; j < s.columns(); ++j) {
        if (band(sequence).Sees(i, j)) ++pairs;
      }
    }
    return pairs;
  }
};

std::vector<Tile> TilesOf(const Schedule& schedule) {
  std::vector<Tile> tiles;
  for (int64_t n = 0; n < schedule.count(); ++n) {
    tiles.push_back(schedule.At(n));
  }
  return tiles;
}

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t In(int64_t low, int64_t high) {  // both included
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool OneIn(int64_t n) { return In(1, n) == 1; }

 private:
  std::mt19937 engine_;
};

MaskRule RandomRule(Dice& dice) {
  Band band;
  if (!dice.OneIn(3)) band.lower = dice.In(-20, 10);
  if (!dice.OneIn(3)) band.upper = dice.In(-10, 20);
  if (dice.OneIn(3)) band.prefix = dice.In(0, 12);
  return {dice.OneIn(2) ? MaskRule::Corner::kTopLeft
                        : MaskRule::Corner::kBottomRight,
          band};
}

Case RandomCase(Dice& dice) {
  Case one;
  int64_t row = 0;
  int64_t key = 0;
  for (int64_t count = dice.In(0, 4); count > 0; --count) {
    const int64_t rows = dice.OneIn(5) ? 0 : dice.In(1, 25);
    const int64_t columns = dice.OneIn(5) ? 0 : dice.In(1, 40);
    one.sequences.push_back({{row, row + rows}, {key, key + columns}});
    row += rows;
    key += columns;
  }
  const size_t rules = dice.OneIn(4)   ? 0
                       : dice.OneIn(2) ? 1
                                       : one.sequences.size();
  for (size_t n = 0; n < rules; ++n) one.mask.rules.push_back(RandomRule(dice));
  one.kv_heads = dice.In(1, 3);
  one.group = dice.In(1, 5);
  one.shape = {dice.In(1, 16), dice.In(1, 4),  dice.In(1, 16), dice.In(1, 24),
               dice.In(0, 20), dice.In(0, 60), dice.OneIn(2)};
  return one;
}

void ForRandomCases(void (*check)(const Case&)) {
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(Str("seed {}", seed));
    Dice dice(seed);
    check(RandomCase(dice));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Schedule, CoversEveryVisiblePairExactlyOnce) {
  ForRandomCases([](const Case& one) {
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> covered;
    for (const Tile& tile : TilesOf(one.Build())) {
      for (int64_t row = tile.rows.first; row < tile.rows.last; ++row) {
        for (int64_t j = tile.cols.first; j < tile.cols.last; ++j) {
          const int times = ++covered[{tile.sequence, tile.kv_head, row, j}];
          EXPECT_EQ(times, 1) << "row " << row << " column " << j;
        }
      }
    }
    for (size_t b = 0; b < one.sequences.size(); ++b) {
      const auto number = static_cast<int64_t>(b);
      for (int64_t row = 0; row < one.sequences[b].rows() * one.group; ++row) {
        for (int64_t j = 0; j < one.sequences[b].columns(); ++j) {
          if (!one.band(number).Sees(row / one.group, j)) continue;
          for (int64_t g = 0; g < one.kv_heads; ++g) {
            EXPECT_EQ(covered.count({number, g, row, j}), 1u)
                << "sequence " << b << " row " << row << " column " << j;
          }
        }
      }
    }
  });
}

// Also rows that see nothing: somebody must say so in the results.
TEST(Schedule, CoversEveryRowOncePerSplit) {
  ForRandomCases([](const Case& one) {
    std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<int64_t>>
        num_splits;
    std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> counts;
    for (const Tile& tile : TilesOf(one.Build())) {
      for (int64_t row = tile.rows.first; row < tile.rows.last; ++row) {
        num_splits[{tile.sequence, tile.kv_head, row}].push_back(tile.split);
        counts[{tile.sequence, tile.kv_head, row}] = tile.num_splits;
      }
    }
    int64_t rows = 0;
    for (const Sequence& sequence : one.sequences) {
      rows += sequence.rows() * one.group * one.kv_heads;
    }
    EXPECT_EQ(static_cast<int64_t>(num_splits.size()), rows);
    for (const auto& [row, numbers] : num_splits) {
      ASSERT_EQ(static_cast<int64_t>(numbers.size()), counts[row]);
      for (size_t n = 0; n < numbers.size(); ++n) {
        EXPECT_EQ(numbers[n], static_cast<int64_t>(n));
      }
    }
  });
}

// As if the others had no rows.
TEST(Schedule, CutsSequencesOfSoManyRowsAlone) {
  ForRandomCases([](const Case& one) {
    Case some = one, rest = one;
    some.shape.sequence_rows = {3, 17};
    for (Sequence& sequence : rest.sequences) {
      const int64_t rows = sequence.rows();
      if (rows < 3 || rows > 16) sequence.queries = {};
    }
    EXPECT_EQ(some.Build(), rest.Build());
  });
}

TEST(Schedule, TilesLieInsideAndAreOfTheShape) {
  ForRandomCases([](const Case& one) {
    for (const Tile& tile : TilesOf(one.Build())) {
      const Sequence& sequence =
          one.sequences.at(static_cast<size_t>(tile.sequence));
      EXPECT_GE(tile.rows.first, 0);
      EXPECT_FALSE(tile.rows.empty());
      EXPECT_LE(tile.rows.last, sequence.rows() * one.group);
      EXPECT_EQ(tile.rows.first % one.shape.row_unit, 0);
      EXPECT_LT(tile.rows.size(), one.shape.rows + one.shape.row_unit);
      EXPECT_GE(tile.cols.first, 0);
      EXPECT_LE(tile.cols.last, sequence.columns());
      if (tile.num_splits > 1) {
        // Other rows of the sequence may see columns that these do not.
        if (tile.rows.size() == sequence.rows() * one.group) {
          EXPECT_FALSE(tile.cols.empty());
        }
        EXPECT_LE(tile.cols.size(), one.shape.split_keys);
      }
    }
  });
}

TEST(Schedule, CostliestSequencesComeFirst) {
  ForRandomCases([](const Case& one) {
    const std::vector<Tile> tiles = TilesOf(one.Build());
    for (size_t n = 1; n < tiles.size(); ++n) {
      const int64_t before = one.Pairs(tiles[n - 1].sequence);
      const int64_t after = one.Pairs(tiles[n].sequence);
      EXPECT_GE(before, after);
      // Heads come first, or blocks of rows.
      if (tiles[n - 1].sequence == tiles[n].sequence) {
        const bool same = tiles[n - 1].rows == tiles[n].rows;
        if (one.shape.by_head || same) {
          EXPECT_LE(tiles[n - 1].kv_head, tiles[n].kv_head);
        }
      } else if (before == after) {
        EXPECT_LT(tiles[n - 1].sequence, tiles[n].sequence);
      }
    }
  });
}

// Where the splits of all tiles lie, they do not touch.
TEST(Schedule, SplitsHavePlacesOfTheirOwn) {
  ForRandomCases([](const Case& one) {
    const Schedule schedule = one.Build();
    std::vector<bool> taken(static_cast<size_t>(schedule.split_rows()), false);
    int64_t most = 1;
    for (int64_t n = 0; n < schedule.count(); ++n) {
      const Tile tile = schedule.At(n);
      most = std::max(most, tile.num_splits);
      if (tile.num_splits == 1) continue;
      for (int64_t row = 0; row < tile.rows.size(); ++row) {
        const auto place = static_cast<size_t>(schedule.SplitRow(n) + row);
        ASSERT_LT(place, taken.size());
        EXPECT_FALSE(taken[place]);
        taken[place] = true;
      }
      // The next split of the same rows follows at once.
      if (tile.split + 1 < tile.num_splits) {
        EXPECT_EQ(schedule.SplitRow(n + 1),
                  schedule.SplitRow(n) + tile.rows.size());
      }
    }
    EXPECT_TRUE(
        std::all_of(taken.begin(), taken.end(), [](bool t) { return t; }));
    EXPECT_EQ(schedule.num_splits(), most);
  });
}

TEST(Schedule, IsAFunctionOfItsArgumentsAlone) {
  ForRandomCases([](const Case& one) {
    EXPECT_EQ(one.Build(), one.Build());
    const Case copy = one;  // other addresses, same values
    EXPECT_EQ(copy.Build(), one.Build());
  });
}

Case One(int64_t rows, int64_t columns, MaskRule rule) {
  return {{{{0, rows}, {0, columns}}}, {{rule}}, 1, 1, {}};
}

TEST(Schedule, AGroupPacksItselfIntoOneTile) {
  Case one = One(1, 4096, Causal());
  one.group = 8;
  const Schedule schedule = one.Build();
  ASSERT_EQ(schedule.count(), 1);
  EXPECT_EQ(schedule.At(0).rows, (Range{0, 8}));
  EXPECT_EQ(schedule.At(0).cols, (Range{0, 4096}));
  EXPECT_EQ(schedule.num_splits(), 1);
}

TEST(Schedule, LongRowsAreSplit) {
  const Schedule schedule = One(1, 10000, Causal()).Build();
  ASSERT_EQ(schedule.count(), 3);
  EXPECT_EQ(schedule.num_splits(), 3);
  EXPECT_EQ(schedule.At(2).cols, (Range{8192, 10000}));
  EXPECT_EQ(schedule.split_rows(), 3);
}

// Splits begin at the same columns whatever sees them.
TEST(Schedule, SplitsLieOnAGrid) {
  const Schedule schedule = One(1, 10000, Window(4999, 0)).Build();
  ASSERT_EQ(schedule.count(), 2);
  EXPECT_EQ(schedule.At(0).cols, (Range{5000, 8192}));
  EXPECT_EQ(schedule.At(1).cols, (Range{8192, 10000}));
}

TEST(Schedule, RowsAreCutAsEvenlyAsTheUnitAllows) {
  Case one = One(300, 64, Causal());
  one.shape = {256, 32, 64, 4096, 64};
  const Schedule schedule = one.Build();
  ASSERT_EQ(schedule.count(), 2);
  // The rows that see most come first.
  EXPECT_EQ(schedule.At(0).rows, (Range{160, 300}));
  EXPECT_EQ(schedule.At(1).rows, (Range{0, 160}));
}

TEST(Schedule, RowsThatSeeNothingAreATileWithoutColumns) {
  const Schedule schedule = One(10, 0, Causal()).Build();
  ASSERT_EQ(schedule.count(), 1);
  EXPECT_EQ(schedule.At(0).rows, (Range{0, 10}));
  EXPECT_TRUE(schedule.At(0).cols.empty());
  EXPECT_TRUE(One(10, 10, TopLeftBand(5, 4)).Build().At(0).cols.empty());
}

TEST(Schedule, NoRowsMeanNoTile) {
  EXPECT_EQ(One(0, 100, Causal()).Build().count(), 0);
  EXPECT_EQ(One(0, 100, Causal()).Build().num_splits(), 1);
}

}  // namespace
}  // namespace flashacl
