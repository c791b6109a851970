// SPDX-License-Identifier: Apache-2.0
// The queries of a tile as panels, of floats, or of pairs where these pay.
//
// They are packed once per tile as [channel, lane], with query rows in lanes,
// by blocks of 4 x 4. No later loop knows their element type.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/pair_dots.h"
#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_QUERIES_INL_H_
#undef FLASHACL_CPU_TILE_QUERIES_INL_H_
#else
#define FLASHACL_CPU_TILE_QUERIES_INL_H_
#endif

#include "cpu/tile/integers-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/terms-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Channels [0, channels) of a panel of rows; false if these are to be loaded
// one by one.
inline bool LoadPanel(const ElementFormat& format, const std::byte* const* rows,
                      int64_t channels, float* HWY_RESTRICT panel) {
  if (format.step != 1 || channels % 4 != 0) return false;
  bool loaded = false;
  WithVectorType(format.dtype, [&](auto type) HWY_ATTR {
    PanelFromRows(channels, panel, [&](int64_t r, int64_t k) HWY_ATTR {
      return FloatsAt<type()>(kQ, rows[r], k);
    });
    loaded = true;
  });
  return loaded;
}

// The same of pairs; whether some number is subnormal.
inline bool LoadPanelOfPairs(const ScoreParams& params,
                             const std::byte* const* rows,
                             const std::byte* const* ropes,
                             float* HWY_RESTRICT panel) {
  const int64_t pairs = params.qk_dim / 2;
  LeastOfPairs<Quad> subnormals;
  PanelOfPairs(rows, pairs, panel, subnormals);
  PanelOfPairs(ropes, params.rope_dim / 2, panel + pairs * Width(), subnormals);
  return subnormals.AnySubnormal();
}

// A row's query as floats, its rope after the rest.
inline void LoadQuery(const ScoreParams& params, const QueryRow& row,
                      float* HWY_RESTRICT to) {
  LoadRow(params.query, row.query, params.qk_dim, to);
  if (row.query_scale != nullptr) {
    DequantiseRow(*row.query_scale, 0, params.qk_dim, to);
  }
  if (params.rope_dim > 0) {
    LoadRow(params.query_rope, row.query_rope, params.rope_dim,
            to + params.qk_dim);
  }
}

// The same as pairs.
inline void LoadQueryPairs(const ScoreParams& params, const QueryRow& row,
                           float* HWY_RESTRICT to,
                           LeastOfPairs<Floats>& subnormals) {
  LoadPairs(row.query, params.qk_dim / 2, to, subnormals);
  LoadPairs(row.query_rope, params.rope_dim / 2, to + params.qk_dim / 2,
            subnormals);
}

// Queries and gradients of outputs of the rows `four`, up to four, as pairs
// into lanes of their panels, through `staging`; lanes without a row become 0.
inline void FourPairsToPanels(const ScoreTile& tile, const GradRows& grad_rows,
                              Range four, const FourRows& staging,
                              float* queries, float* grads) {
  const ScoreParams& params = *tile.params;
  QueryRow* const rows = tile.scratch.query_rows;
  LeastOfPairs<Floats> subnormals;
  const auto fill = [&](int64_t pairs, float* panel, auto load) HWY_ATTR {
    for (int64_t r = 0; r < 4; ++r) {
      float* const to = staging.first + r * staging.stride;
      if (r < four.size()) {
        load(rows[four.first + r], to);
      } else {
        std::fill_n(to, pairs, 0.0f);
      }
    }
    RowsToPanel(staging, pairs, panel);
  };
  fill(params.score_dim() / 2, queries,
       [&](const QueryRow& row, float* to)
           HWY_ATTR { LoadQueryPairs(params, row, to, subnormals); });
  const int64_t value_pairs = params.v_dim / 2;
  fill(value_pairs, grads, [&](const QueryRow& row, float* to) HWY_ATTR {
    LoadPairs(grad_rows.grad_out.At(row.position, row.head), value_pairs, to,
              subnormals);
  });
  rows[four.first / Width() * Width()].subnormal_panel |=
      subnormals.AnySubnormal();
}

// The queries of the panel that begins with row `first`; lanes without a row
// get the last row's.
inline void LoadQueries(const ScoreTile& tile, int64_t first) {
  const ScoreParams& params = *tile.params;
  const ScoreScratch& scratch = tile.scratch;
  const int64_t channels = params.score_dim();
  const int64_t stride = scratch.staging_stride;
  float* const panel = scratch.query + first * tile.query_floats();
  if (tile.terms == 2) return LoadQueryTerms(tile, first, panel);
  QueryRow& first_row = scratch.query_rows[first];
  if (tile.integers) {
    first_row.subnormal_panel = !LoadQueryIntegers(tile, first, panel);
    if (!first_row.subnormal_panel) return;
  }
  const std::byte* rows[Width()];
  const std::byte* ropes[Width()];
  for (int64_t r = 0; r < Width(); ++r) {
    const QueryRow& row =
        scratch.query_rows[std::min(first + r, tile.rows - 1)];
    rows[r] = row.query;
    ropes[r] = row.query_rope;
  }
  const bool pairs = tile.dots != PairDots::kNone && !tile.integers;
  if (pairs && tile.dots == PairDots::kMatrices) {
    ClearAfterPairs(channels, Width(), panel);
  }
  if (pairs && params.qk_dim % 8 == 0 && params.rope_dim % 8 == 0) {
    first_row.subnormal_panel = LoadPanelOfPairs(params, rows, ropes, panel);
    return;
  }
  const bool as_is = !pairs && first_row.query_scale == nullptr;
  if (as_is && LoadPanel(params.query, rows, params.qk_dim, panel) &&
      (params.rope_dim == 0 ||
       LoadPanel(params.query_rope, ropes, params.rope_dim,
                 panel + params.qk_dim * Width()))) {
    return;
  }
  LeastOfPairs<Floats> subnormals;
  for (int64_t lane = 0; lane < Width(); lane += 4) {
    for (int64_t r = 0; r < 4; ++r) {
      const QueryRow& row =
          scratch.query_rows[std::min(first + lane + r, tile.rows - 1)];
      float* const to = scratch.staging + r * stride;
      if (pairs) {
        LoadQueryPairs(params, row, to, subnormals);
      } else {
        LoadQuery(params, row, to);
      }
    }
    RowsToPanel({scratch.staging, stride}, pairs ? channels / 2 : channels,
                panel + lane);
  }
  if (pairs) first_row.subnormal_panel = subnormals.AnySubnormal();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_QUERIES_INL_H_
