// SPDX-License-Identifier: Apache-2.0
// Versions of the backward lack rows of one table, which pairs every gradient
// with what it is the gradient of.
#include "ops/training_backward.h"

#include <gtest/gtest.h>

#include <utility>

namespace flashacl::ops::backward {
namespace {

TEST(TableWithout, LacksThoseRowsOnly) {
  constexpr Table table = TableWithout({kKeyRope, kDkRope});
  for (int row = 0; row < kRows; ++row) {
    const bool absent = row == kKeyRope || row == kDkRope;
    EXPECT_EQ(table[row].need == acl::Need::kAbsent, absent) << row;
    EXPECT_EQ(table[row].name, kTable[row].name);
    EXPECT_EQ(table[row].output, row >= kDq);
  }
}

TEST(Table, GradientsHaveTheTypesOfWhatTheyBelongTo) {
  const std::pair<Row, Row> pairs[] = {
      {kDq, kQuery},         {kDk, kKey},         {kDv, kValue},
      {kDqRope, kQueryRope}, {kDkRope, kKeyRope}, {kDsink, kSink}};
  for (const auto& [gradient, of] : pairs) {
    EXPECT_EQ(kTable[gradient].dtypes, kTable[of].dtypes);
    EXPECT_EQ(kTable[gradient].need, kTable[of].need);
  }
}

}  // namespace
}  // namespace flashacl::ops::backward
