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

  Band band(int32_t sequence) const {
    const Sequence& s = sequences[static_cast<size_t>(sequence)];
    return mask.BandOf(sequence, s.rows(), s.columns());
  }

  // What the tile owes the order: pairs that see each other.
  int64_t Pairs(const Tile& tile) const {
    int64_t pairs = 0;
    for (int64_t row = tile.rows.first; row < tile.rows.last; ++row) {
      for (int64_t j = tile.cols.first; j < tile.cols.last; ++j) {
        if (band(tile.sequence).Sees(row / group, j)) ++pairs;
      }
    }
    return pairs;
  }
};

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
  one.shape = {dice.In(1, 16), dice.In(1, 16), dice.In(1, 24)};
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
    std::map<std::tuple<int32_t, int32_t, int64_t, int64_t>, int> covered;
    for (const Tile& tile : one.Build().tiles) {
      for (int64_t row = tile.rows.first; row < tile.rows.last; ++row) {
        for (int64_t j = tile.cols.first; j < tile.cols.last; ++j) {
          const int times = ++covered[{tile.sequence, tile.kv_head, row, j}];
          EXPECT_EQ(times, 1) << "row " << row << " column " << j;
        }
      }
    }
    for (int32_t b = 0; b < static_cast<int32_t>(one.sequences.size()); ++b) {
      const Sequence& sequence = one.sequences[static_cast<size_t>(b)];
      for (int64_t row = 0; row < sequence.rows() * one.group; ++row) {
        for (int64_t j = 0; j < sequence.columns(); ++j) {
          if (!one.band(b).Sees(row / one.group, j)) continue;
          for (int32_t g = 0; g < one.kv_heads; ++g) {
            EXPECT_EQ(covered.count({b, g, row, j}), 1u)
                << "sequence " << b << " row " << row << " column " << j;
          }
        }
      }
    }
  });
}

TEST(Schedule, TilesLieInsideAndAreOfTheShape) {
  ForRandomCases([](const Case& one) {
    for (const Tile& tile : one.Build().tiles) {
      const Sequence& sequence =
          one.sequences.at(static_cast<size_t>(tile.sequence));
      EXPECT_GE(tile.rows.first, 0);
      EXPECT_LE(tile.rows.last, sequence.rows() * one.group);
      EXPECT_EQ(tile.rows.first % one.shape.rows, 0);
      EXPECT_LE(tile.rows.size(), one.shape.rows);
      EXPECT_GE(tile.cols.first, 0);
      EXPECT_LE(tile.cols.last, sequence.columns());
      EXPECT_LE(tile.cols.size(), one.shape.part_cols);
    }
  });
}

TEST(Schedule, EveryTileHasSomethingToDoAndTheCostliestComeFirst) {
  ForRandomCases([](const Case& one) {
    const Schedule schedule = one.Build();
    const auto key = [&](const Tile& tile) {
      return std::tuple(-one.Pairs(tile), tile.sequence, tile.kv_head,
                        tile.rows.first, tile.part);
    };
    for (size_t n = 0; n < schedule.tiles.size(); ++n) {
      EXPECT_GT(one.Pairs(schedule.tiles[n]), 0);
      if (n > 0) {
        EXPECT_LT(key(schedule.tiles[n - 1]), key(schedule.tiles[n]));
      }
    }
  });
}

TEST(Schedule, PartsAreNumberedWithoutHolesAndAscendWithTheirColumns) {
  ForRandomCases([](const Case& one) {
    const Schedule schedule = one.Build();
    std::map<std::tuple<int32_t, int32_t, int64_t>, std::map<int32_t, Range>>
        blocks;
    for (const Tile& tile : schedule.tiles) {
      blocks[{tile.sequence, tile.kv_head, tile.rows.first}][tile.part] =
          tile.cols;
    }
    int32_t most = 1;
    for (const auto& [block, parts] : blocks) {
      int32_t expected = 0;
      int64_t last = 0;
      for (const auto& [part, cols] : parts) {
        EXPECT_EQ(part, expected++);
        EXPECT_GE(cols.first, last);
        last = cols.last;
      }
      most = std::max(most, expected);
    }
    EXPECT_EQ(schedule.parts, most);
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
  ASSERT_EQ(schedule.tiles.size(), 1u);
  EXPECT_EQ(schedule.tiles[0].rows, (Range{0, 8}));
  EXPECT_EQ(schedule.tiles[0].cols, (Range{0, 4096}));
  EXPECT_EQ(schedule.parts, 1);
}

TEST(Schedule, LongRowsAreCutIntoParts) {
  const Schedule schedule = One(1, 10000, Causal()).Build();
  ASSERT_EQ(schedule.tiles.size(), 3u);
  EXPECT_EQ(schedule.parts, 3);
  EXPECT_EQ(schedule.tiles[2].cols, (Range{8192, 10000}));
}

TEST(Schedule, AWindowFarFromItsPrefixSkipsWhatIsBetween) {
  MaskRule rule = Window(1023, 0);
  rule.band.prefix = 4;
  const Schedule schedule = One(1, 1'000'000, rule).Build();
  ASSERT_EQ(schedule.tiles.size(), 2u);
  EXPECT_EQ(schedule.tiles[0].cols, (Range{1'000'000 - 1024, 1'000'000}));
  EXPECT_EQ(schedule.tiles[0].part, 1);
  EXPECT_EQ(schedule.tiles[1].cols, (Range{0, 4}));
  EXPECT_EQ(schedule.tiles[1].part, 0);
}

TEST(Schedule, AGapOfLessThanAPartStaysInOneTile) {
  MaskRule rule = Window(1023, 0);
  rule.band.prefix = 4;
  const Schedule schedule = One(1, 4000, rule).Build();
  ASSERT_EQ(schedule.tiles.size(), 1u);
  EXPECT_EQ(schedule.tiles[0].cols, (Range{0, 4000}));
}

TEST(Schedule, NothingVisibleMeansNoTile) {
  EXPECT_TRUE(One(100, 100, TopLeftBand(5, 4)).Build().tiles.empty());
  EXPECT_TRUE(One(100, 0, Causal()).Build().tiles.empty());
  EXPECT_TRUE(One(0, 100, Causal()).Build().tiles.empty());
  EXPECT_EQ(One(0, 100, Causal()).Build().parts, 1);
}

}  // namespace
}  // namespace flashacl
