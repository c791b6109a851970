// SPDX-License-Identifier: Apache-2.0
// A tensor's shape before it has an address.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace flashacl {

// How the index of an element of a grid (a tensor with one element per score,
// or per row) becomes an offset; see grid.h. Everything else is kStrided.
enum class Placement : uint8_t {
  kStrided,     // dims and strides say it all
  kTensorRows,  // rows count from the tensors' start, not from the sequence's:
                // row max of packed sequences
  kTensorScores,  // rows and columns do: a mask over packed sequences
  kBlocks,        // one dense block [head, row, column] per sequence, one after
                  // the other; neighbours are block_step() apart
  kDiagonal,      // only the last dims[2] rows of a square matrix of dims[3]
                  // columns are stored; it is constant along its diagonals
  kTail,          // a mask of the last keys only: a sequence of n rows has its
                  // [row, column] planes for its last n columns, those before
                  // are seen
  kTailBlocks,    // the same as kBlocks: a dense n x n block per sequence
};

// Whether the tensor is a block per sequence, so that dims do not say it all.
constexpr bool IsBlocks(Placement placement) {
  return placement == Placement::kBlocks || placement == Placement::kTailBlocks;
}

// Whether the last columns alone have elements.
constexpr bool IsTail(Placement placement) {
  return placement == Placement::kTail || placement == Placement::kTailBlocks;
}

// At most four dimensions, in the canonical order of the slot; a slot with
// fewer uses the first ones and ignores the rest. Strides count elements and
// are never negative; 0 repeats. Of kI4x8, dims and strides count words, each
// of which is eight channels. Absent when dtype is kNone.
struct TensorSpec {
  // In dims of a kBlocks grid: as long as each sequence says.
  static constexpr int64_t kPerSequence = -1;

  DType dtype = DType::kNone;
  Placement placement = Placement::kStrided;
  std::array<int64_t, 4> dims{};
  std::array<int64_t, 4> strides{};
  // Channels (the last axis) in blocks of so many, block_stride elements apart;
  // 0: none. Of keys, their ropes and values only.
  int64_t channel_block = 0;
  int64_t block_stride = 0;

  constexpr bool present() const { return dtype != DType::kNone; }

  // Of keys and values, whose last axis these are.
  constexpr int64_t channels() const { return dims[3] * NumbersOf(dtype); }

  // In a kBlocks grid only the last stride counts, and 0 means dense.
  constexpr int64_t block_step() const {
    return strides[3] > 1 ? strides[3] : 1;
  }

  // Dims, where an axis that repeats counts once: every element is named once.
  // Not for kBlocks, whose dims do not say it all.
  constexpr std::array<int64_t, 4> DistinctDims() const {
    std::array<int64_t, 4> counts = dims;
    for (size_t axis = 0; axis < 4; ++axis) {
      if (strides[axis] == 0) counts[axis] = std::min<int64_t>(counts[axis], 1);
    }
    return counts;
  }

  // Offset of an element, in elements.
  constexpr int64_t At(int64_t a, int64_t b = 0, int64_t c = 0,
                       int64_t e = 0) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + ChannelAt(e);
  }

  constexpr int64_t ChannelAt(int64_t c) const {
    if (channel_block == 0) return c * strides[3];
    return c / channel_block * block_stride + c % channel_block * strides[3];
  }

  // From the first channel to the farthest, where the last block counts as
  // whole.
  constexpr int64_t ChannelSpan() const {
    const int64_t last = std::max<int64_t>(dims[3] - 1, 0);
    if (channel_block == 0) return last * strides[3];
    return last / channel_block * block_stride +
           std::min(last, channel_block - 1) * strides[3];
  }

  bool operator==(const TensorSpec&) const = default;
};

// A spec whose last dimension is dense and whose dims follow one another.
TensorSpec DenseSpec(DType dtype, std::array<int64_t, 4> dims);

}  // namespace flashacl
