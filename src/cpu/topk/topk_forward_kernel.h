// SPDX-License-Identifier: Apache-2.0
// The vector code of the forward direction over listed keys, for the best
// instruction set that this processor has, and what it gets: one item of work,
// which is one position, some of its heads, and the columns that a split of its
// list names.
#pragma once

#include <cstdint>

#include "cpu/pair_dots.h"
#include "cpu/pair_format.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// A worker's scratch memory for one tile at a time, besides ForwardScratch.
struct TopKForwardScratch {
  int64_t* columns;  // of a split of a list
  float* values;  // [key, value_stride], or pairs, as keys; unused where values
                  // are keys, unless these are pairs and values stay floats,
                  // and where values stay in place;
                  // [channel, key] for matrix registers
  int64_t value_stride = 0;
};

// A tile of the forward direction whose keys are listed; its rows see them all.
struct TopKTile {
  ForwardTile tile;
  TopKForwardScratch scratch{};
  int64_t count = 0;  // listed keys
};

// Whether values are pairs, too, where queries and keys are.
inline bool ValuesArePairs(const ForwardTile& tile) {
  return kListedRowsStayPairs &&
         ArePairs(tile.keys.values().format, tile.params->v_dim);
}

struct TopKForwardKernels {
  void (*attend)(const TopKTile& topk) = nullptr;
  bool has_pair_dots = false;  // PairDots::kInstruction
  MatrixCode matrices = MatrixCode::kNone;
};

TopKForwardKernels TopKForward();

}  // namespace flashacl::cpu
