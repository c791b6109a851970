// SPDX-License-Identifier: Apache-2.0
// Where the element of (sequence, head, row, column) is in a tensor that has
// one per score (mask, bias, keep bits) or per row (row max, row sum).
#pragma once

#include <cstdint>
#include <span>

#include "base/run_memory.h"
#include "problem/lengths.h"
#include "problem/tensor_spec.h"

namespace flashacl {

// The elements of one head of one sequence. Offsets count elements (bits for
// keep bits).
struct GridPlane {
  int64_t offset = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  int64_t missing_rows = -1;  // kDiagonal: rows above the stored ones

  constexpr int64_t At(int64_t i, int64_t j) const {
    if (missing_rows < 0 || i >= missing_rows) {
      return offset + (i - (missing_rows < 0 ? 0 : missing_rows)) * row_stride +
             j * column_stride;
    }
    // The stored element on the same diagonal that is nearest to row 0.
    const int64_t below = (i - j) - missing_rows;
    return below >= 0 ? offset + below * row_stride
                      : offset - below * column_stride;
  }
};

// Answers for one tensor and one set of sequences. A row stride or head stride
// of 0 repeats, so callers need not know what is shared.
class Grid {
 public:
  Grid() = default;  // of an absent tensor
  Grid(const TensorSpec& spec, std::span<const Sequence> sequences);

  bool present() const { return spec_.present(); }
  const TensorSpec& spec() const { return spec_; }
  // Of a tail, a plane may only be asked for columns from FirstColumn on.
  GridPlane Plane(int64_t sequence, int64_t head) const;
  // The first column that the tensor has an element for.
  int64_t FirstColumn(int64_t sequence) const;

  // Elements the tensor must have so that every element asked for exists.
  int64_t ElementsNeeded() const;

 private:
  struct Block {
    int64_t start, rows, columns;
  };

  GridPlane WholePlane(int64_t sequence, int64_t head) const;

  TensorSpec spec_;
  RunVector<Sequence> sequences_;
  RunVector<Block> blocks_;  // kBlocks and kTailBlocks only
};

}  // namespace flashacl
