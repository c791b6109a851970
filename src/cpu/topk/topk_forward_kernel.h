// SPDX-License-Identifier: Apache-2.0
// The vector code of the forward direction over listed keys, for the best
// instruction set that this processor has.
#pragma once

#include <cstdint>

#include "cpu/topk/topk_forward_params.h"

namespace flashacl::cpu {

struct GatheredForwardKernels {
  void (*attend)(const GatheredTile& gathered) = nullptr;

  // Merges the parts of tile.rows rows, of which tile.part is the first, and
  // stores the results.
  void (*merge)(const ForwardTile& tile, int64_t parts) = nullptr;
};

GatheredForwardKernels GatheredForward();

}  // namespace flashacl::cpu
