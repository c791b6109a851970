// SPDX-License-Identifier: Apache-2.0
// The backward loop over tiles. Scores are the forward's, with query rows in
// the lanes, and so are the products with values. Gradients have channels in
// their lanes: weights then are scalars, and queries, keys and their gradients
// rows as they lie in memory.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#undef FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
#endif

#include "cpu/backward/dq_dk-inl.h"
#include "cpu/backward/softmax_backward-inl.h"
#include "cpu/forward/forward-inl.h"
#include "cpu/tile/store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline int64_t QueryChannels(const BackwardTile& tile) {
  return tile.scores.params->score_dim();
}

// Channels from the last one to a whole panel become 0, and so does what a
// transposition takes with them.
HWY_INLINE void ClearBehind(float* row, int64_t channels) {
  std::fill(row + channels, row + RoundUp(channels, Width()), 0.0f);
}

inline bool AllFinite(const float* HWY_RESTRICT row, int64_t channels) {
  return IsFinite(GreatestPattern(row, channels, hn::Zero(kW)));
}

// Asks for the operands of a row that is loaded soon.
inline void PrefetchBackwardRow(const BackwardTile& tile, int64_t r) {
  if (r >= tile.scores.rows) return;
  const ScoreParams& params = *tile.scores.params;
  const QueryRow& query_row = tile.scores.scratch.query_rows[r];
  PrefetchRow(query_row.query, params.qk_dim * params.query.element_bytes);
  PrefetchRow(query_row.out, params.v_dim * tile.shape->out.element_bytes);
  PrefetchRow(tile.scratch.grad_rows[r].grad_out,
              params.v_dim * tile.shape->grad_out.element_bytes);
}

// One row's operands, and what of it every key needs: max and 1 / sum. Its
// output is left in a row of the stage.
inline void LoadBackwardRow(BackwardTile& tile, int64_t r) {
  const ScoreParams& params = *tile.scores.params;
  const BackwardScratch& scratch = tile.scratch;
  const QueryRow& query_row = tile.scores.scratch.query_rows[r];
  float* const query =
      scratch.queries_by_row + r * tile.scores.scratch.key_stride;
  float* const grad = scratch.grad_out_rows + r * tile.shape->value_stride;
  float* const out =
      tile.scores.scratch.staging + r % 4 * tile.scores.scratch.staging_stride;
  LoadRow(params.query, query_row.query, params.qk_dim, query);
  if (params.rope_dim > 0) {
    LoadRow(params.query_rope, query_row.query_rope, params.rope_dim,
            query + params.qk_dim);
  }
  LoadRow(tile.shape->grad_out, scratch.grad_rows[r].grad_out, params.v_dim,
          grad);
  LoadRow(tile.shape->out, query_row.out, params.v_dim, out);
  ClearBehind(query, QueryChannels(tile));
  ClearBehind(grad, params.v_dim);
  ClearBehind(out, params.v_dim);
  tile.rows_finite &= AllFinite(query, QueryChannels(tile));
  tile.grad_out_finite &= AllFinite(grad, params.v_dim);

  const float sum = *query_row.sum;
  // Rows that see nothing have the greatest sum there is; 1 over it would be
  // subnormal.
  const bool counts = sum != 0 && sum != FLT_MAX;
  scratch.max[r] = *query_row.max;
  scratch.inv_sum[r] = counts ? 1.0f / sum : 0.0f;
  const bool usable =
      query_row.max[0] > kMinusInfinity && std::isfinite(scratch.inv_sum[r]);
  scratch.has_nonfinite[r / Width()] |= usable ? 0 : 1;
}

