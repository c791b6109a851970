// SPDX-License-Identifier: Apache-2.0
// One item of backward work as plain numbers and addresses: all that the vector
// code gets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// What a packed row has besides its QueryRow. Null: nobody asks.
struct GradRow {
  const std::byte* grad_out = nullptr;
  std::byte* grad_query = nullptr;
  std::byte* grad_query_rope = nullptr;
};

// A run's scratch memory for one tile at a time, besides ScoreScratch. Rows,
// keys and their gradients lie as [row, stride], with the channels from the
// last one to a whole panel of them being 0.
struct BackwardScratch {
  float* queries_by_row;   // [row, key_stride], rope behind the rest
  float* grad_query;       // [row, key_stride]
  float* grad_out_rows;    // [row, value_stride]
  float* grad_out;         // [panel, value channel, lane]
  float* values;           // [key, value_stride]
  float* max;              // [row]
  float* inv_sum;          // [row], of row sums; 0 where nothing counts
  float* delta;            // [row], sum of grad out times out
  float* sum_p_dp;         // [row], sum of p dp
  float* probs;            // [panel of the block, key, lane]
  float* grad_scores;      // [panel of the block, key, lane]
  Range* seen;             // [panel of the block], of the step's keys
  uint8_t* has_nonfinite;  // [panel]: some max or inverse is no number to use
  GradRow* grad_rows;      // [row]
  float* grad_keys;        // [key, key_stride] of one step
  float* grad_values;      // [key, value_stride] of one step
  int64_t panel_keys = 0;  // that a panel of weights has room for
};

// What of a problem a tile needs besides ScoreParams.
struct BackwardParams {
  ElementFormat out, grad_out, grad_query, grad_query_rope;
  ElementFormat grad_key, grad_key_rope, grad_value;
  bool wants_query = false;  // gradients of queries or their ropes
  bool wants_key = false;
  bool wants_value = false;
  bool wants_sink = false;
  bool value_is_key = false;
  int64_t row_block = 0;   // rows whose weights are kept at a time
  int64_t panel_rows = 0;  // of the vectors it is run with
  int64_t value_stride = 0;
};

// Where the gradients of the keys of a sequence and kv head go. Null: nobody
// asks.
struct KvGradRows {
  std::byte* base = nullptr;  // of key 0
  int64_t row_bytes = 0;
};

struct BackwardTile {
  ScoreTile scores;  // how scores come about; its scratch included
  const BackwardParams* shape = nullptr;
  BackwardScratch scratch;
  KvGradRows grad_key, grad_key_rope, grad_value;
  bool rows_finite = true;      // every query is; found while loading
  bool grad_out_finite = true;  // every gradient of an output is
};

// The keys of one step, and the sums of their gradients over rows.
struct KeyStep {
  Range cols;
  float* grad_keys = nullptr;    // [key, key_stride]
  float* grad_values = nullptr;  // [key, value_stride]
  bool keys_finite = true;       // every key is; found while loading
};

}  // namespace flashacl::cpu
