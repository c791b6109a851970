// SPDX-License-Identifier: Apache-2.0
// The mask of a problem: bands measured from a corner of the score matrix, so
// that they can be stated before any sequence's length is known.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/band.h"

namespace flashacl {

// A band whose diagonal 0 starts in one corner of the score matrix. From the
// bottom right, diagonal 0 ends where the last query meets the last key.
struct MaskRule {
  enum class Corner : uint8_t { kTopLeft, kBottomRight };

  Corner corner = Corner::kTopLeft;
  Band band;

  // The band of a sequence of `rows` queries and `columns` keys.
  constexpr Band For(int64_t rows, int64_t columns) const {
    const int64_t shift =
        corner == Corner::kBottomRight ? columns - rows : int64_t{0};
    return {band.lower + shift, band.upper + shift, band.prefix};
  }

  constexpr bool operator==(const MaskRule&) const = default;
};

// No rule: everything is seen. One rule: every sequence's. Else one rule per
// sequence. What the tensor in slot kMask hides is hidden besides.
struct Mask {
  std::vector<MaskRule> rules;

  Band BandOf(int64_t sequence, int64_t rows, int64_t columns) const;

  bool operator==(const Mask&) const = default;
};

// The rules the field has names for. Distances beyond Band::kOpen are open.
MaskRule Causal();         // ends in the bottom right corner
MaskRule CausalTopLeft();  // starts in the top left corner
MaskRule Window(int64_t left, int64_t right);  // around the causal diagonal
MaskRule TopLeftBand(int64_t lower, int64_t upper);

}  // namespace flashacl
