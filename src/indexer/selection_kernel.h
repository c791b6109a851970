// SPDX-License-Identifier: Apache-2.0
// The vector code of selections, for the best instruction set that this
// processor has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "indexer/candidates.h"
#include "indexer/sizes.h"

namespace flashacl::indexer {

// A row of the query, and what it keeps.
struct SelectingRow {
  int64_t position = 0;  // in its tensor
  int64_t seen = 0;      // keys
  Candidates kept;
  bool subnormal = false;  // some number of its queries, where they are pairs
};

// Scratch memory of one worker, aligned to 64 bytes. Of pairs (PairDots) the
// channels are words of two: half as many. Where matrix registers multiply,
// queries are [row, panel of heads, pair, lane of a head], staging has the
// pairs of a step, [key, pair], and there are no panels of keys.
struct SelectionScratch {
  float* queries;            // [row, PaddedHeads(), channel]
  float* weights;            // [row, PaddedHeads()]
  float* staging;            // [lane, channel rounded up to 4]
  float* panel;              // [channel rounded up to 4, lane]
  const std::byte** places;  // [3, lane, or key of a step]
};

// Some rows of one sequence, and the keys to score for them.
struct SelectionTile {
  cpu::TensorRows query, weights;  // heads of weights are channels
  int64_t heads = 0;
  int64_t channels = 0;
  cpu::PairDots dots = cpu::PairDots::kNone;  // of query and keys
  SelectingRow* rows = nullptr;
  int64_t row_count = 0;
  cpu::KvRows keys;
  Range cols;
  SelectionScratch scratch;

  int64_t padded_heads() const {
    return PaddedHeads(heads, dots == cpu::PairDots::kMatrices);
  }
  // What a product takes at a time.
  int64_t words() const {
    return dots == cpu::PairDots::kNone ? channels : channels / 2;
  }
};

struct SelectionKernels {
  void (*select)(const SelectionTile& tile) = nullptr;
  bool has_pair_dots = false;  // PairDots::kInstruction
  cpu::MatrixCode matrices = cpu::MatrixCode::kNone;
};

SelectionKernels SelectionKernelsHere();

}  // namespace flashacl::indexer
