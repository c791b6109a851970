// SPDX-License-Identifier: Apache-2.0
// How the work of a problem is cut: tiles with one owner each, costliest first.
// A pure function of lengths, mask and tile shape; never of the worker count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/range.h"
#include "problem/lengths.h"
#include "problem/mask.h"

namespace flashacl {

// A block of work with one owner. `part` numbers the column parts of a row
// block that is split over several tiles and merged afterwards, in that order.
struct Tile {
  int32_t sequence;
  int32_t kv_head;
  Range rows;  // packed: query position * heads per kv head + head within group
  Range cols;
  int32_t part;

  bool operator==(const Tile&) const = default;
};

struct TileShape {
  int64_t rows = 64;         // packed rows of one tile
  int64_t cols = 64;         // columns of one step inside a tile
  int64_t part_cols = 4096;  // a row block with more visible columns is split
                             // into parts of this many
};

struct Schedule {
  std::vector<Tile> tiles;
  int32_t parts = 1;  // the most parts any row block has

  bool operator==(const Schedule&) const = default;
};

// What is cut: every sequence for every kv head.
struct Extent {
  std::span<const Sequence> sequences;
  const Mask* mask = nullptr;
  int64_t kv_heads = 1;
  int64_t group = 1;  // query heads per kv head
};

// Every visible (row, column) is in exactly one tile; every tile has one; tiles
// with most of them first; ties in order of sequence, kv head, rows, part. The
// parts of a row block ascend with their columns.
Schedule BuildSchedule(const Extent& extent, const TileShape& shape);

}  // namespace flashacl
