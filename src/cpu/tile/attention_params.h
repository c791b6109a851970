// SPDX-License-Identifier: Apache-2.0
// This folder is what vector code shares. It gets plain numbers and addresses:
// of scores in every direction, and of forward work.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "problem/band.h"

namespace flashacl::cpu {

// One packed row: a position and a head. Addresses are of its first element;
// those into grids, of column 0.
struct QueryRow {
  int64_t position = 0;
  int64_t head = 0;
  const std::byte* query = nullptr;
  const std::byte* query_rope = nullptr;
  // Of the first row of a panel that was loaded as pairs: some number in it is,
  // of queries or of gradients of outputs; or, of two terms, infinite or a NaN,
  // of outputs beside gradients, too.
  bool subnormal_panel = false;
  const float* query_scale = nullptr;  // of the query without its rope
  const std::byte* mask = nullptr;
  const std::byte* bias = nullptr;
  int64_t keep = 0;  // bit
  float slope = 0;   // alibi
  float sink = 0;    // -inf: none
  std::byte* out = nullptr;
  float* max = nullptr;  // null: not wanted
  float* sum = nullptr;
  float* lse = nullptr;
};

// What gradients of queries are computed from besides scores, and where they
// go.
struct GradRows {
  TensorRows out, grad_out, grad_query, grad_query_rope;
};

// What turns q.k into a score, and who sees whom: the same for all tiles of a
// run, in every direction.
struct ScoreParams {
  int64_t qk_dim = 0;
  int64_t rope_dim = 0;
  int64_t v_dim = 0;
  float scale = 1;
  bool bias_before_scale = false;
  bool alibi = false;
  bool alibi_root = false;
  float keep_probability = 1;
  bool masked = false, biased = false, dropped = false;
  ElementFormat query, query_rope, bias;
  // Row i has a bias for columns below i + bias_reach; it sees none of the
  // rest.
  int64_t bias_reach = Band::kOpen;
  int64_t mask_step = 0;  // bytes from column to column
  int64_t keep_step = 0;  // bits
  const std::byte* keep = nullptr;

  int64_t score_dim() const { return qk_dim + rope_dim; }
};

// Scratch memory for the scores of one tile at a time. Of pairs (PairDots) the
// first half of a panel holds its words, [pair, lane], and so does that of a
// row.
struct ScoreScratch {
  float* query;          // [panel, query channel, lane]
  float* keys;           // [key, key_stride]
  float* staging;        // [4, staging_stride]
  uint32_t* visible;     // [32 keys, lane] of one panel
  uint32_t* kept;        // [32 keys, lane] of one panel
  QueryRow* query_rows;  // [row]
  int64_t key_stride = 0;
  int64_t staging_stride = 0;
};

// Rows times keys of one sequence and kv head, and how their scores come about.
struct ScoreTile {
  const ScoreParams* params = nullptr;
  PairDots dots = PairDots::kNone;
  int terms = 1;  // of kMatrices: a number is a sum of so many of bf16
  // Of kMatrices: keys and values stay integers, which scores and outputs meet
  // with their scales (integers-inl.h), and queries have so many terms.
  bool integers = false;
  int query_terms = 1;
  bool streams = false;  // results go past the caches (streams.h)
  KvRows keys;
  ScoreScratch scratch{};
  Band band;
  int64_t rows = 0;         // scratch.query_rows has this many
  Range cols;               // of the sequence's keys
  int64_t columns = 0;      // the sequence has
  int64_t mask_first = 0;   // the first column that the mask may hide
  int64_t alibi_start = 0;  // distance of row 0 and column 0

  // Of a row in its panel of queries. Three terms take more than floats.
  int64_t query_floats() const {
    return params->score_dim() + (query_terms > 2 ? params->qk_dim : 0);
  }

  // What the positions of the rows `some` lie in.
  Range positions(Range some) const {
    return {scratch.query_rows[some.first].position,
            scratch.query_rows[some.last - 1].position + 1};
  }

  // The next step of `size` keys, from `from` on, that some row sees; empty
  // after the last.
  Range NextStep(int64_t size, int64_t from) const {
    return FirstStep(size, {from, cols.last});
  }

  // The first of those of other columns.
  Range FirstStep(int64_t size, Range of) const {
    for (int64_t j = of.first; j < of.last; j += size) {
      const Range step{j, std::min(j + size, of.last)};
      if (band.Classify(positions({0, rows}), step) != TileKind::kEmpty) {
        return step;
      }
    }
    return {};
  }
};

// out = x * scale + offset, by head and channel; one that is null is left out.
struct OutQuantParams {
  struct Factor {
    const std::byte* base = nullptr;
    ElementFormat format;
    int64_t head_bytes = 0;
  };
  Factor scale, offset;
};

// What becomes of scores in the forward direction, whether keys are tiled, few
// rows stream them or lists name them.
struct ForwardParams {
  int64_t step_keys = 0;      // keys of one step
  bool rounds_probs = false;  // to 8 bits, after prob_scale met them
  float prob_scale = 1;
  bool bf16_probs = false;  // probs may be rounded to bf16
  ElementFormat out;
  // Of one row's number in memory; 0 of what is not asked for.
  struct Copies {
    int64_t count = 0;
    int64_t step = 0;  // elements from copy to copy

    void Store(float value, float* to) const {
      for (int64_t n = 0; n < count; ++n) to[n * step] = value;
    }
  };
  Copies max_copies, sum_copies, lse_copies;
  // Row max and row sum where nothing is seen.
  float unseen_max = -FLT_MAX;
  float unseen_sum = FLT_MAX;
};

// Scratch memory for softmax and outputs of one tile at a time.
struct ForwardScratch {
  float* out;     // [panel, value channel, lane]
  float* max;     // [panel, lane]
  float* sum;     // [panel, lane]
  float* scores;  // [key, lane] of one panel
  float* quant;   // scales and offsets of keys, then of values
};

// Values of a step by blocks of channels, [block][key][channel of the block]:
// what a block's sums need next is what lies next. The block that begins at
// channel d starts at d * keys, for which each block has room. Where values and
// probs meet as pairs of keys, a word of two of them takes the place of a key.
struct PackedValues {
  float* at = nullptr;
  int64_t keys = 0;
};

struct ForwardTile : ScoreTile {
  const ForwardParams* forward_params = nullptr;
  const OutQuantParams* quant = nullptr;  // null: out as it is
  bool pairs_of_keys = false;  // probs, rounded to bf16, meet values by pairs
  ForwardScratch forward{};
  // Where an unfinished split goes, [row, v_dim + 2]: sums, max, sum. A
  // negative sum says that the sums are divided by it already, as they would
  // have overflowed. Null: the tile is the only split of its rows, and results
  // are stored.
  float* split_out = nullptr;
};

}  // namespace flashacl::cpu
