// SPDX-License-Identifier: Apache-2.0
// Items of backward work over listed keys as plain numbers and addresses: all
// that the vector code gets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/kv_rows.h"

namespace flashacl::cpu {

// A head of a position. Addresses are of its first element; those of gradients
// are null where nobody asks.
struct TopKQueryRow {
  const std::byte* query = nullptr;
  const std::byte* query_rope = nullptr;
  const std::byte* out = nullptr;
  const std::byte* grad_out = nullptr;
  std::byte* grad_query = nullptr;
  std::byte* grad_query_rope = nullptr;
  float max = 0;
  float sum = 0;
};

// What of a problem an item needs; the same for all items of a run.
struct TopKBackwardParams {
  int64_t qk_dim = 0;
  int64_t rope_dim = 0;
  int64_t v_dim = 0;
  int64_t heads = 0;        // of a position
  int64_t lanes = 0;        // of all their panels, at least
  int64_t head_stride = 0;  // floats of a key's weights, in whole vectors
  int64_t step = 0;         // keys of one step
  float scale = 1;
  bool wants_query = true;  // any gradient of queries
  bool wants_keys = true;   // any of keys or values
  ElementFormat query, query_rope, out, grad_out, grad_query, grad_query_rope;

  int64_t channels() const { return qk_dim + rope_dim; }
};

// A worker's scratch memory for one item at a time.
struct TopKBackwardScratch {
  float* query;      // [panel, query channel, lane]
  float* grad_out;   // [panel, value channel, lane]
  float* rows;       // [3, lanes]: of every head max, 1 / sum and delta
  float* keys;       // [key, key_stride]
  float* values;     // [key, value_stride]; the keys where values are keys
  float* scores;     // [key, lane] of one panel
  float* grads;      // [key, lane] of one panel
  float* staging;    // [8, staging_stride]
  int64_t* columns;  // of a part of a list
  TopKQueryRow* query_rows;  // [head]
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t staging_stride = 0;
};

// What the gradients of keys need of a position once its weights are known.
struct SavedPds {
  int64_t* columns;        // as listed, sorted by kv block
  float* probs;            // [key, head_stride]: p
  float* grad_scores;      // [key, head_stride]: scale * ds
  float* query;            // [block of channels, head, channel of the block]
  float* grad_out;         // the same
  int64_t* kv_block_ends;  // where each kv block's columns end
};

// A position and the part of its list that one round takes.
struct TopKBackwardDqItem {
  const TopKBackwardParams* shape = nullptr;
  KvRows keys;
  TopKBackwardScratch scratch{};
  SavedPds saved{};
  int64_t count = 0;            // columns in the saved pds
  float* grad_query = nullptr;  // [panel, query channel, lane]
  bool starts = true;           // grad_query holds nothing yet
  bool ends = true;             // it is to be stored
};

// Some columns of a position and the channels of a d block: what it adds to the
// d block's sums. Keys get query, values grad_out; both if values are keys.
struct DkvArgs {
  const int64_t* columns;
  const float* probs;
  const float* grad_scores;
  const float* query;          // the d block's first block; null: no keys
  const float* grad_out;       // the same
  int64_t channels = 0;        // of the d block
  int64_t value_channels = 0;  // that are values; none if 0 or less
  int64_t count = 0;           // columns
  int64_t heads = 0;
  int64_t head_stride = 0;
  float* sums = nullptr;  // of column 0
  int64_t sum_stride = 0;
};

}  // namespace flashacl::cpu
