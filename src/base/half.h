// SPDX-License-Identifier: Apache-2.0
// The two 16-bit floating-point formats as bits: float16 (5 exponent bits, 10
// fraction bits) and bfloat16 (8 and 7). Subnormals, infinities and NaNs are
// kept; rounding is to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace flashacl {

constexpr float F32FromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

constexpr uint16_t Bf16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // stays a NaN
  }
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float F32FromF16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) {
    return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  }
  if (exponent == 0) {
    // A subnormal is fraction * 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) |
                              (fraction << 13));
}

constexpr uint16_t F16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u);
  }
  if (magnitude >= 0x477FF000u) {  // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7C00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero
    // Adding 0.5 leaves the fraction in the low bits, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(
      sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

// From double in one rounding: through float, made odd first where it is
// inexact so that the second rounding cannot see a false tie.
constexpr float RoundToOddF32(double value) {
  const float nearest = static_cast<float>(value);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool special = (bits & 0x7F800000u) == 0x7F800000u;
  if (special || static_cast<double>(nearest) == value || (bits & 1u) != 0) {
    return nearest;
  }
  const bool away = value > 0 ? nearest > value : nearest < value;
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

constexpr uint16_t Bf16FromF64(double value) {
  return Bf16FromF32(RoundToOddF32(value));
}

constexpr uint16_t F16FromF64(double value) {
  return F16FromF32(RoundToOddF32(value));
}

}  // namespace flashacl
