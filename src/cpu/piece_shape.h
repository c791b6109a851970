// SPDX-License-Identifier: Apache-2.0
// How many tiles of a schedule are one piece of work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/range.h"
#include "plan/schedule.h"

namespace flashacl::cpu {

// What a worker takes at a time: the tiles of neighbouring kv heads, a head
// bundle, and those of splits of the same rows that follow each other, at most
// so many of each.
struct PieceShape {
  int64_t heads = 1;
  int64_t splits = 1;

  // How many splits a piece has that begins with this tile; 0: none begins
  // here. All pieces of a tile's rows have the same number, but for the last.
  int64_t SplitsFrom(const Tile& tile) const {
    if (tile.kv_head % heads != 0) return 0;
    const int64_t each =
        CeilDiv(tile.num_splits, CeilDiv(tile.num_splits, splits));
    if (tile.split % each != 0) return 0;
    return std::min(each, tile.num_splits - tile.split);
  }

  bool operator==(const PieceShape&) const = default;
};

}  // namespace flashacl::cpu
