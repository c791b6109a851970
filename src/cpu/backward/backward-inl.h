// SPDX-License-Identifier: Apache-2.0
// One tile of the backward direction: up to a thousand packed rows and all keys
// that they see.
//
// The tile's rows are loaded once: queries and gradients of outputs as panels,
// of pairs where these pay (tile/pairs-inl.h), and as rows of floats. The outer
// loop is over steps of keys, the next one over blocks of rows, both the
// caller's (backward_kernel.h). Scores are the forward's, with query rows in
// the lanes, and dp comes out of the same product with values for keys;
// softmax_backward-inl.h makes P and dS of them in place, panel by panel. The
// gradients have channels in the lanes (dq_dk-inl.h): a panel adds to dq at
// once, while its dS are in the first cache; a block of panels, in the second
// cache, adds to the dk and dv of the step, so that their sums are loaded and
// stored once per block. dq lives as long as the tile and is stored with it; dk
// and dv are stored by the last tile that adds to them.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_kernel.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#undef FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#endif

#include "cpu/backward/dq_dk-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax_backward-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Channels from the last one to a whole panel become 0, and so does what a
// transposition takes with them.
HWY_INLINE void ClearPadding(float* row, int64_t channels) {
  std::fill(row + channels, row + RoundUp(channels, Width()), 0.0f);
}

// Prefetches the operands of a row that is loaded soon.
inline void PrefetchOperands(const BackwardTile& tile, int64_t r) {
  if (r >= tile.rows) return;
  const ScoreParams& params = *tile.params;
  const QueryRow& row = tile.scratch.query_rows[r];
  PrefetchRow(row.query, params.qk_dim * params.query.element_bytes);
  PrefetchRow(tile.grad_rows.out, row.position, row.head, params.v_dim);
  PrefetchRow(tile.grad_rows.grad_out, row.position, row.head, params.v_dim);
}

// One row's operands, and the statistics that every key needs. Its output is
// left in a row of the staging memory.
inline void LoadOperands(BackwardTile& tile, int64_t r) {
  const ScoreParams& params = *tile.params;
  const BackwardScratch& scratch = tile.backward;
  const QueryRow& query_row = tile.scratch.query_rows[r];
  float* const query = scratch.queries_by_row + r * tile.scratch.key_stride;
  float* const grad = scratch.grad_out_rows + r * scratch.value_stride;
  float* const out = tile.scratch.staging + r % 4 * tile.scratch.staging_stride;
  LoadQuery(params, query_row, query);
  LoadRow(tile.grad_rows.grad_out, query_row.position, query_row.head,
          params.v_dim, grad);
  LoadRow(tile.grad_rows.out, query_row.position, query_row.head, params.v_dim,
          out);
  ClearPadding(query, params.score_dim());
  ClearPadding(grad, params.v_dim);
  ClearPadding(out, params.v_dim);
  tile.rows_finite &= AllFinite(query, params.score_dim());
  tile.grad_out_finite &= AllFinite(grad, params.v_dim);

  const float sum = *query_row.sum;
  // Rows that see nothing have the greatest sum there is; 1 over it would be
  // subnormal.
  const bool counts = sum != 0 && sum != FLT_MAX;
  scratch.max[r] = *query_row.max;
  scratch.inv_sum[r] = counts ? 1.0f / sum : 0.0f;
  const bool usable =
      scratch.max[r] > kMinusInfinity && std::isfinite(scratch.inv_sum[r]);
  scratch.has_nonfinite[r / Width()] |= usable ? 0 : 1;
}

// Lanes without a row: zeros, whose P are 0.
inline void ClearOperands(const BackwardTile& tile, int64_t r) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t staging_stride = tile.scratch.staging_stride;
  std::fill_n(tile.scratch.staging + r % 4 * staging_stride, staging_stride,
              0.0f);
  std::fill_n(scratch.queries_by_row + r * key_stride, key_stride, 0.0f);
  std::fill_n(scratch.grad_out_rows + r * scratch.value_stride,
              scratch.value_stride, 0.0f);
  scratch.max[r] = -kMinusInfinity;
  scratch.inv_sum[r] = 0;
}

