// SPDX-License-Identifier: Apache-2.0
// One element of one type as another:
//   float to float      to nearest even
//   float to integer    truncated; NaN is 0; beyond the range, its end
//   integer to integer  modulo 2^bits
//   integer to float    to nearest even, in one rounding
//   anything to bool    whether it is not zero; NaN is true
//   the same type       its bits, but bool
// Without branches where vectors have no table of cases, so that compilers make
// vector code of loops over it.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "elementwise/type.h"

namespace flashacl::elementwise {

// F32FromF16 and F16FromF32, for vectors: all cases are computed, one is taken.
// Comparisons are signed, as the smallest instruction set has no others.
constexpr float WidenF16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7FFFu;
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const auto fraction = static_cast<float>(static_cast<int32_t>(magnitude));
  const uint32_t subnormal = std::bit_cast<uint32_t>(fraction * 0x1p-24f);
  const auto signed_magnitude = static_cast<int32_t>(magnitude);
  uint32_t wide = signed_magnitude < 0x400 ? subnormal : normal;
  wide += signed_magnitude < 0x7C00 ? 0u : 112u << 23;
  return std::bit_cast<float>(wide | sign);
}

constexpr uint16_t NarrowF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto signed_magnitude = static_cast<int32_t>(magnitude);
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + odd) >> 13;
  // Adding 0.5 leaves the fraction in the low bits, rounded by the addition.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      0x3F000000u;
  uint32_t narrow = signed_magnitude < 0x38800000 ? subnormal : normal;
  narrow = signed_magnitude < 0x477FF000 ? narrow : 0x7C00u;
  narrow = signed_magnitude <= 0x7F800000 ? narrow : 0x7E00u;
  return static_cast<uint16_t>(narrow | sign);
}

// A 64-bit integer as a double that other roundings take for it: what does not
// fit leaves a one after the last bit, so that nothing seems to be a tie.
template <typename T>
constexpr double StickyDouble(T value) {
  const bool negative = value < 0;
  auto magnitude = static_cast<uint64_t>(value);
  if (negative) magnitude = 0 - magnitude;
  if (magnitude >> 53 != 0) {
    constexpr uint64_t kDropped = 0x7FF;
    const uint64_t sticky = (magnitude & kDropped) != 0 ? kDropped + 1 : 0;
    magnitude = (magnitude & ~kDropped) | sticky;
  }
  const auto rounded = static_cast<double>(magnitude);
  return negative ? -rounded : rounded;
}

// As a float or double that every other type can be made of without a second
// rounding that shows.
template <typename From>
constexpr auto Widened(From value) {
  if constexpr (std::is_same_v<From, F16>) {
    return WidenF16(value.bits);
  } else if constexpr (std::is_same_v<From, Bf16>) {
    return F32FromBf16(value.bits);
  } else if constexpr (std::is_floating_point_v<From>) {
    return value;
  } else if constexpr (sizeof(From) <= 2) {
    return static_cast<float>(value);
  } else if constexpr (sizeof(From) == 4) {
    return static_cast<double>(value);
  } else {
    return StickyDouble(value);
  }
}

template <typename To, typename Float>
constexpr To Saturated(Float value) {
  // The first float beyond the range: 2^bits, which is exact where the largest
  // integer is not.
  constexpr auto kBeyond =
      static_cast<Float>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  constexpr auto kLeast = static_cast<Float>(std::numeric_limits<To>::min());
  if (value != value) return 0;
  if (value >= kBeyond) return std::numeric_limits<To>::max();
  if (value <= kLeast) return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

template <typename To, typename From>
constexpr To Converted(From value) {
  constexpr bool kFromFloat = std::is_floating_point_v<From> ||
                              std::is_same_v<From, F16> ||
                              std::is_same_v<From, Bf16>;
  if constexpr (std::is_same_v<From, Bool>) {
    return Converted<To>(static_cast<uint8_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, Bool>) {
    if constexpr (std::is_integral_v<From>) {
      return {static_cast<uint8_t>(value != 0)};
    } else {
      return {static_cast<uint8_t>(Widened(value) != 0)};
    }
  } else if constexpr (std::is_same_v<To, F16>) {
    const auto wide = Widened(value);
    if constexpr (std::is_same_v<decltype(wide), const float>) {
      return {NarrowF16(wide)};
    } else {
      return {NarrowF16(RoundToOddF32(wide))};
    }
  } else if constexpr (std::is_same_v<To, Bf16>) {
    const auto wide = Widened(value);
    if constexpr (std::is_same_v<decltype(wide), const float>) {
      return {Bf16FromF32(wide)};
    } else {
      return {Bf16FromF64(wide)};
    }
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (std::is_integral_v<From>) {
      return static_cast<To>(value);
    } else {
      return static_cast<To>(Widened(value));
    }
  } else if constexpr (kFromFloat) {
    return Saturated<To>(Widened(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace flashacl::elementwise
