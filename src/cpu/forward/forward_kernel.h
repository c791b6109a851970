// SPDX-License-Identifier: Apache-2.0
// The vector code of the forward direction, for the best instruction set that
// this processor has.
#pragma once

#include <cstdint>

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

struct ForwardKernels {
  // Computes a tile, whose values are packed where `values` says, and
  // prefetches the memory of the tile that follows, if any.
  void (*attend)(const ForwardTile& tile, const PackedValues& values,
                 const ForwardTile* following) = nullptr;

  // Combines the splits of tile.rows rows, of which tile.split_out is the
  // first, and stores the results.
  void (*combine)(const ForwardTile& tile, int64_t num_splits) = nullptr;

  // Makes what was stored past the caches visible to other threads; each worker
  // calls it after its last tile that streams.
  void (*flush)() = nullptr;

  bool has_pair_dots = false;  // PairDots::kInstruction
  MatrixCode matrices = MatrixCode::kNone;
};

ForwardKernels Forward();

}  // namespace flashacl::cpu