// Queries and gradients of outputs of four rows, which are loaded, become lanes
// of their panel. Blocks of four channels may pass a panel's end by three; the
// next panel overwrites them, and after the last is room.
inline void FillPanels(const BackwardTile& tile, int64_t first) {
  const ScoreParams& params = *tile.params;
  const BackwardScratch& scratch = tile.backward;
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t channels = params.score_dim();
  const int64_t v_dim = params.v_dim;
  const int64_t panel = first / Width() * Width();
  float* const queries = tile.scratch.query + panel * channels + first - panel;
  float* const grads = scratch.grad_out + panel * v_dim + first - panel;
  if (tile.dots == PairDots::kNone) {
    RowsToPanel({scratch.queries_by_row + first * key_stride, key_stride},
                channels, queries);
    RowsToPanel({scratch.grad_out_rows + first * scratch.value_stride,
                 scratch.value_stride},
                v_dim, grads);
    return;
  }
  const FourRows staging{tile.scratch.staging, tile.scratch.staging_stride};
  const int64_t count = std::min<int64_t>(tile.rows - first, 4);
  FourPairsToPanels(tile, tile.grad_rows, {first, first + count}, staging,
                    queries, grads);
}

// All rows of a tile: queries and gradients of outputs as rows and as panels.
inline void StartTile(BackwardTile& tile) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t rows = RoundUp(tile.rows, Width());
  tile.rows_finite = tile.grad_out_finite = true;
  std::fill_n(scratch.has_nonfinite, rows / Width(), uint8_t{0});
  std::fill_n(scratch.sum_p_dp, rows, 0.0f);
  for (int64_t first = 0; first < rows; first += 4) {
    for (int64_t r = first; r < first + 4; ++r) {
      PrefetchOperands(tile, r + kPrefetchRows);
      if (r < tile.rows) {
        LoadOperands(tile, r);
      } else {
        ClearOperands(tile, r);
      }
    }
    // Where a row's output is one value, its dp and delta are the same number.
    const FourRows grads{scratch.grad_out_rows + first * scratch.value_stride,
                         scratch.value_stride};
    DotsOfFour(grads, {tile.scratch.staging, tile.scratch.staging_stride},
               tile.params->v_dim, scratch.delta + first);
    FillPanels(tile, first);
  }
  if (tile.wanted.query) {
    std::fill_n(scratch.grad_query, rows * tile.scratch.key_stride, 0.0f);
  }
}

// Value `j` of a step as pairs.
inline void LoadValuePairs(const BackwardTile& tile, const KeyAddresses& at,
                           int64_t j, float* to,
                           LeastOfPairs<Floats>& subnormals) {
  const KvRows& rows = tile.keys;
  const int64_t v_dim = tile.params->v_dim;
  const RowSource& source = tile.value_is_key ? rows.key : rows.value;
  const std::byte* const* const row = tile.value_is_key ? at.key : at.value;
  LoadOnePairs(source, row, j, at.step.size(), v_dim, to, subnormals);
}

// The keys and values of a step as rows.
inline void LoadStep(const BackwardTile& tile, KeyStep& step) {
  const KvRows& rows = tile.keys;
  const int64_t score_dim = tile.params->score_dim();
  const int64_t v_dim = tile.params->v_dim;
  KeyAddresses at;
  at.Locate(rows, step.cols);
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t count = step.cols.size();
  step.keys_finite = true;
  LeastOfPairs<Floats> subnormals;
  for (int64_t j = 0; j < count; ++j) {
    float* const key = tile.key_rows() + j * key_stride;
    LoadKey(rows, at, j, key);
    ClearPadding(key, score_dim);
    step.keys_finite &= AllFinite(key, score_dim);
    float* const value = tile.backward.values + j * tile.backward.value_stride;
    if (tile.dots != PairDots::kNone) {
      LoadKeyPairs(rows, at, j, tile.scratch.keys + j * key_stride, subnormals);
      LoadValuePairs(tile, at, j, value, subnormals);
      continue;
    }
    if (tile.value_is_key) {
      std::copy_n(key, v_dim, value);
    } else {
      LoadOne(rows.value, at.value, j, count, value);
    }
    ClearPadding(value, v_dim);
  }
  step.subnormal = subnormals.AnySubnormal();
}

// A panel of a block of rows.
struct BlockPanel {
  int64_t first;       // row of the tile
  float* probs;        // [key of the step, lane]
  float* grad_scores;  // likewise
  Range* seen;         // of the step's keys
};