// Lanes without a row: zeros, whose weights are 0.
inline void LoadNoRow(const BackwardTile& tile, int64_t r) {
  const BackwardScratch& scratch = tile.scratch;
  const int64_t key_stride = tile.scores.scratch.key_stride;
  const int64_t staging_stride = tile.scores.scratch.staging_stride;
  std::fill_n(tile.scores.scratch.staging + r % 4 * staging_stride,
              staging_stride, 0.0f);
  std::fill_n(scratch.queries_by_row + r * key_stride, key_stride, 0.0f);
  std::fill_n(scratch.grad_out_rows + r * tile.shape->value_stride,
              tile.shape->value_stride, 0.0f);
  scratch.max[r] = -kMinusInfinity;
  scratch.inv_sum[r] = 0;
}

// All rows of a tile: queries and gradients of outputs as rows and as panels.
inline void StartTile(BackwardTile& tile) {
  const BackwardScratch& scratch = tile.scratch;
  const int64_t key_stride = tile.scores.scratch.key_stride;
  const int64_t value_stride = tile.shape->value_stride;
  const int64_t channels = QueryChannels(tile);
  const int64_t v_dim = tile.scores.params->v_dim;
  const int64_t rows = RoundUp(tile.scores.rows, Width());
  tile.rows_finite = tile.grad_out_finite = true;
  std::fill_n(scratch.has_nonfinite, rows / Width(), uint8_t{0});
  std::fill_n(scratch.sum_p_dp, rows, 0.0f);
  for (int64_t first = 0; first < rows; first += 4) {
    for (int64_t r = first; r < first + 4; ++r) {
      PrefetchBackwardRow(tile, r + kPrefetchRows);
      if (r < tile.scores.rows) {
        LoadBackwardRow(tile, r);
      } else {
        LoadNoRow(tile, r);
      }
    }
    // Where a row's output is one value, its dp and delta are the same number.
    const FourRows grads{scratch.grad_out_rows + first * value_stride,
                         value_stride};
    DotsOfFour(
        grads,
        {tile.scores.scratch.staging, tile.scores.scratch.staging_stride},
        v_dim, scratch.delta + first);
    // Blocks of four channels may pass a panel's end by three; the next panel
    // overwrites them, and behind the last is room.
    const int64_t panel = first / Width() * Width();
    RowsToPanel({scratch.queries_by_row + first * key_stride, key_stride},
                channels,
                tile.scores.scratch.query + panel * channels + first - panel);
    RowsToPanel(grads, v_dim, scratch.grad_out + panel * v_dim + first - panel);
  }
  if (tile.shape->wants_query) {
    std::fill_n(scratch.grad_query, rows * key_stride, 0.0f);
  }
}

// The keys and values of a step as rows.
inline void LoadStep(const BackwardTile& tile, KeyStep& step) {
  const KvRows& rows = tile.scores.keys;
  const int64_t key_stride = tile.scores.scratch.key_stride;
  const int64_t value_stride = tile.shape->value_stride;
  const int64_t channels = QueryChannels(tile);
  const int64_t v_dim = tile.scores.params->v_dim;
  KeyAddresses at;
  at.Locate(rows, step.cols);
  const int64_t count = step.cols.size();
  step.keys_finite = true;
  for (int64_t j = 0; j < count; ++j) {
    float* const key = tile.scores.scratch.keys + j * key_stride;
    LoadOne(rows.key, at.key, j, count, key);
    if (rows.rope.base != nullptr) {
      LoadOne(rows.rope, at.rope, j, count, key + rows.key.channels);
    }
    ClearBehind(key, channels);
    step.keys_finite &= AllFinite(key, channels);
    float* const value = tile.scratch.values + j * value_stride;
    if (tile.shape->value_is_key) {
      std::copy_n(key, v_dim, value);
    } else {
      LoadOne(rows.value, at.value, j, count, value);
    }
    ClearBehind(value, v_dim);
  }
}

