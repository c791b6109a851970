// SPDX-License-Identifier: Apache-2.0
// Choices for tests, on top of the generator that repeats everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/random.h"

namespace flashacl::testing {

template <typename T>
T OneOf(Random& random, std::initializer_list<T> choices) {
  const auto last = static_cast<int64_t>(choices.size()) - 1;
  return choices.begin()[random.Within(0, last)];
}

// Of every size alike: small numbers as often as large ones.
inline int64_t Sized(Random& random, int64_t least, int64_t most) {
  const int64_t span = most - least;
  int64_t bits = 0;
  while ((int64_t{1} << bits) <= span) ++bits;
  const int64_t limit = (int64_t{1} << random.Within(0, bits)) - 1;
  return least + random.Within(0, limit < span ? limit : span);
}

}  // namespace flashacl::testing
