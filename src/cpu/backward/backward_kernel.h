// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction, for the best instruction set that
// this processor has.
#pragma once

#include <cstdint>

#include "cpu/backward/backward_params.h"

namespace flashacl::cpu {

// One tile: start, then for every step of keys load, for every block of rows
// weigh and add, then finish. Steps whose sums are complete are stored.
struct BackwardKernels {
  // Loads the tile's rows.
  void (*start)(BackwardTile& tile) = nullptr;
  // Loads the step's keys.
  void (*load)(const BackwardTile& tile, KeyStep& step) = nullptr;
  // Weights and gradients of scores of a block of rows, which stay in scratch
  // memory, and what they add to gradients of queries.
  void (*softmax)(BackwardTile& tile, const KeyStep& step,
                  Range block) = nullptr;
  // What they add to gradients of keys and values: to the sums of the step.
  void (*add)(const BackwardTile& tile, const KeyStep& step,
              Range block) = nullptr;
  // Stores gradients of keys and values, after which their sums are spoilt.
  void (*store)(const BackwardTile& tile, const KeyStep& step) = nullptr;
  // Stores gradients of queries.
  void (*finish)(const BackwardTile& tile) = nullptr;
  int64_t panel_rows = 0;  // in one panel; blocks of rows are multiples
};

BackwardKernels Backward();

// The instruction sets it is compiled for, as Highway's bits.
int64_t BackwardTargets();

}  // namespace flashacl::cpu
