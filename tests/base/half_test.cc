// SPDX-License-Identifier: Apache-2.0
// Both 16-bit formats, every one of their numbers, and rounding by definition.
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"

namespace flashacl {
namespace {

// A format, by its definition.
struct Format {
  int exponent_bits;
  int fraction_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t (*narrow_double)(double);
};

constexpr Format kFormats[] = {
    {5, 10, F32FromF16, F16FromF32, F16FromF64},
    {8, 7, F32FromBf16, Bf16FromF32, Bf16FromF64},
};

double ByDefinition(const Format& format, uint16_t bits) {
  const int exponent = (bits & 0x7FFF) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int hidden = exponent == 0 ? 0 : 1 << format.fraction_bits;
  const int power =
      (exponent == 0 ? 1 : exponent) - bias - format.fraction_bits;
  return sign * std::ldexp(fraction + hidden, power);
}

TEST(Half, EveryNumberIsWhatItsBitsSay) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const double expected = ByDefinition(format, half);
      const auto widened = static_cast<double>(format.widen(half));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(widened)) << bits;
        ASSERT_TRUE(
            std::isnan(format.widen(format.narrow(format.widen(half)))));
        continue;
      }
      ASSERT_EQ(widened, expected) << bits;
      ASSERT_EQ(std::signbit(widened), bits >= 0x8000) << bits;
      ASSERT_EQ(format.narrow(format.widen(half)), half) << bits;
      ASSERT_EQ(format.narrow_double(expected), half) << bits;
    }
  }
}

// The nearest of two neighbours; the one with an even last bit if both are.
uint16_t NearestByDefinition(const Format& format, double value) {
  const auto infinity = static_cast<uint16_t>(((1 << format.exponent_bits) - 1)
                                              << format.fraction_bits);
  const double magnitude = std::fabs(value);
  uint16_t low = 0;
  uint16_t high = infinity;  // first number greater than magnitude
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (ByDefinition(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = ByDefinition(format, low);
  // One past the greatest stands where the next number would be.
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double above =
      high == infinity ? std::ldexp(1.0, bias + 1) : ByDefinition(format, high);
  const double left = magnitude - below;
  const double right = above - magnitude;
  uint16_t nearest = left < right ? low : high;
  if (left == right) nearest = low % 2 == 0 ? low : high;
  if (magnitude >= above) nearest = infinity;
  return static_cast<uint16_t>(nearest | (std::signbit(value) ? 0x8000 : 0));
}

TEST(Half, RoundsToNearestEven) {
  Random random(4);
  for (const Format& format : kFormats) {
    for (int round = 0; round < 300000; ++round) {
      const auto bits = static_cast<uint32_t>(random.Bits());
      const float value = std::bit_cast<float>(bits);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(format.narrow(value),
                NearestByDefinition(format, static_cast<double>(value)))
          << value;
    }
  }
}

// Halfway between two neighbours, and a little to either side: what rounding
// through float would get wrong.
TEST(Half, DoublesRoundOnce) {
  for (const Format& format : kFormats) {
    const auto infinity = static_cast<uint16_t>(
        ((1 << format.exponent_bits) - 1) << format.fraction_bits);
    for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const double low = ByDefinition(format, bits);
      const double high = ByDefinition(format, static_cast<uint16_t>(bits + 1));
      const double middle = (low + high) / 2;
      const double little = (high - low) * 0x1p-40;
      const auto even = static_cast<uint16_t>(bits + bits % 2);
      ASSERT_EQ(format.narrow_double(middle), even) << bits;
      ASSERT_EQ(format.narrow_double(middle - little), bits);
      ASSERT_EQ(format.narrow_double(middle + little), bits + 1);
      ASSERT_EQ(format.narrow_double(-middle - little), (bits + 1) | 0x8000);
    }
  }
}

TEST(Half, FarNumbersAreInfiniteOrZero) {
  EXPECT_EQ(F16FromF64(1e300), 0x7C00);
  EXPECT_EQ(F16FromF64(-65520.0), 0xFC00);
  EXPECT_EQ(F16FromF64(65519.999), 0x7BFF);
  EXPECT_EQ(Bf16FromF64(-1e300), 0xFF80);
  EXPECT_EQ(F16FromF64(1e-300), 0);
  EXPECT_EQ(Bf16FromF64(-1e-300), 0x8000);
  EXPECT_EQ(Bf16FromF64(3.3895e38), 0x7F7F);
}

}  // namespace
}  // namespace flashacl
