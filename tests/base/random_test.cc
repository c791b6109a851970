// SPDX-License-Identifier: Apache-2.0
// The same numbers everywhere, and of the distributions they claim.
#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace flashacl {
namespace {

// Known values: seeds in printed failures must stay good.
TEST(Random, NeverChanges) {
  Random random(0);
  EXPECT_EQ(random.Bits(), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(random.Bits(), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(random.Bits(), 0x06C45D188009454Fu);
}

TEST(Random, WithinReachesBothEnds) {
  Random random(1);
  int64_t counts[5] = {};
  for (int round = 0; round < 5000; ++round) {
    const int64_t value = random.Within(-2, 2);
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 2);
    ++counts[value + 2];
  }
  for (int64_t count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.Within(7, 7), 7);
  random.Within(std::numeric_limits<int64_t>::min(),
                std::numeric_limits<int64_t>::max());
}

TEST(Random, OneInIsOnceInSoMany) {
  Random random(4);
  for (const int64_t times : {1, 2, 5}) {
    int64_t count = 0;
    for (int round = 0; round < 10000; ++round) count += random.OneIn(times);
    EXPECT_NEAR(static_cast<double>(count * times), 10000, 500) << times;
  }
}

TEST(Random, BellIsABell) {
  Random random(2);
  double sum = 0;
  double squares = 0;
  constexpr int kRounds = 100000;
  for (int round = 0; round < kRounds; ++round) {
    const auto value = static_cast<double>(random.Bell());
    ASSERT_LE(std::fabs(value), 3);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kRounds, 0, 0.02);
  EXPECT_NEAR(squares / kRounds, 1, 0.02);
}

TEST(Random, FractionIsBelowOne) {
  Random random(3);
  double sum = 0;
  for (int round = 0; round < 10000; ++round) {
    const double value = random.Fraction();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace flashacl
