// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction, for the best instruction set that
// this processor has, and the plain numbers and addresses that are all it gets.
#pragma once

#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// What is known of a panel: what its rows turned out to be, and on matrix
// registers where dq are summed.
struct PanelFacts {
  bool usable = true;          // every max and every inv_sum
  bool finite = true;          // every query and every gradient of an output
  bool small = false;          // all queries are, or all gradients of outputs
  bool dq_by_channel = false;  // some are, in grad_query_panels
  bool dq_by_row = false;      // some are, in grad_query
};

// A worker's scratch memory besides ScoreScratch; sizes in
// backward_workspace.cc. Rows, keys and their gradients lie as [row, stride],
// with 0 in the channels from the last one to a whole panel of them. Where P
// and dS are rounded (BackwardTile), rows and keys are pairs: of rows in the
// first half of each panel (rounded-inl.h), of keys one after the other.
struct BackwardScratch {
  float* queries_by_row;  // [row, key_stride], rope after the rest
  float* grad_query;      // [row, key_stride]; see PanelFacts
  float* grad_out_rows;   // [row, value_stride]
  float* grad_out;        // [panel, value channel, lane]; or as queries are
  float* values;          // [key, value_stride]; or pairs or terms, as keys
  float* key_rows;        // [key, key_stride], where keys are pairs or terms
  float* max;             // [row]
  float* inv_sum;         // [row], of row sums; 0 where nothing counts
  float* delta;           // [row], sum of grad out times out
  float* sum_p_dp;        // [row], sum of p dp
  float* probs;           // [panel of the block, key, lane]
  float* grad_scores;     // [panel of the block, key, lane]
  // P and dS, rounded.
  float* prob_row_pairs;  // [panel of the block, key, pair of rows]
  float* grad_row_pairs;  // [panel of the block, key, pair of rows]
  float* grad_key_pairs;  // [pair of keys, lane], of one panel
  // Operands of matrix registers, and dq by channel (matrix_grads-inl.h). Terms
  // are the tile's, but for words of P and dS.
  float* query_row_pairs;     // [pair of rows, term, key_stride]
  float* grad_out_row_pairs;  // [pair of rows, term, value_stride]
  float* keys_by_channel;     // [term, channel, pair of keys]
  float* out_terms;           // [row, value_stride] of a panel, if of two terms
  float* prob_words;          // [key, term, pair of rows of the block]
  float* grad_words;          // likewise, of dS
  float* grad_key_words;      // [pair of keys, term, lane], of one panel
  float* grad_query_panels;   // [panel, channel, lane]
  Range* seen;                // [panel of the block], of the step's keys
  PanelFacts* facts;          // [panel]
  QueryRow* next_query_rows;  // [row of the next tile's first block]
  // Sums that no other worker adds to: of a step, or of all that are swept.
  float* grad_keys;    // [key, key_stride]
  float* grad_values;  // [key, value_stride]
  int64_t value_stride = 0;
  int64_t panel_keys = 0;      // that a panel of probs has room for
  int64_t block_words = 0;     // pairs of rows of a block
  int64_t word_stride = 0;     // from key to key of prob_words
  int64_t channel_stride = 0;  // of keys_by_channel
};

// The gradients that one sweep over tiles makes, ropes included.
struct Wanted {
  bool query = false;
  bool key = false;
  bool value = false;
  bool bias = false;
  bool sink = false;
};

// Rows that are loaded next, of this tile or another one: their operands are
// prefetched while a block is computed.
struct RowsAhead {
  const QueryRow* rows = nullptr;
  int64_t count = 0;
  GradRows grads;
};

struct BackwardTile : ScoreTile {
  BackwardScratch backward;
  Wanted wanted;
  bool value_is_key = false;
  int64_t panel_rows = 0;  // of the vectors it is run with
  int64_t kv_head = 0;
  GradRows grad_rows;
  TensorRows grad_key, grad_key_rope, grad_value;
  // P and dS meet rows and keys by pairs, rounded to bf16. Of a tile of pairs.
  bool rounds = false;
  // With matrix registers: of P and dS, where they meet rows and keys.
  int grad_terms = 2;
  // Of the block at hand: its products by pairs must be multiply-adds.
  bool multiply_adds = false;
  bool rows_loaded = false;  // all of them, after the first step
  RowsAhead ahead;           // of the block at hand
  // Whether one step has all keys that the tile sees. Set before start.
  bool one_step = false;

  // A step's keys as floats, [key, key_stride].
  float* key_rows() const {
    return dots == PairDots::kNone ? scratch.keys : backward.key_rows;
  }
};

// The keys that a tile takes in at one time.
struct KeyStep {
  Range cols;
  // Found while loading.
  bool keys_finite = true;  // every key is
  // Some key or value is, of pairs; or, of two terms, infinite or a NaN.
  bool subnormal = false;
  bool small = false;  // all keys are
};

// fp32 sums over rows of the gradients of keys and values.
struct KvSums {
  float* keys;    // [key, key_stride]
  float* values;  // [key, value_stride]
};

// Where a block of rows is among all that add to the sums of a step: the first
// one clears them, and the last one stores the gradients and uses them up.
struct BlockOrder {
  bool first = false;
  bool last = false;
};

// One tile: start, then for every step of keys load, for every block of rows
// load_rows if the step is the first, softmax and add_dkv, then store_dq.
struct BackwardKernels {
  // Before any of its rows are loaded.
  void (*start)(BackwardTile& tile) = nullptr;
  // Loads a block of its rows.
  void (*load_rows)(BackwardTile& tile, Range block) = nullptr;
  // Loads the step's keys and values.
  void (*load)(const BackwardTile& tile, KeyStep& step) = nullptr;
  // P and dS of a block of rows, which stay in scratch memory, and what they
  // add to dq, which may be stored with it where tile.one_step. Prefetches
  // tile.ahead meanwhile.
  void (*softmax)(BackwardTile& tile, const KeyStep& step,
                  Range block) = nullptr;
  // sums += what the block of rows that softmax was called for adds to the
  // gradients of the step's keys and values.
  void (*add_dkv)(const BackwardTile& tile, const KeyStep& step, Range block,
                  BlockOrder order, const KvSums& sums) = nullptr;
  // Stores gradients of the keys and values `cols`; their sums are used up.
  void (*store_dkv)(const BackwardTile& tile, Range cols,
                    const KvSums& sums) = nullptr;
  // Stores gradients of queries that are not stored yet.
  void (*store_dq)(const BackwardTile& tile) = nullptr;
  // Makes what was stored past the caches visible to other threads; each worker
  // calls it after its last tile that streams.
  void (*flush)() = nullptr;
  int64_t panel_rows = 0;      // in one panel; blocks of rows are multiples
  bool has_pair_dots = false;  // PairDots::kInstruction
  MatrixCode matrices = MatrixCode::kNone;
};

BackwardKernels Backward();

}  // namespace flashacl::cpu
