// SPDX-License-Identifier: Apache-2.0
// The vector code of tiles of few rows, for the best instruction set that this
// processor has, and the plain numbers and addresses that are all it gets.
#pragma once

#include <cstdint>

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// Scratch memory for one tile at a time, besides ForwardScratch.
struct DecodeScratch {
  float* key_offsets;  // [row]: what key offsets add to dot products
  float* query_sums;   // [row]: of a query's channels
  float* value_sums;   // [row]: what value offsets by row add to every output
};

struct DecodeArgs {
  ForwardTile tile;
  DecodeScratch scratch{};
};

// Of tiles whose scratch memory ReserveDecode reserved.
struct DecodeKernels {
  // Computes the tiles of some kv heads and of the same rows and columns. They
  // share scratch memory, but for queries, scores, outputs, max and sum, query
  // rows and quantisation parameters.
  void (*attend)(const DecodeArgs* tiles, int64_t count) = nullptr;

  // As of ForwardKernels.
  void (*combine)(const ForwardTile& tile, int64_t num_splits) = nullptr;

  bool has_pair_dots = false;  // PairDots::kInstruction
};

DecodeKernels Decode();

}  // namespace flashacl::cpu
