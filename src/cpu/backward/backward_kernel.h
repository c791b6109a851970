// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction, for the best instruction set that
// this processor has.
#pragma once

#include <cstdint>

#include "cpu/backward/backward_params.h"

namespace flashacl::cpu {

// One tile: start, then for every step of keys load, for every block of rows
// softmax and add_dkv, then store_dq. Steps whose sums are complete are stored.
struct BackwardKernels {
  // Loads the tile's rows.
  void (*start)(BackwardTile& tile) = nullptr;
  // Loads the step's keys and values.
  void (*load)(const BackwardTile& tile, KeyStep& step) = nullptr;
  // P and dS of a block of rows, which stay in scratch memory, and what they
  // add to dq.
  void (*softmax)(BackwardTile& tile, const KeyStep& step,
                  Range block) = nullptr;
  // sums += what the block of rows that softmax was called for adds to the
  // gradients of the step's keys and values.
  void (*add_dkv)(const BackwardTile& tile, const KeyStep& step, Range block,
                  const KvSums& sums) = nullptr;
  // Stores gradients of the keys and values `cols`; their sums are used up.
  void (*store_dkv)(const BackwardTile& tile, Range cols,
                    const KvSums& sums) = nullptr;
  // Stores gradients of queries.
  void (*store_dq)(const BackwardTile& tile) = nullptr;
  int64_t panel_rows = 0;  // in one panel; blocks of rows are multiples
};

BackwardKernels Backward();

}  // namespace flashacl::cpu
