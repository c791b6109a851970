// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/statistics.h"

#include <gtest/gtest.h>

namespace flashacl::tool {
namespace {

TEST(Statistics, KnownValues) {
  const Summary odd = Summarise({5, 1, 4, 2, 3});
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.low, 2);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.high, 4);
  EXPECT_EQ(odd.greatest, 5);
  EXPECT_DOUBLE_EQ(odd.spread(), 1.0 / 3);
  const Summary even = Summarise({4, 2});
  EXPECT_EQ(even.low, 2.5);
  EXPECT_EQ(even.median, 3);
  EXPECT_EQ(even.high, 3.5);
}

TEST(Statistics, OneValueAndNone) {
  const Summary one = Summarise({7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.spread(), 0);
  EXPECT_EQ(Summarise({}).median, 0);
  EXPECT_EQ(Summarise({}).spread(), 0);
}

// What the mean and the deviation cannot say of themselves.
TEST(Statistics, OneWildValueChangesLittle) {
  const Summary calm = Summarise({10, 11, 12, 13, 14, 15, 16, 17, 18});
  const Summary wild = Summarise({10, 11, 12, 13, 14, 15, 16, 17, 1e9});
  EXPECT_EQ(calm.median, wild.median);
  EXPECT_EQ(calm.spread(), wild.spread());
}

}  // namespace
}  // namespace flashacl::tool
