// SPDX-License-Identifier: Apache-2.0
// The vector code of tiles of few rows, for the best instruction set that this
// processor has.
#pragma once

#include <cstdint>

#include "cpu/decode/decode_params.h"

namespace flashacl::cpu {

// Of tiles whose scratch memory ReserveDecode reserved.
struct DecodeKernels {
  // Computes the tiles of some kv heads and of the same rows and columns. They
  // share scratch memory, but for queries, scores, outputs, max and sum, query
  // rows and quantisation parameters.
  void (*attend)(const DecodeArgs* tiles, int64_t count) = nullptr;

  // As of ForwardKernels.
  void (*combine)(const ForwardTile& tile, int64_t num_splits) = nullptr;
};

DecodeKernels Decode();

}  // namespace flashacl::cpu
