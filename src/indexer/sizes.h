// SPDX-License-Identifier: Apache-2.0
// Sizes of scratch memory that suffice for every instruction set.
#pragma once

#include <cstdint>

#include "base/range.h"

namespace flashacl::indexer {

inline constexpr int64_t kMaxLanes = 32;  // of a panel
// Keys of a step on matrix registers, of which a panel of heads is loaded from
// L2 once: of 64 rows of 128 channels, two blocks of them and the panel stay in
// L1.
inline constexpr int64_t kMatrixKeys = 64;
// How far blocks of scalars pass the last one (ForBlocks).
inline constexpr int64_t kSpare = 8;

// Heads of a row of the query with room for such blocks, or, where matrix
// registers multiply, for whole panels.
constexpr int64_t PaddedHeads(int64_t heads, bool matrices) {
  return matrices ? RoundUp(heads, kMaxLanes) : heads + kSpare;
}

// Of rows of floats that blocks of four elements, and blocks of scalars, go
// over.
constexpr int64_t PaddedChannels(int64_t channels) {
  return RoundUp(channels + kSpare, 16);
}

// Of sums of keys: whole lines.
inline constexpr int64_t kLine = 16;
constexpr int64_t SumChannels(int64_t channels) {
  return RoundUp(channels, kLine);
}

}  // namespace flashacl::indexer
