// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction over listed keys, for the best
// instruction set that this processor has, and the plain numbers and addresses
// that are all it gets.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/range.h"
#include "cpu/pair_dots.h"
#include "cpu/sizes.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// What of a problem an item needs besides ScoreParams.
struct TopKBackwardParams {
  int64_t step_keys = 0;
  int64_t head_stride = 0;  // floats of a key's probs; whole head blocks where
                            // these become words
  bool wants_query = true;  // any gradient of queries
  bool wants_keys = true;   // any of keys or values
};

// A worker's scratch memory for one item at a time, besides ScoreScratch.
struct TopKBackwardScratch {
  float* grad_out;         // [panel, value channel, lane]; or pairs, as queries
  float* max;              // [panel, lane]
  float* inv_sum;          // [panel, lane]
  float* delta;            // [panel, lane]
  float* values;           // [key, value_stride]; or pairs, as keys
  float* key_rows;         // [key, key_stride]: keys that are pairs as floats,
                           // unless kListedRowsStayPairs
  float* keys_by_channel;  // [channel, pair of keys], for matrix registers
  float* scores;           // [key, lane] of one panel
  float* ds;               // the same: dp, then scale * ds
  float* grad_staging;     // [4, staging_stride]
  int64_t* columns;        // of a split of a list
  int64_t value_stride = 0;
  int64_t channel_stride = 0;  // of keys_by_channel
};

// What dk and dv need of a position once its probs are known.
struct SavedPds {
  int64_t* columns;        // as listed, sorted by kv block
  float* probs;            // [key, head_stride]: p; or words
  float* grad_scores;      // [key, head_stride]: scale * ds; or words
  float* query;            // [block of channels, head, channel of the block];
                           // as pairs (SavesPairs) half as many words: of the
                           // block's channels n and n + half of them
  float* grad_out;         // the same
  int64_t* kv_block_ends;  // where each kv block's columns end
  // For matrix registers (topk_matrix_grads-inl.h); null: there are none.
  float* query_pairs;  // [block of channels, head block, pair, channel of it]
  float* grad_out_pairs;  // the same
  int64_t* rows_fit;      // [head block]: whether both are for matrices
  int64_t* is_words;      // [step, head block]: whether p and ds are

  // The listed keys of a kv block.
  Range KeysOf(int64_t kv_block) const {
    return {kv_block == 0 ? 0 : kv_block_ends[kv_block - 1],
            kv_block_ends[kv_block]};
  }
};

// A position and one split of its list: the rows of `scores` are its heads.
struct TopKBackwardDqItem {
  ScoreTile scores;
  GradRows grad_rows;
  const TopKBackwardParams* params = nullptr;
  TopKBackwardScratch scratch{};
  SavedPds saved{};
  int64_t count = 0;            // listed keys
  float* grad_query = nullptr;  // [panel, query channel, lane]
  bool first_split = true;      // grad_query holds nothing yet
  bool last_split = true;       // it is to be stored
};

// Memory of others that is needed soon, in spans of cache lines.
struct PrefetchSpans {
  struct Span {
    const float* at;  // in the first line, at any float of it
    int64_t lines;
  };
  static constexpr int64_t kMost = 5;

  void Add(const float* at, int64_t floats) {
    if (floats <= 0) return;
    FLASHACL_DCHECK(count < kMost);
    spans[count++] = {at, CeilDiv(floats, kLineFloats)};
  }
  void Add(std::span<const float> floats) {
    Add(floats.data(), static_cast<int64_t>(floats.size()));
  }

  Span spans[kMost] = {};  // in the order of their use
  int64_t count = 0;
};

// Whether queries and gradients of outputs are saved as pairs of channels, half
// as large as floats. Of floats matrix registers get pairs of heads.
constexpr bool SavesPairs(PairDots dots) {
  return kListedRowsStayPairs && dots != PairDots::kNone &&
         dots != PairDots::kMatrices;
}

// The listed keys of a position in one kv block, and the channels of a d block:
// what is added to the d block's sums. Keys get ds times query, values p times
// grad_out; both if values are keys.
struct DkvArgs {
  const int64_t* columns = nullptr;
  const float* probs = nullptr;
  const float* grad_scores = nullptr;
  const float* query = nullptr;     // of the d block; null: no keys
  const float* grad_out = nullptr;  // of the d block
  int64_t channels = 0;             // of the d block
  int64_t value_channels = 0;       // that are values; none if 0 or less
  bool channel_pairs = false;       // query and grad_out: SavesPairs
  // For matrix registers, as SavedPds has them; null: there are none.
  const float* query_pairs = nullptr;
  const float* grad_out_pairs = nullptr;
  const int64_t* is_words = nullptr;
  int64_t first = 0;      // of the columns, in the split of the list
  int64_t step_keys = 0;  // of its steps
  int64_t count = 0;      // listed keys
  int64_t heads = 0;
  int64_t head_stride = 0;
  float* sums = nullptr;  // of column 0
  int64_t sum_stride = 0;
  PrefetchSpans prefetch;  // what is to be prefetched meanwhile

  // Floats, or pairs, of so many channels of query or grad_out.
  int64_t WordsOf(int64_t of_channels) const {
    return CeilDiv(of_channels, channel_pairs ? 2 : 1) * heads;
  }
};

struct TopKBackwardKernels {
  // Saves p and ds of a position's listed keys; adds them to its dq.
  void (*differentiate)(const TopKBackwardDqItem& item) = nullptr;

  // Adds what a position saved to the sums of a kv block and a d block.
  void (*add_to_keys)(const DkvArgs& args) = nullptr;

  // A row of floats as elements, rounded once.
  void (*store_row)(const ElementFormat& format, const float* from,
                    int64_t count, std::byte* to) = nullptr;
  bool has_pair_dots = false;  // PairDots::kInstruction
  MatrixCode matrices = MatrixCode::kNone;
};

TopKBackwardKernels TopKBackward();

}  // namespace flashacl::cpu
