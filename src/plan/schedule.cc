// SPDX-License-Identifier: Apache-2.0
// Cuts score matrices into tiles: blocks of packed rows, each with the columns
// that its rows see; few rows with many columns, into splits.
#include "plan/schedule.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "plan/cost.h"

namespace flashacl {
namespace {

// Query positions of a block of packed rows; the outermost may be in it with
// only some of their heads.
Range PositionsOf(Range rows, int64_t group) {
  return {rows.first / group, CeilDiv(rows.last, group)};
}

}  // namespace

Range SeenColumns(const Band& band, Range positions, int64_t columns) {
  const int64_t head = std::clamp<int64_t>(band.prefix, 0, columns);
  if (positions.empty()) return {};
  if (band.upper < band.lower) return {0, head};
  const int64_t first = std::max<int64_t>(positions.first + band.lower, 0);
  const int64_t last = std::min(positions.last + band.upper, columns);
  if (first >= last) return {0, head};
  return {head > 0 ? 0 : first, std::max(head, last)};
}

const Schedule::Cut& Schedule::CutOf(int64_t number) const {
  FLASHACL_DCHECK(number >= 0 && number < count_);
  // The last cut that starts at or before the number.
  const auto next =
      std::upper_bound(cuts_.begin(), cuts_.end(), number,
                       [](int64_t n, const Cut& cut) { return n < cut.first; });
  return *(next - 1);
}

Schedule::Place Schedule::PlaceOf(const Cut& cut, int64_t number) const {
  const int64_t local = number - cut.first;
  const int64_t rows =
      local / cut.num_splits;  // all their splits are neighbours
  const int64_t block = by_head_ ? rows % cut.tiles : rows / kv_heads_;
  return {.block = cut.last_rows_first ? cut.tiles - 1 - block : block,
          .kv_head = by_head_ ? rows / cut.tiles : rows % kv_heads_,
          .split = local % cut.num_splits};
}

Tile Schedule::At(int64_t number) const {
  const Cut& cut = CutOf(number);
  const Place place = PlaceOf(cut, number);
  Tile tile;
  tile.sequence = cut.sequence;
  tile.kv_head = place.kv_head;
  tile.split = place.split;
  tile.num_splits = cut.num_splits;
  tile.last_rows_first = cut.last_rows_first;
  tile.rows = {place.block * cut.rows,
               std::min((place.block + 1) * cut.rows, cut.packed_rows)};
  tile.cols =
      SeenColumns(cut.band, PositionsOf(tile.rows, group_), cut.columns);
  if (cut.num_splits == 1) return tile;
  // Empty where only rows of other tiles see columns of the split.
  const int64_t start = (cut.first_split + tile.split) * split_keys_;
  tile.cols.first = std::max(tile.cols.first, start);
  tile.cols.last =
      std::max(std::min(tile.cols.last, start + split_keys_), tile.cols.first);
  return tile;
}

int64_t Schedule::SplitRow(int64_t number) const {
  const Cut& cut = CutOf(number);
  const Tile tile = At(number);
  const int64_t n = (number - cut.first) / cut.num_splits;
  return cut.first_split_row + RowsBefore(cut, n) * cut.num_splits +
         tile.split * tile.rows.size();
}

// Where there are several tiles, the last block, which may have fewer rows than
// the others, comes first.
int64_t Schedule::RowsBefore(const Cut& cut, int64_t n) const {
  const int64_t last = cut.packed_rows - (cut.tiles - 1) * cut.rows;
  if (by_head_) {
    const int64_t rest = n % cut.tiles;
    return n / cut.tiles * cut.packed_rows +
           (rest == 0 ? 0 : last + (rest - 1) * cut.rows);
  }
  const int64_t of_last = std::min(n, kv_heads_);
  return of_last * last + (n - of_last) * cut.rows;
}

Schedule BuildSchedule(const Extent& extent, const TileShape& shape) {
  FLASHACL_DCHECK(shape.rows > 0 && shape.row_unit > 0 && shape.split_keys > 0);
  struct Costed {
    double cost;
    Schedule::Cut cut;
  };
  RunVector<Costed> costed;
  costed.reserve(extent.sequences.size());
  for (size_t b = 0; b < extent.sequences.size(); ++b) {
    const Sequence& sequence = extent.sequences[b];
    if (!shape.Cuts(sequence)) continue;
    const int64_t rows = sequence.rows();
    Schedule::Cut cut;
    cut.sequence = static_cast<int64_t>(b);
    cut.band = extent.mask->BandOf(cut.sequence, rows, sequence.columns());
    cut.packed_rows = rows * extent.group;
    cut.columns = sequence.columns();
    // As even as the unit allows.
    cut.rows =
        RoundUp(CeilDiv(cut.packed_rows, CeilDiv(cut.packed_rows, shape.rows)),
                shape.row_unit);
    cut.tiles = CeilDiv(cut.packed_rows, cut.rows);
    cut.last_rows_first = cut.band.lower <= -Band::kOpen / 2;
    const Range seen = SeenColumns(cut.band, {0, rows}, cut.columns);
    const bool few =
        (cut.tiles == 1 && cut.packed_rows <= shape.split_rows) ||
        (cut.last_rows_first && cut.packed_rows <= shape.split_open_rows);
    if (few && !seen.empty()) {
      cut.first_split = seen.first / shape.split_keys;
      cut.num_splits = CeilDiv(seen.last, shape.split_keys) - cut.first_split;
    }
    costed.push_back(
        {VisiblePairs(cut.band, {0, rows}, {0, cut.columns}), cut});
  }
  std::sort(costed.begin(), costed.end(), [](const Costed& a, const Costed& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.cut.sequence < b.cut.sequence;
  });

  Schedule schedule;
  schedule.kv_heads_ = extent.kv_heads;
  schedule.group_ = extent.group;
  schedule.split_keys_ = shape.split_keys;
  schedule.by_head_ = shape.by_head;
  schedule.cuts_.reserve(costed.size());
  for (Costed& each : costed) {
    Schedule::Cut& cut = each.cut;
    cut.first = schedule.count_;
    schedule.count_ += cut.tiles * cut.num_splits * extent.kv_heads;
    schedule.num_splits_ = std::max(schedule.num_splits_, cut.num_splits);
    if (cut.num_splits > 1) {
      cut.first_split_row = schedule.split_rows_;
      schedule.split_rows_ +=
          cut.packed_rows * cut.num_splits * extent.kv_heads;
    }
    schedule.cuts_.push_back(cut);
  }
  return schedule;
}

std::string Describe(const Schedule& schedule, const TileShape& shape) {
  if (schedule.count() == 0) {
    return Str("at most {} rows, {} keys a step; cut when it runs", shape.rows,
               shape.cols);
  }
  const std::string tiles = Str("{} of at most {} rows, {} keys a step",
                                schedule.count(), shape.rows, shape.cols);
  if (schedule.num_splits() == 1) return tiles + "; none split";
  return Str("{}; rows split into up to {} splits", tiles,
             schedule.num_splits());
}

}  // namespace flashacl