// Scores and dp of the keys that ScorePanel scored become P and dS.
inline void SoftmaxKeys(const BackwardTile& tile, const Panel& rows,
                        const BlockPanel& panel, const Scored& scored,
                        Range local) {
  const ScoreParams& params = *tile.params;
  const ScoreScratch& scores = tile.scratch;
  const BackwardScratch& scratch = tile.backward;
  const int64_t count = local.size();
  float* const probs = panel.probs + local.first * Width();
  float* const grads = panel.grad_scores + local.first * Width();
  const float factor = 1.0f / params.keep_probability;
  const uint32_t* const visible = scored.all ? nullptr : scores.visible;
  const RowStatistics statistics{scratch.max + panel.first,
                                 scratch.inv_sum + panel.first,
                                 scratch.delta + panel.first};
  float* const sum_p_dp = scratch.sum_p_dp + panel.first;
  if (params.dropped) {
    FillKept(tile, rows.query_rows, rows.count, scored.cols,
             PanelWords(scores.kept));
    DropScaled(grads, scores.kept, count, factor);
  }
  if (scratch.has_nonfinite[panel.first / Width()] == 0 &&
      ExpIsFinite(scored.block_max, statistics.max)) {
    if (visible != nullptr && tile.wanted.sink) {
      ReplaceProbs(grads, visible, count, 0.0f);
    }
    ProbsAndDs(probs, grads, count, statistics, sum_p_dp);
    // What is hidden has a p of 0, which times infinity is not 0.
    if (visible != nullptr) ReplaceProbs(grads, visible, count, 0.0f);
  } else {
    ProbsAndDsByDefinition({probs, grads, count, visible}, rows.query_rows,
                           rows.count, statistics, sum_p_dp);
  }
  if (params.dropped) DropScaled(probs, scores.kept, count, factor);
}

// Whether products with rows or keys must leave out what is hidden.
inline bool SkipsMasked(const BackwardTile& tile, const KeyStep& step) {
  return !(tile.rows_finite && tile.grad_out_finite && step.keys_finite);
}

// What lies around a panel's own keys becomes 0 as far as blocks of keys reach,
// and where products skip what is masked, is marked as that; so is all that a
// row does not see.
inline void FinishPanel(const BlockPanel& panel, Range local,
                        const uint32_t* visible, bool skip_masked) {
  const int64_t before = std::max<int64_t>(0, local.first - kBig);
  const float nothing = skip_masked ? -0.0f : 0.0f;
  for (float* const values : {panel.probs, panel.grad_scores}) {
    float* const first = values + local.first * Width();
    if (skip_masked) {
      WithoutMinusZeros(first, local.size());
      if (visible != nullptr) MarkHidden(first, visible, local.size());
    }
    std::fill(values + before * Width(), first, nothing);
    std::fill_n(values + local.last * Width(), kBig * Width(), nothing);
  }
}

// dq of a panel: += what the keys `local` add.
inline void AddDq(const BackwardTile& tile, const Panel& rows,
                  const BlockPanel& panel, Range local, bool skip_masked) {
  const int64_t stride = tile.scratch.key_stride;
  const float* const grads = panel.grad_scores + local.first * Width();
  const float* const keys = tile.key_rows() + local.first * stride;
  float* const out = tile.backward.grad_query + panel.first * stride;
  for (int64_t c = 0; c < tile.params->score_dim(); c += Width()) {
    ForBlocks(rows.count, [&](int64_t r, auto size) HWY_ATTR {
      const auto block = skip_masked ? GradQueryBlock<size(), true>
                                     : GradQueryBlock<size(), false>;
      block(grads + r, {keys + c, stride}, local.size(), out + r * stride + c);
    });
  }
}

// One panel and one step: P, dS, and what they add to dq.
inline void SoftmaxPanel(BackwardTile& tile, const KeyStep& step,
                         const BlockPanel& panel) {
  *panel.seen = {};
  Panel rows = PanelOf(tile, panel.first, panel.probs);
  const Range cols = SeenBy(tile.band, rows, step.cols);
  if (cols.empty()) return;
  const Range local{cols.first - step.cols.first, cols.last - step.cols.first};
  rows.scores += local.first * Width();
  LoadedKeys loaded{};
  loaded.subnormal_keys = step.subnormal;
  PrefetchQueue nothing;
  const Scored scored =
      ScorePanel<true>(tile, loaded, step.cols, rows, nothing);
  if (scored.cols.empty()) return;
  *panel.seen = local;
  // dp, without dropout.
  const int64_t v_dim = tile.params->v_dim;
  const int64_t stride = tile.backward.value_stride;
  RowProducts<true>(
      tile.dots,
      [&] { return step.subnormal || rows.query_rows->subnormal_panel; },
      {tile.backward.values + local.first * stride, stride}, local.size(),
      tile.backward.grad_out + panel.first * v_dim, v_dim, nullptr,
      panel.grad_scores + local.first * Width(), nothing);
  SoftmaxKeys(tile, rows, panel, scored, local);
  const bool skip_masked = SkipsMasked(tile, step);
  FinishPanel(panel, local, scored.all ? nullptr : tile.scratch.visible,
              skip_masked);
  if (tile.wanted.query) AddDq(tile, rows, panel, local, skip_masked);
}