// dp of the keys `local` of this step, without dropout.
inline void Dp(const BackwardTile& tile, int64_t first, Range local,
               float* grads) {
  const int64_t v_dim = tile.scores.params->v_dim;
  const int64_t stride = tile.shape->value_stride;
  PanelPair block_max = PanelPair::Of(0);
  for (int64_t d = 0; d == 0 || d < v_dim; d += kDepth) {
    const Range slice{d, std::min(d + kDepth, v_dim)};
    ForBlocks(local.size(), [&](int64_t j, auto size) HWY_ATTR {
      ScoreBlock<size()>(tile.scratch.values + (local.first + j) * stride,
                         stride, tile.scratch.grad_out + first * v_dim, slice,
                         nullptr, grads + j * Width(), block_max);
    });
  }
}

// Whether no score is so far above its row's max that its weight overflows;
// false if that cannot be told.
HWY_INLINE bool NearMax(const PanelPair& block_max, const float* max) {
  const PanelPair from = PanelPair::Load(max);
  const Vector most = hn::Set(kF, 80.0f);
  return hn::AllTrue(kF, hn::Le(hn::Sub(block_max.low, from.low), most)) &&
         hn::AllTrue(kF, hn::Le(hn::Sub(block_max.high, from.high), most));
}

// A panel of the block whose weights are computed, by its first row.
struct BlockPanel {
  int64_t first;       // row of the tile
  int64_t place;       // in the block
  float* probs;        // [key of the step, lane]
  float* grad_scores;  // likewise
};

// Weights and gradients of scores of the keys that ScorePanel scored.
inline void ExpAndSum(const BackwardTile& tile, const Panel& rows,
                      const BlockPanel& panel, const Scored& scored,
                      Range local) {
  const ScoreParams& params = *tile.scores.params;
  const ScoreScratch& scratch = tile.scores.scratch;
  const BackwardScratch& grad = tile.scratch;
  const int64_t count = local.size();
  float* const probs = panel.probs + local.first * Width();
  float* const grads = panel.grad_scores + local.first * Width();
  const float factor = 1.0f / params.keep_probability;
  const uint32_t* const visible = scored.all ? nullptr : scratch.visible;
  const RowFacts facts{grad.max + panel.first, grad.inv_sum + panel.first,
                       grad.delta + panel.first, grad.sum_p_dp + panel.first};
  if (params.dropped) {
    FillKept(tile.scores, rows.query_rows, rows.count, scored.cols,
             scratch.kept);
    DropScaled(grads, scratch.kept, count, factor);
  }
  if (grad.has_nonfinite[panel.first / Width()] == 0 &&
      NearMax(scored.block_max, facts.max)) {
    if (visible != nullptr && tile.shape->wants_sink) {
      ReplaceProbs(grads, visible, count, 0.0f);
    }
    ProbsAndDs(probs, grads, count, facts);
    // What is hidden has a weight of 0, which times infinity is not 0.
    if (visible != nullptr) ReplaceProbs(grads, visible, count, 0.0f);
  } else {
    ProbsAndDsByDefinition({probs, grads, count, visible}, rows.query_rows,
                           rows.count, facts);
  }
  if (params.dropped) DropScaled(probs, scratch.kept, count, factor);
}

// Whether products with rows or keys must leave out what is hidden.
inline bool SkipsMasked(const BackwardTile& tile, const KeyStep& step) {
  return !(tile.rows_finite && tile.grad_out_finite && step.keys_finite);
}

// What lies around a panel's own keys is 0 as far as blocks of keys reach, and
// where care is asked for, marked as hidden: as all that a row does not see.
inline void FinishProbs(const BlockPanel& panel, Range local,
                        const uint32_t* visible, bool skip_masked) {
  const int64_t before = std::max<int64_t>(0, local.first - kBig);
  const float nothing = skip_masked ? -0.0f : 0.0f;
  for (float* const values : {panel.probs, panel.grad_scores}) {
    if (skip_masked) {
      WithoutMinusZeros(values + local.first * Width(), local.size());
      if (visible != nullptr) {
        MarkHidden(values + local.first * Width(), visible, local.size());
      }
    }
    std::fill(values + before * Width(), values + local.first * Width(),
              nothing);
    std::fill_n(values + local.last * Width(), kBig * Width(), nothing);
  }
}

