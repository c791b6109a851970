// SPDX-License-Identifier: Apache-2.0
// Sizes of scratch memory that suffice for every instruction set.
#pragma once

#include <cstdint>

#include "base/range.h"

namespace flashacl::indexer {

inline constexpr int64_t kMaxLanes = 32;  // of a panel
// How far blocks of scalars pass the last one (ForBlocks).
inline constexpr int64_t kSpare = 8;

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
