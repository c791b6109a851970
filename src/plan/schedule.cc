// SPDX-License-Identifier: Apache-2.0
// Cuts score matrices into tiles: blocks of packed rows, each with the columns
// that its rows see, in parts.
#include "plan/schedule.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "plan/work.h"

namespace flashacl {
namespace {

struct Costed {
  double cost;
  Tile tile;
};

// Cuts one sequence; every kv head gets the same tiles.
struct Cutter {
  const TileShape& shape;
  Band band;
  int64_t group;
  int64_t columns;
  std::vector<Costed> cuts;

  // Visible (packed row, column) pairs. The outermost positions may lie in the
  // block with only some of their heads.
  double Cost(Range rows, Range cols) const {
    const Range i{rows.first / group, CeilDiv(rows.last, group)};
    const auto missing_first =
        static_cast<double>(rows.first - i.first * group);
    const auto missing_last = static_cast<double>(i.last * group - rows.last);
    return static_cast<double>(group) * VisiblePairs(band, i, cols) -
           missing_first * VisiblePairs(band, {i.first, i.first + 1}, cols) -
           missing_last * VisiblePairs(band, {i.last - 1, i.last}, cols);
  }

  void Add(Range rows, Range cols, int32_t part) {
    // Sequence and kv head follow when the cuts are dealt out.
    cuts.push_back({Cost(rows, cols), {0, 0, rows, cols, part}});
  }

  // The columns the rows of a block see: those of the prefix, then those of the
  // band. Neighbouring rows' bands overlap, so their union has no holes.
  std::array<Range, 2> Seen(Range rows) const {
    const int64_t head = std::clamp<int64_t>(band.prefix, 0, columns);
    if (band.upper < band.lower) return {Range{0, head}, Range{}};
    const int64_t first = rows.first / group + band.lower;
    const int64_t last = CeilDiv(rows.last, group) + band.upper;
    return {Range{0, head}, Range{std::clamp(first, head, columns),
                                  std::clamp(last, head, columns)}};
  }

  void CutBlock(Range rows) {
    const auto [head, tail] = Seen(rows);
    // A gap costs a look at each step it spans; one of less than a part is
    // cheaper than another part to merge.
    const bool together = !head.empty() && !tail.empty() &&
                          tail.first - head.last < shape.part_cols;
    if (together) {
      CutParts(rows, {head.first, tail.last}, 0);
    } else {
      CutParts(rows, tail, CutParts(rows, head, 0));
    }
  }

  void CutSequence(int64_t packed_rows) {
    for (int64_t i = 0; i < packed_rows; i += shape.rows) {
      CutBlock({i, std::min(i + shape.rows, packed_rows)});
    }
  }

  // Cuts `cols` into parts numbered from `part`; returns the next number.
  int32_t CutParts(Range rows, Range cols, int32_t part) {
    for (int64_t j = cols.first; j < cols.last; j += shape.part_cols) {
      Add(rows, {j, std::min(j + shape.part_cols, cols.last)}, part++);
    }
    return part;
  }
};

}  // namespace

Schedule BuildSchedule(const Extent& extent, const TileShape& shape) {
  FLASHACL_DCHECK(shape.rows > 0 && shape.part_cols > 0);
  std::vector<Costed> tiles;
  for (size_t b = 0; b < extent.sequences.size(); ++b) {
    const Sequence& sequence = extent.sequences[b];
    const auto number = static_cast<int32_t>(b);
    const Band band =
        extent.mask->BandOf(number, sequence.rows(), sequence.columns());
    Cutter cutter{shape, band, extent.group, sequence.columns(), {}};
    cutter.CutSequence(sequence.rows() * extent.group);
    for (int64_t g = 0; g < extent.kv_heads; ++g) {
      for (Costed& cut : cutter.cuts) {
        cut.tile.sequence = number;
        cut.tile.kv_head = static_cast<int32_t>(g);
        tiles.push_back(cut);
      }
    }
  }
  // Stable: ties keep the order in which they were cut.
  std::stable_sort(
      tiles.begin(), tiles.end(),
      [](const Costed& a, const Costed& b) { return a.cost > b.cost; });

  Schedule schedule;
  schedule.tiles.reserve(tiles.size());
  for (const Costed& costed : tiles) {
    schedule.tiles.push_back(costed.tile);
    schedule.parts = std::max(schedule.parts, costed.tile.part + 1);
  }
  return schedule;
}

}  // namespace flashacl