// Gradients of a panel's queries: += what the keys `local` add.
inline void AddGradQuery(const BackwardTile& tile, const Panel& rows,
                         const BlockPanel& panel, Range local,
                         bool skip_masked) {
  const ScoreScratch& scratch = tile.scores.scratch;
  const int64_t stride = scratch.key_stride;
  const float* const grads = panel.grad_scores + local.first * Width();
  const float* const keys = scratch.keys + local.first * stride;
  float* const out = tile.scratch.grad_query + panel.first * stride;
  for (int64_t c = 0; c < QueryChannels(tile); c += Width()) {
    ForBlocks(rows.count, [&](int64_t r, auto size) HWY_ATTR {
      const auto block = skip_masked ? GradQueryBlock<size(), true>
                                     : GradQueryBlock<size(), false>;
      block(grads + r, {keys + c, stride}, local.size(),
            {out + r * stride + c, stride});
    });
  }
}

// One panel and one step: weights, gradients of scores, and what they add to
// the gradients of queries.
inline void SoftmaxPanel(BackwardTile& tile, const KeyStep& step,
                         const BlockPanel& panel) {
  const ScoreTile& scores = tile.scores;
  Range& seen = tile.scratch.seen[panel.place];
  seen = {};
  Panel rows = PanelOf(scores, panel.first, panel.probs);
  const Range cols = SeenBy(scores.band, rows, step.cols);
  if (cols.empty()) return;
  const Range local{cols.first - step.cols.first, cols.last - step.cols.first};
  rows.scores += local.first * Width();
  const LoadedKeys loaded{};
  PrefetchQueue nothing;
  const Scored scored = ScorePanel(scores, loaded, step.cols, rows, nothing);
  if (scored.cols.empty()) return;
  seen = local;
  Dp(tile, panel.first, local, panel.grad_scores + local.first * Width());
  ExpAndSum(tile, rows, panel, scored, local);
  const bool skip_masked = SkipsMasked(tile, step);
  FinishProbs(panel, local, scored.all ? nullptr : scores.scratch.visible,
              skip_masked);
  if (tile.shape->wants_query) {
    AddGradQuery(tile, rows, panel, local, skip_masked);
  }
}

// Rows [first, last) of a tile, at most a block of them, and one step.
inline void SoftmaxBlock(BackwardTile& tile, const KeyStep& step, Range block) {
  const int64_t panel_floats = tile.scratch.panel_keys * Width();
  for (int64_t first = block.first; first < block.last; first += Width()) {
    const int64_t place = (first - block.first) / Width();
    SoftmaxPanel(tile, step,
                 {first, place, tile.scratch.probs + place * panel_floats,
                  tile.scratch.grad_scores + place * panel_floats});
  }
}

// sums += weights times rows, for the keys of a step; rows have `channels`.
inline void AddKeys(const BlockOfRows& block, const KeyStep& step,
                    const ChannelRows& rows, int64_t channels, bool skip_masked,
                    float* sums) {
  for (int64_t c = 0; c < channels; c += Width()) {
    ForBlocks(step.cols.size(), [&](int64_t j, auto size) HWY_ATTR {
      const auto add = skip_masked ? GradKeyBlock<size(), true>
                                   : GradKeyBlock<size(), false>;
      add(block, j, {rows.at + c, rows.stride},
          {sums + j * rows.stride + c, rows.stride});
    });
  }
}

// What a block of rows adds to the gradients of a step's keys and values.
inline void AddBlock(const BackwardTile& tile, const KeyStep& step,
                     Range block) {
  const BackwardScratch& scratch = tile.scratch;
  const ptrdiff_t panel_floats = scratch.panel_keys * Width();
  const int64_t key_stride = tile.scores.scratch.key_stride;
  const int64_t value_stride = tile.shape->value_stride;
  const bool skip_masked = SkipsMasked(tile, step);
  if (tile.shape->wants_value) {
    AddKeys({scratch.probs, panel_floats, scratch.seen, block.size()}, step,
            {scratch.grad_out_rows + block.first * value_stride, value_stride},
            tile.scores.params->v_dim, skip_masked, step.grad_values);
  }
  if (tile.shape->wants_key) {
    AddKeys({scratch.grad_scores, panel_floats, scratch.seen, block.size()},
            step,
            {scratch.queries_by_row + block.first * key_stride, key_stride},
            QueryChannels(tile), skip_masked, step.grad_keys);
  }
}

