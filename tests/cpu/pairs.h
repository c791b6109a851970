// SPDX-License-Identifier: Apache-2.0
// What tests of pairs of bf16 share: numbers that an instruction may treat as
// it likes, and comparisons to the bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/pair_dots.h"
#include "tests/cpu/runs.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline constexpr std::array kSpecialPairs = {
    std::numeric_limits<double>::quiet_NaN(),
    kInfinity,
    -kInfinity,
    0x1.FEp127,
    -0x1.FEp127,
    0x1p-126,
    -0x1p-133,
    0x1.FCp-127,
    0x1p33,
    0x1p-60,
    -0.0};

// Puts such numbers into some of `count` places: put(place, number).
template <typename Put>
void PutSpecialPairs(int64_t count, Random& random, Put put) {
  for (int64_t n = random.Within(1, 4); n > 0; --n) {
    const int64_t which = random.Within(0, std::ssize(kSpecialPairs) - 1);
    put(random.Within(0, count - 1), kSpecialPairs[static_cast<size_t>(which)]);
  }
}

// Small multiples of 2^-130 for `tiny`, of 2^126 for `large`: an instruction
// that makes 0 of subnormals has every product 0.
inline double TinyNumber(int64_t n) {
  return static_cast<double>(n % 7 - 3) * 0x1p-130;
}
inline double LargeNumber(int64_t n) {
  return static_cast<double>(n % 5 - 2) * 0x1p126;
}

inline void FillTinyAndLarge(SmallCase& small, Slot tiny, Slot large) {
  for (int64_t n = 0; n < small.count(tiny); ++n) {
    small.Put(tiny, n, TinyNumber(n));
  }
  for (int64_t n = 0; n < small.count(large); ++n) {
    small.Put(large, n, LargeNumber(n));
  }
}

// What may be chosen on this processor, where vector code has the instruction
// or not.
inline std::vector<cpu::PairDots> PairDotsHere(bool has_instruction) {
  std::vector<cpu::PairDots> here = {cpu::PairDots::kMultiplyAdds};
  if (!has_instruction || cpu::HasPairInstruction()) {
    here.push_back(cpu::PairDots::kInstruction);
  }
  return here;
}

// All results that are not a NaN, to the bit.
inline void ExpectSameButNaN(const SmallCase& a, const SmallCase& b) {
  for (const Slot slot : ResultsOf(a.problem())) {
    for (int64_t n = 0; n < a.count(slot); ++n) {
      const double x = a.Get(slot, n), y = b.Get(slot, n);
      if (std::isnan(x) && std::isnan(y)) continue;
      ASSERT_EQ(std::bit_cast<uint64_t>(x), std::bit_cast<uint64_t>(y))
          << Name(slot) << " at " << n << ": " << x << " and " << y;
    }
  }
}

// The same but for roundings, of both results and of scores that cancel: of
// sums that are rounded in another way (cpu::kInstructionSumsAsFloats).
inline void ExpectNear(const SmallCase& a, const SmallCase& b) {
  for (const Slot slot : ResultsOf(a.problem())) {
    double greatest = 1;
    for (int64_t n = 0; n < a.count(slot); ++n) {
      const double x = std::fabs(a.Get(slot, n));
      if (std::isfinite(x)) greatest = std::max(greatest, x);
    }
    for (int64_t n = 0; n < a.count(slot); ++n) {
      const double x = a.Get(slot, n), y = b.Get(slot, n);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (std::isinf(x) || std::isinf(y)) {
        ASSERT_EQ(x, y) << Name(slot) << " at " << n;
      } else {
        ASSERT_NEAR(x, y, 0x1p-6 * std::fabs(x) + 0x1p-8 * greatest)
            << Name(slot) << " at " << n;
      }
    }
  }
}

// `b` are sums by `dots`, `a` by multiply-adds of the same numbers.
inline void ExpectSameBy(cpu::PairDots dots, const SmallCase& a,
                         const SmallCase& b) {
  if (dots == cpu::PairDots::kInstruction && !cpu::kInstructionSumsAsFloats) {
    ExpectNear(a, b);
  } else {
    ExpectSameButNaN(a, b);
  }
}

}  // namespace flashacl::testing