// A block of rows and one step.
inline void SoftmaxBlock(BackwardTile& tile, const KeyStep& step, Range block) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t panel_floats = scratch.panel_keys * Width();
  BlockPanel panel{block.first, scratch.probs, scratch.grad_scores,
                   scratch.seen};
  for (; panel.first < block.last; panel.first += Width()) {
    SoftmaxPanel(tile, step, panel);
    panel.probs += panel_floats;
    panel.grad_scores += panel_floats;
    ++panel.seen;
  }
}

// sums += P or dS times rows of `channels`, for `keys` keys.
inline void AddBlock(const BlockOfRows& block, int64_t keys,
                     const ChannelRows& rows, int64_t channels,
                     bool skip_masked, float* sums) {
  for (int64_t c = 0; c < channels; c += Width()) {
    ForBlocks(keys, [&](int64_t j, auto size) HWY_ATTR {
      const auto add = skip_masked ? GradKeyBlock<size(), true>
                                   : GradKeyBlock<size(), false>;
      add(block, j, {rows.at + c, rows.stride}, sums + j * rows.stride + c);
    });
  }
}

// What a block of rows adds to dk and dv of a step.
inline void AddDkv(const BackwardTile& tile, const KeyStep& step, Range block,
                   const KvSums& sums) {
  const BackwardScratch& scratch = tile.backward;
  const ptrdiff_t panel_floats = scratch.panel_keys * Width();
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t value_stride = scratch.value_stride;
  const int64_t keys = step.cols.size();
  const bool skip_masked = SkipsMasked(tile, step);
  if (tile.wanted.value) {
    AddBlock({scratch.probs, panel_floats, scratch.seen, block.size()}, keys,
             {scratch.grad_out_rows + block.first * value_stride, value_stride},
             tile.params->v_dim, skip_masked, sums.values);
  }
  if (tile.wanted.key) {
    AddBlock({scratch.grad_scores, panel_floats, scratch.seen, block.size()},
             keys,
             {scratch.queries_by_row + block.first * key_stride, key_stride},
             tile.params->score_dim(), skip_masked, sums.keys);
  }
}

// Finished sums of the keys `cols`, to where the caller wants them.
inline void StoreDkv(const BackwardTile& tile, Range cols, const KvSums& sums) {
  const ScoreParams& params = *tile.params;
  float* key = sums.keys;
  const float* value = sums.values;
  for (int64_t row = cols.first; row < cols.last; ++row) {
    const int64_t next = row + kPrefetchRows;
    if (next < cols.last) {
      PrefetchRow(tile.grad_key, next, tile.kv_head, params.qk_dim);
      PrefetchRow(tile.grad_value, next, tile.kv_head, params.v_dim);
    }
    if (tile.wanted.key) {
      for (int64_t d = 0; d < params.score_dim(); ++d) key[d] *= params.scale;
      if (tile.value_is_key) {
        for (int64_t d = 0; d < params.v_dim; ++d) key[d] += value[d];
      }
    }
    StoreRow(tile.grad_key, row, tile.kv_head, key, params.qk_dim);
    StoreRow(tile.grad_key_rope, row, tile.kv_head, key + params.qk_dim,
             params.rope_dim);
    StoreRow(tile.grad_value, row, tile.kv_head, value, params.v_dim);
    key += tile.scratch.key_stride;
    value += tile.backward.value_stride;
  }
}

// The gradients of all queries of a tile, which has seen all its keys.
inline void StoreDq(const BackwardTile& tile) {
  if (!tile.wanted.query) return;
  const ScoreParams& params = *tile.params;
  const QueryRow* const query_rows = tile.scratch.query_rows;
  float* row = tile.backward.grad_query;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (r + kPrefetchRows < tile.rows) {
      const QueryRow& next = query_rows[r + kPrefetchRows];
      PrefetchRow(tile.grad_rows.grad_query, next.position, next.head,
                  params.qk_dim);
    }
    for (int64_t d = 0; d < params.score_dim(); ++d) row[d] *= params.scale;
    StoreGradQuery(tile.grad_rows, query_rows[r], params, row);
    row += tile.scratch.key_stride;
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
