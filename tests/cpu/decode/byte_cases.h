// SPDX-License-Identifier: Apache-2.0
// Inputs and expectations of decode over keys and values of 8 bits, whatever
// multiplies them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/cpu/pairs.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {

// Pairs of special numbers among queries and scales.
inline void PutSpecialFactors(Random& random, SmallCase& small) {
  for (const Slot slot : {Slot::kQuery, Slot::kKeyScale, Slot::kValueScale,
                          Slot::kKeyRowScale, Slot::kValueRowScale}) {
    if (small.count(slot) == 0 || random.OneIn(2)) continue;
    PutSpecialPairs(small.count(slot), random, [&](int64_t n, double special) {
      small.Put(slot, n, special);
    });
  }
}

// A number that is not finite among queries, biases, or scales of values.
inline void PutNotFinite(Random& random, SmallCase& small) {
  for (const Slot slot : {Slot::kQuery, Slot::kBias, Slot::kValueRowScale}) {
    if (small.count(slot) == 0 || random.OneIn(2)) continue;
    small.Put(slot, random.Within(0, small.count(slot) - 1),
              OneOf<double>(random, {std::nan(""), kInfinity, -kInfinity}));
  }
}

// Results are NaN, or infinite, in the same places.
inline void ExpectSameKinds(const SmallCase& want, const SmallCase& got) {
  for (int64_t at = 0; at < want.count(Slot::kOut); ++at) {
    const double x = want.Get(Slot::kOut, at);
    const double y = got.Get(Slot::kOut, at);
    ASSERT_EQ(std::isnan(x), std::isnan(y)) << at;
    ASSERT_EQ(std::isinf(x), std::isinf(y)) << at;
  }
}

}  // namespace flashacl::testing
