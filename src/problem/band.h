// SPDX-License-Identifier: Apache-2.0
// Who sees whom, in closed form: every mask that is not a tensor is three
// integers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/range.h"

namespace flashacl {

enum class TileKind : uint8_t { kEmpty, kFull, kPartial };

// Which keys of one sequence each query sees:
//   row i sees column j  iff  lower <= j - i <= upper,  or  j < prefix.
struct Band {
  static constexpr int64_t kOpen = int64_t{1} << 40;  // beyond any sequence

  int64_t lower = -kOpen;
  int64_t upper = kOpen;
  int64_t prefix = 0;

  constexpr bool Sees(int64_t i, int64_t j) const {
    return (lower <= j - i && j - i <= upper) || j < prefix;
  }

  // The columns row i sees of `columns`, ascending and disjoint; either range
  // may be empty.
  constexpr std::array<Range, 2> Row(int64_t i, int64_t columns) const {
    const Range head{0, std::clamp<int64_t>(prefix, 0, columns)};
    const Range band{std::clamp<int64_t>(i + lower, head.last, columns),
                     std::clamp<int64_t>(i + upper + 1, 0, columns)};
    return {head, band};
  }

  // Exact for kEmpty; kFull may be missed where prefix and band meet inside
  // the tile, which costs a mask but never a wrong result.
  constexpr TileKind Classify(Range rows, Range cols) const {
    const int64_t low = cols.first - (rows.last - 1);   // least j - i
    const int64_t high = (cols.last - 1) - rows.first;  // greatest
    if (cols.last <= prefix || (lower <= low && high <= upper)) {
      return TileKind::kFull;
    }
    const bool apart = high < lower || upper < low || upper < lower;
    return apart && prefix <= cols.first ? TileKind::kEmpty
                                         : TileKind::kPartial;
  }

  constexpr bool operator==(const Band&) const = default;
};

}  // namespace flashacl
