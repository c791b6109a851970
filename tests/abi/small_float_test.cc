// SPDX-License-Identifier: Apache-2.0
//
// fp16_t and bfloat16 hold exactly the numbers of their formats, and everything
// else becomes the nearest of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

namespace {

// The format of a type as the definition of its numbers needs it.
struct Half {
  using Type = op::fp16_t;
  static constexpr int kBias = 15;
  static constexpr int kMantissa = 10;
  static uint16_t Bits(Type number) { return number.val; }
};

struct Bfloat {
  using Type = op::bfloat16;
  static constexpr int kBias = 127;
  static constexpr int kMantissa = 7;
  static uint16_t Bits(Type number) { return number.value; }
};

template <typename Format>
class SmallFloat : public testing::Test {
 protected:
  using F = typename Format::Type;
  static constexpr uint16_t kInfinity = (2 * Format::kBias + 1)
                                        << Format::kMantissa;

  static F FromBits(int bits) { return F(static_cast<uint16_t>(bits)); }

  // What `bits` stand for, from the definition; infinity is what would be the
  // next number, which is what rounding compares with.
  static double Define(uint16_t bits) {
    const int magnitude = bits & 0x7FFF;
    const int exponent = magnitude >> Format::kMantissa;
    const int mantissa = magnitude & ((1 << Format::kMantissa) - 1);
    const int hidden = exponent == 0 ? 0 : 1 << Format::kMantissa;
    const int scale =
        (exponent == 0 ? 1 : exponent) - Format::kBias - Format::kMantissa;
    const double size = std::ldexp(hidden + mantissa, scale);
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

using Formats = testing::Types<Half, Bfloat>;
TYPED_TEST_SUITE(SmallFloat, Formats);

TYPED_TEST(SmallFloat, EveryPatternIsItsNumberAndComesBack) {
  using F = typename TypeParam::Type;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const F number = TestFixture::FromBits(bits);
    ASSERT_EQ(TypeParam::Bits(number), bits);
    const int magnitude = bits & 0x7FFF;
    if (magnitude > TestFixture::kInfinity) {
      ASSERT_TRUE(std::isnan(number)) << bits;
      const int quiet = bits | (1 << (TypeParam::kMantissa - 1));
      ASSERT_EQ(TypeParam::Bits(F(number.toFloat())), quiet) << bits;
      continue;
    }
    const double defined =
        magnitude == TestFixture::kInfinity
            ? std::copysign(std::numeric_limits<double>::infinity(),
                            bits < 0x8000 ? 1.0 : -1.0)
            : TestFixture::Define(static_cast<uint16_t>(bits));
    ASSERT_EQ(number.toDouble(), defined) << bits;
    ASSERT_EQ(TypeParam::Bits(F(number.toFloat())), bits);
    ASSERT_EQ(TypeParam::Bits(F(number.toDouble())), bits);
  }
}

// Between any two neighbours, the last being infinity: the middle goes to the
// even one, everything else to the nearer one.
TYPED_TEST(SmallFloat, RoundsToNearestEven) {
  using F = typename TypeParam::Type;
  for (uint16_t low = 0; low < TestFixture::kInfinity; ++low) {
    const uint16_t high = low + 1;
    const double a = TestFixture::Define(low);
    const double b = TestFixture::Define(high);
    const double middle = (a + b) / 2;
    const uint16_t even = (low & 1) == 0 ? low : high;
    for (const int sign : {0, 0x8000}) {
      const double s = sign == 0 ? 1 : -1;
      ASSERT_EQ(TypeParam::Bits(F(s * middle)), sign | even) << low;
      ASSERT_EQ(TypeParam::Bits(F(s * std::nextafter(middle, a))), sign | low);
      ASSERT_EQ(TypeParam::Bits(F(s * std::nextafter(middle, b))), sign | high);
    }
  }
}

TYPED_TEST(SmallFloat, TheSmallestAndTheLargestDoubles) {
  using F = typename TypeParam::Type;
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(TypeParam::Bits(F(Limits::denorm_min())), 0);
  EXPECT_EQ(TypeParam::Bits(F(-Limits::denorm_min())), 0x8000);
  EXPECT_EQ(TypeParam::Bits(F(Limits::max())), TestFixture::kInfinity);
  EXPECT_EQ(F(Limits::max()).IsInf(), 1);
  EXPECT_EQ(F(-Limits::max()).IsInf(), -1);
  EXPECT_EQ(F(1).IsInf(), 0);
}

// Sums and products are the exact ones, rounded once.
TYPED_TEST(SmallFloat, ArithmeticRoundsOnce) {
  using F = typename TypeParam::Type;
  for (int i = 0; i < 0x10000; i += 97) {
    for (int j = 1; j < 0x10000; j += 113) {
      const F a = TestFixture::FromBits(i);
      const F b = TestFixture::FromBits(j);
      const double x = a.toDouble();
      const double y = b.toDouble();
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      ASSERT_EQ(TypeParam::Bits(a * b), TypeParam::Bits(F(x * y))) << i << j;
      // Sums of numbers far apart do not fit a double; those are one of them.
      const double sum = x + y;
      if (sum - x == y && sum - y == x) {
        ASSERT_EQ(TypeParam::Bits(a + b), TypeParam::Bits(F(sum))) << i << j;
      }
      ASSERT_EQ(a < b, x < y);
      ASSERT_EQ(a == b, x == y);
      ASSERT_EQ(a >= b, x >= y);
    }
  }
}

TYPED_TEST(SmallFloat, MixesWithNumbers) {
  using F = typename TypeParam::Type;
  const F three = 3;
  static_assert(std::is_same_v<decltype(three * 2), F>);
  static_assert(std::is_same_v<decltype(three * 2.0f), float>);
  static_assert(std::is_same_v<decltype(2.0 * three), double>);
  EXPECT_EQ((three * 2).toFloat(), 6);
  EXPECT_EQ(three / 2.0f, 1.5f);
  EXPECT_EQ(1 - three, -2);
  EXPECT_TRUE(three > 2.5 && 3 == three && three != 3.5f);
  double sum = 1;
  sum += three;
  EXPECT_EQ(sum, 4);
  F number = three;
  number -= 1;
  number *= three;
  EXPECT_EQ(-number, -6);
  EXPECT_EQ(std::abs(-number), number);
}

// uint16_t constructs from bits but assigns a value; all else is a value.
TYPED_TEST(SmallFloat, ConstructsFromBitsAndAssignsValues) {
  using F = typename TypeParam::Type;
  const uint16_t two = 2;
  EXPECT_EQ(TypeParam::Bits(F(two)), 2);
  F number;
  EXPECT_EQ(TypeParam::Bits(number), 0);
  number = two;
  EXPECT_EQ(number.toFloat(), 2);
  const std::vector<F> ones(3, 1);
  EXPECT_EQ(ones.back().toFloat(), 1);
}

TYPED_TEST(SmallFloat, ConvertsToIntegersTowardsZeroAndWithinRange) {
  using F = typename TypeParam::Type;
  EXPECT_EQ(static_cast<int>(F(-2.75)), -2);
  EXPECT_EQ(F(200).toInt8(), 127);
  EXPECT_EQ(F(-200).toInt8(), -128);
  EXPECT_EQ(F(-1).toUInt32(), 0u);
  const F infinity(std::numeric_limits<double>::infinity());
  EXPECT_EQ(infinity.toInt32(), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(static_cast<uint64_t>(infinity),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(static_cast<int64_t>(-infinity),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(F(std::nan("")).toInt32(), 0);
  EXPECT_TRUE(static_cast<bool>(F(0.5)) && !static_cast<bool>(F(-0.0)));
}

TEST(SmallFloats, KnownPatterns) {
  EXPECT_EQ(op::fp16_t(1).val, 0x3C00);
  EXPECT_EQ(op::fp16_t(65504).val, 0x7BFF);
  EXPECT_EQ(op::fp16_t(65520).val, 0x7C00);
  EXPECT_EQ(op::fp16_t(5.9604645e-8).val, 0x0001);
  EXPECT_EQ(op::bfloat16(1).value, 0x3F80);
  EXPECT_EQ(op::bfloat16(3.3895314e38f).value, 0x7F7F);
  static_assert(sizeof(op::fp16_t) == 2 && sizeof(op::bfloat16) == 2);
  static_assert(std::is_trivially_copyable_v<op::fp16_t>);
}

}  // namespace
