// SPDX-License-Identifier: Apache-2.0
// Offsets into score-shaped and row-shaped tensors.
#include "problem/grid.h"

#include <algorithm>

namespace flashacl {
namespace {

int64_t Extent(int64_t declared, int64_t of_sequence) {
  return declared == TensorSpec::kPerSequence ? of_sequence : declared;
}

}  // namespace

Grid::Grid(const TensorSpec& spec, std::span<const Sequence> sequences)
    : spec_(spec), sequences_(sequences.begin(), sequences.end()) {
  if (!IsBlocks(spec.placement)) return;
  const bool tail = IsTail(spec.placement);
  int64_t start = 0;
  for (const Sequence& sequence : sequences_) {
    const int64_t rows = Extent(spec.dims[2], sequence.rows());
    const int64_t columns =
        Extent(spec.dims[3], tail ? sequence.rows() : sequence.columns());
    blocks_.push_back({start, rows, columns});
    start += spec.dims[1] * rows * columns;
  }
}

int64_t Grid::FirstColumn(int64_t sequence) const {
  if (!IsTail(spec_.placement)) return 0;
  const Sequence& extent = sequences_[static_cast<size_t>(sequence)];
  return std::max<int64_t>(extent.columns() - extent.rows(), 0);
}

GridPlane Grid::Plane(int64_t sequence, int64_t head) const {
  GridPlane plane = WholePlane(sequence, head);
  plane.offset -= FirstColumn(sequence) * plane.column_stride;
  return plane;
}

GridPlane Grid::WholePlane(int64_t sequence, int64_t head) const {
  if (IsBlocks(spec_.placement)) {
    const Block& block = blocks_[static_cast<size_t>(sequence)];
    const int64_t plane = spec_.dims[1] == 1 ? 0 : head;
    // One stored row serves all rows when the tensor says so.
    const bool shared_row = spec_.dims[2] == 1;
    const int64_t step = spec_.block_step();
    return {(block.start + plane * block.rows * block.columns) * step,
            shared_row ? 0 : block.columns * step, step};
  }
  GridPlane plane{spec_.At(sequence, head), spec_.strides[2], spec_.strides[3]};
  const Sequence& rows = sequences_[static_cast<size_t>(sequence)];
  if (spec_.placement == Placement::kTensorRows ||
      spec_.placement == Placement::kTensorScores) {
    plane.offset += rows.queries.first * plane.row_stride;
  }
  if (spec_.placement == Placement::kTensorScores) {
    plane.offset += rows.keys.first * plane.column_stride;
  }
  if (spec_.placement == Placement::kDiagonal) {
    plane.missing_rows = spec_.dims[3] - spec_.dims[2];
  }
  return plane;
}

int64_t Grid::ElementsNeeded() const {
  if (!present()) return 0;
  if (IsBlocks(spec_.placement)) {
    if (blocks_.empty()) return 0;
    const Block& last = blocks_.back();
    const int64_t count = last.start + spec_.dims[1] * last.rows * last.columns;
    return count == 0 ? 0 : (count - 1) * spec_.block_step() + 1;
  }
  int64_t last = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    if (spec_.dims[axis] <= 0) return 0;
    if (axis == 3 && spec_.channel_block > 0) {
      last += spec_.ChannelSpan();
      continue;
    }
    last += (spec_.dims[axis] - 1) * std::max<int64_t>(spec_.strides[axis], 0);
  }
  return last + 1;
}

}  // namespace flashacl
