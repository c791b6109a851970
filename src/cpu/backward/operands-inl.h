// SPDX-License-Identifier: Apache-2.0
// The operands of the backward direction: what a tile has of its rows, and a
// step of its keys.
//
// Rows are loaded once per tile, a block at a time, keys once per step for all
// blocks of rows. Queries and gradients of outputs are panels for scores and
// dp, and rows of floats, or pairs of rows, for dk and dv; keys are rows for
// scores, and where those are pairs of channels, once more for dq. What they
// turned out to be - finite, small, subnormal - is found on the way.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_kernel.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_BACKWARD_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_OPERANDS_INL_H_
#undef FLASHACL_CPU_BACKWARD_OPERANDS_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_OPERANDS_INL_H_
#endif

#include "cpu/backward/matrix_grads-inl.h"
#include "cpu/backward/rounded-inl.h"
#include "cpu/backward/store_grads-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/queries-inl.h"
#include "cpu/tile/softmax-inl.h"
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
  const ScoreParams& params = *tile.params;
  const QueryRow& row = tile.scratch.query_rows[r];
  PrefetchRow(row.query, params.qk_dim * params.query.element_bytes);
  PrefetchRow(tile.grad_rows.out, row.position, row.head, params.v_dim);
  PrefetchRow(tile.grad_rows.grad_out, row.position, row.head, params.v_dim);
}

// The greatest patterns of the rows of a panel.
struct GreatestOfRows {
  Patterns query = hn::Zero(kW);
  Patterns grad_out = hn::Zero(kW);

  // Said so that it is compiled for the target, too.
  HWY_INLINE GreatestOfRows() {}
};

// One row's operands, and the statistics that every key needs. Its output is
// left in a row of the staging memory.
inline void LoadOperands(const BackwardTile& tile, int64_t r,
                         GreatestOfRows& greatest) {
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
  greatest.query = GreatestPattern(query, params.score_dim(), greatest.query);
  greatest.grad_out = GreatestPattern(grad, params.v_dim, greatest.grad_out);

  const float sum = *query_row.sum;
  // Rows that see nothing have the greatest sum there is; 1 over it would be
  // subnormal.
  const bool counts = sum != 0 && sum != FLT_MAX;
  scratch.max[r] = *query_row.max;
  scratch.inv_sum[r] = counts ? 1.0f / sum : 0.0f;
  const bool usable =
      scratch.max[r] > kMinusInfinity && std::isfinite(scratch.inv_sum[r]);
  scratch.facts[r / Width()].usable &= usable;
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
// of their panel, and their delta is summed up; FinishRows does so for most
// queries of floats, and for delta of terms. Panels are filled in any order, so
// nothing passes the end of one.
inline void FillPanels(const BackwardTile& tile, int64_t first) {
  const ScoreParams& params = *tile.params;
  const BackwardScratch& scratch = tile.backward;
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t channels = params.score_dim();
  const int64_t v_dim = params.v_dim;
  const int64_t panel = first / Width() * Width();
  float* const queries = tile.scratch.query + panel * channels + first - panel;
  float* const grads = scratch.grad_out + panel * v_dim + first - panel;
  if (tile.terms > 1) return FourTermsToPanels(tile, first, queries, grads);
  const FourRows staging{tile.scratch.staging, tile.scratch.staging_stride};
  const FourRows grad_rows{scratch.grad_out_rows + first * scratch.value_stride,
                           scratch.value_stride};
  float* const delta = scratch.delta + first;
  // Where a row's output is one value, its dp and delta are the same number.
  if (tile.dots == PairDots::kNone) {
    if (channels % 4 != 0) {
      RowsToPanel({scratch.queries_by_row + first * key_stride, key_stride},
                  channels, queries);
    }
    return RowsToPanelAndDots(grad_rows, staging, v_dim, grads, delta);
  }
  DotsOfFourAs(tile.dots)(grad_rows, staging, v_dim, delta);
  const int64_t count = std::min<int64_t>(tile.rows - first, 4);
  FourPairsToPanels(tile, tile.grad_rows, {first, first + count}, staging,
                    queries, grads);
}

// The rows of the panel that begins with row `first` are loaded.
inline void FinishRows(const BackwardTile& tile, int64_t first,
                       const GreatestOfRows& greatest) {
  const BackwardScratch& scratch = tile.backward;
  PanelFacts& facts = scratch.facts[first / Width()];
  facts.finite = IsFinite(greatest.query) && IsFinite(greatest.grad_out);
  facts.small = AreSmall(greatest.query, kSmallFactor) ||
                AreSmall(greatest.grad_out, kSmallGrad);
  if (tile.dots == PairDots::kMatrices) PairRowsOfPanel(tile, first);
  const int64_t channels = tile.params->score_dim();
  if (tile.dots == PairDots::kNone && channels % 4 == 0) {
    const float* const rows =
        scratch.queries_by_row + first * tile.scratch.key_stride;
    PanelFromRows(channels, tile.scratch.query + first * channels,
                  [&](int64_t r, int64_t k) HWY_ATTR {
                    return hn::LoadU(kQ,
                                     rows + r * tile.scratch.key_stride + k);
                  });
  }
  if (tile.terms > 1) DeltaOfTerms(tile, first);
  if (!tile.rounds) return;
  const int64_t key_stride = tile.scratch.key_stride;
  PairRows(scratch.queries_by_row + first * key_stride, key_stride,
           tile.params->score_dim());
  PairRows(scratch.grad_out_rows + first * scratch.value_stride,
           scratch.value_stride, tile.params->v_dim);
}

// What a tile begins with: nothing is known of its rows, and nothing is summed.
inline void StartTile(BackwardTile& tile) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t rows = RoundUp(tile.rows, Width());
  std::fill_n(scratch.facts, rows / Width(), PanelFacts());
  std::fill_n(scratch.sum_p_dp, rows, 0.0f);
  if (tile.dots == PairDots::kMatrices) {
    StartMatrixGrads(tile);
  } else if (tile.wanted.query && !StoresDqAtOnce(tile)) {
    std::fill_n(scratch.grad_query, rows * tile.scratch.key_stride, 0.0f);
  }
}

