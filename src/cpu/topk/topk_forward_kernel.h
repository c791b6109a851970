// SPDX-License-Identifier: Apache-2.0
// The vector code of the forward direction over listed keys, for the best
// instruction set that this processor has.
#pragma once

#include <cstdint>

#include "cpu/topk/topk_forward_params.h"

namespace flashacl::cpu {

struct TopKForwardKernels {
  void (*attend)(const TopKTile& topk) = nullptr;

  // Combines the splits of tile.rows rows, of which tile is the first, and
  // stores the results.
  void (*combine)(const ForwardTile& tile, int64_t num_splits) = nullptr;
};

TopKForwardKernels TopKForward();

}  // namespace flashacl::cpu
