// SPDX-License-Identifier: Apache-2.0
// How the work of a problem is cut: tiles with one owner each, costliest first.
// A pure function of lengths, mask and tile shape; never of the worker count.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/range.h"
#include "base/run_memory.h"
#include "problem/band.h"
#include "problem/lengths.h"
#include "problem/mask.h"

namespace flashacl {

// A block of work with one owner. `split` numbers the column splits of rows
// that are split over several tiles and combined afterwards, in that order.
struct Tile {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  Range rows;  // packed: query position * heads per kv head + head within group
  Range cols;  // the first to the last that one of them sees; may be empty
  int64_t split = 0;
  int64_t num_splits = 1;
  bool last_rows_first = false;  // among the tiles of its sequence

  bool operator==(const Tile&) const = default;
};

struct TileShape {
  int64_t rows = 64;          // most packed rows of one tile
  int64_t row_unit = 1;       // tiles have a multiple of it, but for the last
  int64_t cols = 64;          // columns of one step inside a tile
  int64_t split_keys = 4096;  // a sequence of few rows is cut where its columns
                              // pass a multiple of this
  int64_t split_rows = 64;    // few are at most so many, in one tile
  int64_t split_open_rows = 64;  // few of those whose band is open, as they see
                                 // all columns up to their last; in any tiles
  // Whether all tiles of a kv head are neighbours; else those of equal rows
  // are.
  bool by_head = false;
  // Sequences of so many query positions are cut, others left out.
  Range sequence_rows = kAnyRows;

  static constexpr Range kAnyRows = {1, Band::kOpen};

  bool Cuts(const Sequence& sequence) const {
    const int64_t rows = sequence.rows();
    return sequence_rows.first <= rows && rows < sequence_rows.last;
  }

  bool operator==(const TileShape&) const = default;
};

// What is cut: every sequence for every kv head.
struct Extent {
  std::span<const Sequence> sequences;
  const Mask* mask = nullptr;
  int64_t kv_heads = 1;
  int64_t group = 1;  // query heads per kv head
};

// The tiles of a problem, by number; none of them is stored, so that a plan
// stays small and is quick to make. Every row that is cut is in one tile, or in
// one per split; every visible (row, column) is in exactly one. Costliest
// sequences come first, and of each the rows that see most, of all its kv heads
// unless a shape says otherwise. A long list so ends with its smallest tiles,
// and workers end together.
class Schedule {
 public:
  int64_t count() const { return count_; }
  // The most splits any row has.
  int64_t num_splits() const { return num_splits_; }

  // Rows that are in several splits, counted once for every split they are in.
  int64_t split_rows() const { return split_rows_; }

  Tile At(int64_t number) const;

  // Where a tile is among the split_rows(); the other splits of its rows
  // follow, each with as many rows.
  int64_t SplitRow(int64_t number) const;

  bool operator==(const Schedule&) const = default;

 private:
  friend Schedule BuildSchedule(const Extent& extent, const TileShape& shape);

  // The tiles of one sequence.
  struct Cut {
    int64_t sequence = 0;
    Band band;
    int64_t packed_rows = 0;
    int64_t columns = 0;
    int64_t first = 0;  // number of its first tile
    int64_t tiles = 0;  // of one kv head
    int64_t rows = 0;   // of each tile
    int64_t num_splits = 1;
    int64_t first_split = 0;  // on the grid of splits
    int64_t first_split_row = 0;
    bool last_rows_first = false;

    bool operator==(const Cut&) const = default;
  };

  const Cut& CutOf(int64_t number) const;

  // Where a tile is among those of its sequence.
  struct Place {
    int64_t block;
    int64_t kv_head;
    int64_t split;
  };
  Place PlaceOf(const Cut& cut, int64_t number) const;
  // Rows of tiles that come before the `n`th of a sequence, of one split.
  int64_t RowsBefore(const Cut& cut, int64_t n) const;

  RunVector<Cut> cuts_;
  int64_t kv_heads_ = 1;
  int64_t group_ = 1;
  int64_t split_keys_ = 0;
  bool by_head_ = false;
  int64_t count_ = 0;
  int64_t num_splits_ = 1;
  int64_t split_rows_ = 0;
};

Schedule BuildSchedule(const Extent& extent, const TileShape& shape);

// For Prepared::Describe: how many tiles there are and how large they are. No
// tiles: lengths are on the device, and work is cut when it runs.
std::string Describe(const Schedule& schedule, const TileShape& shape);

// The columns that rows [first, last) of positions see: from the first that one
// of them sees to the last.
Range SeenColumns(const Band& band, Range positions, int64_t columns);

}  // namespace flashacl