// Asks for the lines that the gradients of key `j` of a step go to.
inline void PrefetchGradRows(const BackwardTile& tile, const KeyStep& step,
                             int64_t j) {
  if (j >= step.cols.size()) return;
  const int64_t row = step.cols.first + j;
  if (tile.grad_key.base != nullptr) {
    PrefetchRow(
        tile.grad_key.base + row * tile.grad_key.row_bytes,
        tile.scores.params->qk_dim * tile.shape->grad_key.element_bytes);
  }
  if (tile.grad_value.base != nullptr) {
    PrefetchRow(
        tile.grad_value.base + row * tile.grad_value.row_bytes,
        tile.scores.params->v_dim * tile.shape->grad_value.element_bytes);
  }
}

// Finished sums of a step's keys, to where the caller wants them.
inline void StoreStep(const BackwardTile& tile, const KeyStep& step) {
  const ScoreParams& params = *tile.scores.params;
  const int64_t key_stride = tile.scores.scratch.key_stride;
  for (int64_t j = 0; j < step.cols.size(); ++j) {
    PrefetchGradRows(tile, step, j + kPrefetchRows);
    float* const key = step.grad_keys + j * key_stride;
    const float* const value = step.grad_values + j * tile.shape->value_stride;
    const int64_t row = step.cols.first + j;
    const auto at = [&](const KvGradRows& rows) {
      return rows.base + row * rows.row_bytes;
    };
    if (tile.shape->wants_key) {
      for (int64_t d = 0; d < QueryChannels(tile); ++d) key[d] *= params.scale;
      if (tile.shape->value_is_key) {
        for (int64_t d = 0; d < params.v_dim; ++d) key[d] += value[d];
      }
    }
    if (tile.grad_key.base != nullptr) {
      StoreChannels(tile.shape->grad_key, key, params.qk_dim,
                    at(tile.grad_key));
    }
    if (tile.grad_key_rope.base != nullptr) {
      StoreChannels(tile.shape->grad_key_rope, key + params.qk_dim,
                    params.rope_dim, at(tile.grad_key_rope));
    }
    if (tile.grad_value.base != nullptr) {
      StoreChannels(tile.shape->grad_value, value, params.v_dim,
                    at(tile.grad_value));
    }
  }
}

// The gradients of all queries of a tile, which has seen all its keys.
inline void FinishTile(const BackwardTile& tile) {
  const ScoreParams& params = *tile.scores.params;
  if (!tile.shape->wants_query) return;
  for (int64_t r = 0; r < tile.scores.rows; ++r) {
    const int64_t prefetch = r + kPrefetchRows;
    if (prefetch < tile.scores.rows &&
        tile.scratch.grad_rows[prefetch].grad_query != nullptr) {
      PrefetchRow(tile.scratch.grad_rows[prefetch].grad_query,
                  params.qk_dim * tile.shape->grad_query.element_bytes);
    }
    float* const row =
        tile.scratch.grad_query + r * tile.scores.scratch.key_stride;
    const GradRow& query_row = tile.scratch.grad_rows[r];
    for (int64_t d = 0; d < QueryChannels(tile); ++d) row[d] *= params.scale;
    if (query_row.grad_query != nullptr) {
      StoreChannels(tile.shape->grad_query, row, params.qk_dim,
                    query_row.grad_query);
    }
    if (query_row.grad_query_rope != nullptr) {
      StoreChannels(tile.shape->grad_query_rope, row + params.qk_dim,
                    params.rope_dim, query_row.grad_query_rope);
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
