// SPDX-License-Identifier: Apache-2.0
// A small generator whose numbers are the same everywhere and forever, so that
// a seed printed by one machine repeats on another.
#pragma once

#include <cstdint>

namespace flashacl {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(seed) {}

  constexpr uint64_t Bits() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
  }

  // An integer of [low, high], both included; low <= high.
  constexpr int64_t Within(int64_t low, int64_t high) {
    const uint64_t count =
        static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    const uint64_t steps = count == 0 ? Bits() : Bits() % count;
    return static_cast<int64_t>(static_cast<uint64_t>(low) + steps);
  }

  // True once in `times` on average.
  constexpr bool OneIn(int64_t times) { return Within(1, times) == 1; }

  // Uniform in [0, 1).
  constexpr double Fraction() {
    return static_cast<double>(Bits() >> 11) * 0x1p-53;
  }

  // Bell-shaped with mean 0, deviation 1, and never beyond 3.
  constexpr float Bell() {
    const uint64_t bits = Bits();
    const auto sum = static_cast<float>(
        (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF));
    return sum * (2.0f / 65535.0f) - 3.0f;
  }

 private:
  uint64_t state_;
};

}  // namespace flashacl