// A block of a tile's rows, whole panels: queries and gradients of outputs as
// rows and as panels.
inline void LoadRows(BackwardTile& tile, Range block) {
  const int64_t rows = RoundUp(block.last, Width());
  GreatestOfRows greatest;
  for (int64_t first = block.first; first < rows; first += 4) {
    if (first % Width() == 0) greatest = GreatestOfRows();
    for (int64_t r = first; r < first + 4; ++r) {
      if (r + kPrefetchRows < block.last) {
        PrefetchOperands(tile, r + kPrefetchRows);
      }
      if (r < tile.rows) {
        LoadOperands(tile, r, greatest);
      } else {
        ClearOperands(tile, r);
      }
    }
    FillPanels(tile, first);
    if ((first + 4) % Width() == 0) {
      FinishRows(tile, first + 4 - Width(), greatest);
    }
  }
}

// The operands of the rows ahead will be needed.
inline void PrefetchAhead(const BackwardTile& tile, PrefetchQueue& prefetch) {
  const RowsAhead& ahead = tile.ahead;
  PrefetchQueries(*tile.params, ahead.rows, ahead.count, prefetch);
  for (const TensorRows* const of : {&ahead.grads.out, &ahead.grads.grad_out}) {
    prefetch.Add(ahead.count, tile.params->v_dim * of->format.element_bytes,
                 [&](int64_t r) {
                   return of->At(ahead.rows[r].position, ahead.rows[r].head);
                 });
  }
}

// Key and value `j` of a step as two terms, of a key that is there as floats.
inline void LoadStepTerms(const BackwardTile& tile, const KeyAddresses& at,
                          int64_t j, float* value, NonFinite& non_finite) {
  const int64_t stride = tile.scratch.key_stride;
  const float* const key = tile.key_rows() + j * stride;
  const float* floats = key;
  if (!tile.value_is_key) {
    floats = tile.scratch.staging;
    LoadOne(tile.keys.value, at.value, j, at.step.size(), tile.scratch.staging);
  }
  LoadTermsOfFloats(key, tile.params->score_dim(),
                    tile.scratch.keys + j * stride, non_finite);
  LoadTermsOfFloats(floats, tile.params->v_dim, value, non_finite);
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

// Key `j` of a step as floats, or as half of a pair of keys.
HWY_INLINE Patterns LoadKeyRow(const BackwardTile& tile, const KeyAddresses& at,
                               int64_t j, Patterns greatest) {
  const int64_t score_dim = tile.params->score_dim();
  const int64_t stride = tile.scratch.key_stride;
  float* const both = tile.scratch.staging;
  float* const second = both + tile.scratch.staging_stride;
  float* const key = !tile.rounds ? tile.key_rows() + j * stride
                     : j % 2 == 0 ? both
                                  : second;
  LoadKey(tile.keys, at, j, key);
  ClearPadding(key, score_dim);
  greatest = GreatestPattern(key, score_dim, greatest);
  const bool last = j + 1 == at.step.size();
  if (!tile.rounds || (j % 2 == 0 && !last)) return greatest;
  const int64_t count = RoundUp(score_dim, Width());
  if (j % 2 == 0) std::fill_n(second, count, 0.0f);
  PairTwoRows(both, second, count, tile.key_rows() + j / 2 * stride);
  return greatest;
}

// The keys and values of a step as rows.
inline void LoadStep(const BackwardTile& tile, KeyStep& step) {
  const KvRows& rows = tile.keys;
  const int64_t v_dim = tile.params->v_dim;
  KeyAddresses at;
  at.Locate(rows, step.cols);
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t count = step.cols.size();
  Patterns greatest = hn::Zero(kW);
  LeastOfPairs<Floats> subnormals;
  NonFinite non_finite;
  for (int64_t j = 0; j < count; ++j) {
    greatest = LoadKeyRow(tile, at, j, greatest);
    float* const value = tile.backward.values + j * tile.backward.value_stride;
    if (tile.terms > 1) {
      LoadStepTerms(tile, at, j, value, non_finite);
      continue;
    }
    if (tile.dots != PairDots::kNone) {
      LoadKeyPairs(rows, at, j, tile.scratch.keys + j * key_stride, subnormals);
      LoadValuePairs(tile, at, j, value, subnormals);
      continue;
    }
    if (tile.value_is_key) {
      std::copy_n(tile.key_rows() + j * key_stride, v_dim, value);
    } else {
      LoadOne(rows.value, at.value, j, count, value);
    }
    ClearPadding(value, v_dim);
  }
  if (tile.dots == PairDots::kMatrices) FinishKeyMatrices(tile, at);
  step.keys_finite = IsFinite(greatest);
  step.small = AreSmall(greatest, kSmallFactor);
  step.subnormal = subnormals.AnySubnormal() || non_finite.any();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_OPERANDS_INL_H_
