// SPDX-License-Identifier: Apache-2.0
// The vector code of gradients, for the best instruction set that this
// processor has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "cpu/sizes.h"
#include "indexer/sizes.h"

namespace flashacl::indexer {

// Listed keys of a step: rows of floats with channels for 128 stay in L2 beside
// the row's query, and products with a panel of it in L1.
inline constexpr int64_t kStepKeys = 96;

inline constexpr int64_t kKeyChannelStride = cpu::MatrixStride(kStepKeys);

// Scratch memory of one worker, aligned to 64 bytes. Heads are padded to whole
// panels of any width, channels as PaddedChannels(). Of pairs (PairDots) query
// panels have half as many words as channels, and keys lie there twice.
struct GradientScratch {
  float* query_panels;    // [panel, channel, lane of a head]
  float* query_channels;  // [panel of channels, head, lane of a channel]
  float* staging;         // [lane, channel]
  float* weights;         // [head]
  float* keys;            // [key of a step and kSpare, channel]
  float* key_pairs;       // [key of a step and kSpare, pair]
  float* products;        // [key of a step and kSpare, lane] of one panel;
                          // on matrix registers of all
  float* grad_products;   // [key of a step and kSpare, head]
  float* grad_query;      // [panel, channel, lane of a head]
  float* grad_weights;    // [head]
  // On matrix registers, as words of pairs: keys of a step by channel, and the
  // query, [block of channels, head block, pair of heads, channel].
  float* key_channels;  // [channel, kKeyChannelStride]
  float* query_pairs;
  const std::byte** places;  // [3, key of a step]
};

// What a row lists and sees.
struct ListedKeys {
  const int64_t* columns = nullptr;
  const float* grad_scores = nullptr;
  int64_t count = 0;
};

// One row of the query: its gradients, and what it adds to those of its keys.
struct GradientRow {
  cpu::TensorRows query, weights, grad_query, grad_weights;
  int64_t position = 0;
  int64_t heads = 0;
  int64_t channels = 0;
  cpu::PairDots dots = cpu::PairDots::kNone;  // of query and keys
  cpu::KvRows keys;
  ListedKeys listed;
  float* added = nullptr;  // [listed key, SumChannels()]
  GradientScratch scratch;
};

// Some channels of what one row adds to the sums of some of its keys: those
// whose block of kOwnedKeys is `part` of `parts`, counted around.
struct AddedRow {
  ListedKeys listed;
  const float* added = nullptr;  // [listed key, stride]
  float* sums = nullptr;         // [key, stride]
  int64_t stride = 0;
  Range channels;  // whole lines
  int64_t part = 0;
  int64_t parts = 1;
};
inline constexpr int64_t kOwnedKeys = 64;

struct GradientKernels {
  void (*differentiate)(const GradientRow& row) = nullptr;
  void (*add)(const AddedRow& row) = nullptr;
  void (*store)(const cpu::ElementFormat& format, const float* from,
                int64_t channels, std::byte* to) = nullptr;
  bool has_pair_dots = false;  // PairDots::kInstruction
  cpu::MatrixCode matrices = cpu::MatrixCode::kNone;
};

GradientKernels GradientKernelsHere();

}  // namespace flashacl::indexer
