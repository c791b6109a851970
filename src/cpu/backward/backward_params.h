// SPDX-License-Identifier: Apache-2.0
// One tile of backward work as plain numbers and addresses: all that the vector
// code gets.
#pragma once

#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// A worker's scratch memory besides ScoreScratch; sizes in
// backward_workspace.cc. Rows, keys and their gradients lie as [row, stride],
// with 0 in the channels from the last one to a whole panel of them.
struct BackwardScratch {
  float* queries_by_row;   // [row, key_stride], rope after the rest
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
  uint8_t* has_nonfinite;  // [panel]: max or inv_sum, of some row
  // Sums that no other worker adds to: of a step, or of all that are swept.
  float* grad_keys;    // [key, key_stride]
  float* grad_values;  // [key, value_stride]
  int64_t value_stride = 0;
  int64_t panel_keys = 0;  // that a panel of probs has room for
};

// What of a problem a tile needs besides ScoreParams; the same for all tiles
// of a run.
struct BackwardParams {
  bool value_is_key = false;
  int64_t panel_rows = 0;  // of the vectors it is run with
};

// The gradients that one sweep over tiles makes, ropes included.
struct Wanted {
  bool query = false;
  bool key = false;
  bool value = false;
  bool bias = false;
  bool sink = false;
};

struct BackwardTile {
  ScoreTile scores;
  const BackwardParams* params = nullptr;
  BackwardScratch scratch;
  Wanted wanted;
  int64_t kv_head = 0;
  GradRows grad_rows;
  TensorRows grad_key, grad_key_rope, grad_value;
  bool rows_finite = true;      // every query is; found while loading
  bool grad_out_finite = true;  // every gradient of an output is
};

// The keys that a tile takes in at one time.
struct KeyStep {
  Range cols;
  bool keys_finite = true;  // every key is; found while loading
};

// fp32 sums over rows of the gradients of keys and values.
struct KvSums {
  float* keys;    // [key, key_stride]
  float* values;  // [key, value_stride]
};

}  // namespace flashacl::cpu
