// SPDX-License-Identifier: Apache-2.0
// What fits the caches, and how far apart rows of floats lie in scratch memory:
// the same on every instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/range.h"

namespace flashacl::cpu {

inline constexpr int64_t kLineFloats = 16;  // of a cache line
inline constexpr int64_t kMaxLanes = 16;    // floats of a vector
inline constexpr int64_t kMaxPanelRows = 2 * kMaxLanes;

// A panel is written in blocks of four channels, which pass the end of the last
// panel by up to three.
inline constexpr int64_t kPanelOverrun = 4 * kMaxPanelRows;

// The last block of a step's keys may pass the last key.
inline constexpr int64_t kKeysOverrun = 32;

// How many items of `each` bytes fit into `bytes`: at most `most`, in whole
// units, of which there is one at least.
constexpr int64_t CountThatFits(double bytes, int64_t each, int64_t most,
                                int64_t unit) {
  const int64_t count =
      static_cast<int64_t>(bytes) / std::max<int64_t>(each, 1);
  return std::max(unit, std::min(count, most) / unit * unit);
}

// An odd number of cache lines: rows then spread over all sets of a cache.
constexpr int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, kLineFloats) | 1) * kLineFloats;
}

// Room for `count` rows or channels in blocks, which may pass the last by less
// than 8 (ForBlocks).
constexpr int64_t BlocksRoom(int64_t count) { return RoundUp(count, 4) + 8; }

// From row to row where blocks read channels past a row's last.
constexpr int64_t RowStride(int64_t channels) { return OddLines(channels + 8); }

// From row to row where channels lie in lanes: whole panels of them.
constexpr int64_t PanelStride(int64_t channels) {
  return OddLines(RoundUp(std::max<int64_t>(channels, 1), kMaxPanelRows));
}

inline constexpr int64_t kMatrixNumbers = 32;  // of bf16, along k of a matrix

inline constexpr int64_t kHeadBlock = 32;  // heads that fill matrices along k

// Words from channel to channel of values that lie by channels, two keys to a
// word: 32 more keys than a step has, and then up to whole matrices.
constexpr int64_t MatrixStride(int64_t step_keys) {
  return OddLines((step_keys + 2 * kMatrixNumbers) / 2);
}

}  // namespace flashacl::cpu
