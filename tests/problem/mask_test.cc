// SPDX-License-Identifier: Apache-2.0
// Bands agree with their definition, and rules with what the field calls them.
#include "problem/mask.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/random.h"
#include "problem/band.h"

namespace flashacl {
namespace {

Band DrawBand(Random& random) {
  Band band;
  if (!random.OneIn(4)) band.lower = random.Within(-20, 20);
  if (!random.OneIn(4)) band.upper = random.Within(-20, 20);
  if (random.OneIn(3)) band.prefix = random.Within(0, 24);
  return band;
}

TEST(Band, RowAgreesWithSees) {
  Random random(1);
  for (int round = 0; round < 200000; ++round) {
    const Band band = DrawBand(random);
    const int64_t columns = random.Within(0, 24);
    const int64_t i = random.Within(0, 24);
    const auto [head, tail] = band.Row(i, columns);
    ASSERT_TRUE(head.empty() || tail.empty() || head.last <= tail.first);
    for (int64_t j = 0; j < columns; ++j) {
      const bool listed = (head.first <= j && j < head.last) ||
                          (tail.first <= j && j < tail.last);
      ASSERT_EQ(listed, band.Sees(i, j))
          << "band " << band.lower << ":" << band.upper << ":" << band.prefix
          << " row " << i << " column " << j << " of " << columns;
    }
    ASSERT_LE(head.last, columns);
    ASSERT_LE(tail.last, columns);
  }
}

// kEmpty is exact; kFull is never wrong and rarely missed.
TEST(Band, ClassifyAgreesWithSees) {
  Random random(2);
  int64_t full = 0;
  int64_t missed = 0;
  for (int round = 0; round < 200000; ++round) {
    const Band band = DrawBand(random);
    const int64_t row = random.Within(0, 20);
    const int64_t column = random.Within(0, 20);
    const Range rows{row, row + random.Within(1, 8)};
    const Range columns{column, column + random.Within(1, 8)};
    int64_t seen = 0;
    for (int64_t i = rows.first; i < rows.last; ++i) {
      for (int64_t j = columns.first; j < columns.last; ++j) {
        seen += band.Sees(i, j);
      }
    }
    const int64_t all = rows.size() * columns.size();
    const TileKind kind = band.Classify(rows, columns);
    ASSERT_EQ(kind == TileKind::kEmpty, seen == 0)
        << "band " << band.lower << ":" << band.upper << ":" << band.prefix
        << " rows " << row << "+" << rows.size() << " columns " << column << "+"
        << columns.size();
    ASSERT_TRUE(kind != TileKind::kFull || seen == all);
    if (seen == all) ++full;
    if (seen == all && kind != TileKind::kFull) ++missed;
  }
  EXPECT_LT(missed, full / 100);
}

// One character per score, one line per row.
std::string Picture(const MaskRule& rule, int64_t rows, int64_t columns) {
  const Band band = rule.For(rows, columns);
  std::string picture;
  for (int64_t i = 0; i < rows; ++i) {
    if (i > 0) picture += " / ";
    for (int64_t j = 0; j < columns; ++j) {
      picture += band.Sees(i, j) ? '1' : '.';
    }
  }
  return picture;
}

MaskRule WithPrefix(MaskRule rule, int64_t prefix) {
  rule.band.prefix = prefix;
  return rule;
}

TEST(MaskRule, LooksAsItsNameSays) {
  EXPECT_EQ(Picture(TopLeftBand(-1, 2), 4, 6),
            "111... / 1111.. / .1111. / ..1111");
  EXPECT_EQ(Picture(CausalTopLeft(), 3, 5), "1.... / 11... / 111..");
  EXPECT_EQ(Picture(Causal(), 3, 5), "111.. / 1111. / 11111");
  EXPECT_EQ(Picture(Causal(), 5, 3), "... / ... / 1.. / 11. / 111");
  EXPECT_EQ(Picture(Window(1, 0), 4, 6), ".11... / ..11.. / ...11. / ....11");
  EXPECT_EQ(Picture(Window(2, -1), 4, 6), "11.... / .11... / ..11.. / ...11.");
  EXPECT_EQ(Picture(WithPrefix(Causal(), 2), 4, 4),
            "11.. / 11.. / 111. / 1111");
  EXPECT_EQ(Picture(WithPrefix(Causal(), 4), 3, 5), "1111. / 1111. / 11111");
  EXPECT_EQ(Picture(WithPrefix(Causal(), 1), 5, 3),
            "1.. / 1.. / 1.. / 11. / 111");
  EXPECT_EQ(Picture(MaskRule{}, 2, 3), "111 / 111");
}

TEST(MaskRule, FarDistancesAreOpen) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Window(kMost, kMost).band, Band{});
  EXPECT_EQ(TopLeftBand(kLeast, kMost).band, Band{});
  EXPECT_EQ(Window(kLeast, kLeast).band.lower, Band::kOpen);
  EXPECT_EQ(Picture(Window(kLeast, kMost), 2, 2), ".. / ..");
}

TEST(Mask, GivesEachSequenceItsRule) {
  Mask mask;
  EXPECT_EQ(mask.BandOf(1, 4, 4), Band{});
  mask.rules = {Causal()};
  EXPECT_EQ(mask.BandOf(1, 4, 6).upper, 2);
  mask.rules = {Causal(), CausalTopLeft()};
  EXPECT_EQ(mask.BandOf(0, 4, 6).upper, 2);
  EXPECT_EQ(mask.BandOf(1, 4, 6).upper, 0);
}

}  // namespace
}  // namespace flashacl
