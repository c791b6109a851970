// SPDX-License-Identifier: Apache-2.0
// The kernels of src/cpu/tile behind plain functions, one table for every
// instruction set they are compiled for, so that each can be timed alone. All
// addresses of panels are aligned as vectors are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/element_format.h"

namespace flashacl::bench {

// A block of `rows` scalars times a panel: sums [row, lane] get, for every row,
// sum over k < depth of scalar k of that row times panel [k, lane].
struct BlockKernels {
  int64_t rows = 0;
  // Scalar k of row r is scalars[r * stride + k].
  void (*add_rows)(const float* scalars, ptrdiff_t stride, const float* panel,
                   int64_t depth, float* sums) = nullptr;
  // Scalar k of row r is scalars[k * rows + r].
  void (*add_columns)(const float* scalars, const float* panel, int64_t depth,
                      float* sums) = nullptr;
};

// One float per lane of a panel, each.
struct SoftmaxState {
  float* max;
  float* sum;
  float* rescale;
};

// Four rows, `stride` floats apart, and the four lanes of a panel that begin at
// `panel`; `count` elements each, a multiple of 4.
struct FourLanes {
  float* rows;
  ptrdiff_t stride;
  int64_t count;
  float* panel;
};

// What AddRowsToPanel multiplies by: so often as one likes, sums stay bounded.
inline constexpr float kHalf = 0.5f;

struct TileKernels {
  int64_t lanes = 0;  // floats of a vector; a panel has twice as many lanes
  BlockKernels big, small;
  // Scores [key, lane] become weights exp(score - from), `sum` their sums.
  void (*softmax)(float* scores, int64_t count, const float* from,
                  float* sum) = nullptr;
  // The same on top of what `state` has seen; `top` is the greatest score.
  void (*take_in)(float* scores, int64_t count, const float* block_max,
                  const SoftmaxState& state) = nullptr;
  // Scores whose bit in visible [32 keys, lane] is 0 become -inf; `top` is the
  // greatest of the others.
  void (*hide_scores)(float* scores, const uint32_t* visible, int64_t count,
                      float* block_max) = nullptr;
  void (*load_row)(const cpu::ElementFormat& format, const std::byte* from,
                   int64_t count, float* to) = nullptr;
  void (*rows_to_panel)(const FourLanes& at) = nullptr;
  void (*add_rows_to_panel)(const FourLanes& at) = nullptr;  // times kHalf
  void (*panel_to_rows)(const FourLanes& at) = nullptr;
};

// For the instruction set that Highway dispatches to now.
TileKernels ChosenTileKernels();

// The instruction sets there are tables for, as Highway's bits.
int64_t TileTargets();

}  // namespace flashacl::bench
