// SPDX-License-Identifier: Apache-2.0
// One tile of the backward direction: up to a thousand packed rows and all keys
// that they see.
//
// The tile's rows are loaded once, a block of them before it is computed for
// the first time. While it is computed tile.ahead is prefetched. Queries
// and gradients of outputs lie as panels, of pairs where these pay
// (tile/pairs-inl.h), and as rows of floats.
//
// The outer loop is over steps of keys, the next one over blocks of rows, both
// the caller's (backward_kernel.h). Scores are the forward's, with query rows
// in the lanes, and dp comes out of the same product with values for keys;
// softmax_backward-inl.h makes P and dS of them in place, panel by panel. The
// gradients have channels in the lanes (dq_dk-inl.h): a panel adds to dq at
// once, while its dS are in the first cache; a block of panels, in the second
// cache, adds to the dk and dv of the step, so that their sums are loaded and
// stored once per block. What is complete is stored (store_grads-inl.h): dq
// with the tile, or block by block where all keys are one step; dk and dv by
// the last tile that adds to them. Where P and dS may be rounded, a panel's are
// packed after softmax, and rows and keys as they are loaded (rounded-inl.h).

#include <algorithm>
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
#include "cpu/backward/matrix_grads-inl.h"
#include "cpu/backward/operands-inl.h"
#include "cpu/backward/rounded-inl.h"
#include "cpu/backward/store_grads-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A panel of a block of rows.
struct BlockPanel {
  int64_t first;          // row of the tile
  float* probs;           // [key of the step, lane]
  float* grad_scores;     // likewise
  Range* seen;            // of the step's keys
  float* prob_row_pairs;  // [key of the step, pair of rows]
  float* grad_row_pairs;  // likewise
  int64_t number = 0;     // in its block
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
  if (scratch.facts[panel.first / Width()].usable &&
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

// Whether products of a block of rows and a step must leave out what is hidden.
inline bool SkipsMasked(const BackwardTile& tile, const KeyStep& step,
                        Range block) {
  bool finite = step.keys_finite;
  for (int64_t r = block.first; r < block.last; r += Width()) {
    finite &= tile.backward.facts[r / Width()].finite;
  }
  return !finite;
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

// Calls body(r, c, size, halves, sums) for the blocks of dq of a panel: rows
// of the panel and channels from r and c on, and their sums, to add to. Those
// that are complete with it are stored, and rows of all panels take turns in
// the memory of the first.
template <typename Body>
HWY_INLINE void ForDqBlocks(const BackwardTile& tile, const Panel& rows,
                            const BlockPanel& panel, Body body) {
  const int64_t stride = tile.scratch.key_stride;
  const int64_t channels = tile.params->score_dim();
  const bool store = StoresDqAtOnce(tile);
  float* const dq =
      tile.backward.grad_query + (store ? 0 : panel.first * stride);
  ForChannels(channels, [&](int64_t c, auto halves) HWY_ATTR {
    ForBlocks(rows.count, [&](int64_t r, auto size) HWY_ATTR {
      float* const sums = dq + r * stride + c;
      const Range made{c, std::min(c + Width(), channels)};
      const int64_t count = std::min<int64_t>(size(), rows.count - r);
      if (store) ClearSums<size()>(sums, stride);
      body(r, c, size, halves, sums);
      if (store) {
        StoreQuerySums(tile, {sums, stride}, panel.first + r, count, made);
      }
    });
  });
}

// dq of a panel: += what the keys `local` add.
inline void AddDq(const BackwardTile& tile, const Panel& rows,
                  const BlockPanel& panel, Range local, bool skip_masked,
                  PrefetchQueue& prefetch) {
  const int64_t stride = tile.scratch.key_stride;
  const float* const grads = panel.grad_scores + local.first * Width();
  const float* const keys = tile.key_rows() + local.first * stride;
  ForDqBlocks(
      tile, rows, panel,
      [&](int64_t r, int64_t c, auto size, auto halves, float* sums) HWY_ATTR {
        if (tile.rounds) {
          return GradQuerySeenPairs<size()>(panel.grad_scores + r,
                                            {tile.key_rows() + c, stride},
                                            local, sums);
        }
        const auto block = skip_masked
                               ? GradQueryBlock<size(), true>
                               : GradQueryBlock<size(), false, halves()>;
        block(grads + r, {keys + c, stride}, local.size(), sums);
        prefetch.Issue();
      });
}

// The same of pairs of keys, of which this panel's dS are.
inline void AddDqOfPairs(const BackwardTile& tile, const Panel& rows,
                         const BlockPanel& panel, Range local,
                         bool multiply_adds) {
  const int64_t stride = tile.scratch.key_stride;
  const float* const keys = tile.key_rows() + local.first / 2 * stride;
  const int64_t pairs = (local.last + 1) / 2 - local.first / 2;
  WithPairs(tile.dots, multiply_adds, [&](auto product) HWY_ATTR {
    ForDqBlocks(tile, rows, panel,
                [&](int64_t r, int64_t c, auto size, auto halves, float* sums)
                    HWY_ATTR {
                      GradQueryPairs<size(), decltype(product), halves()>(
                          tile.backward.grad_key_pairs + r, {keys + c, stride},
                          pairs, sums);
                    });
  });
}

// Rows that see no key of a step: where it is the only one, their dq are 0.
inline void StoreNoDq(const BackwardTile& tile, const Panel& rows,
                      const BlockPanel& panel) {
  if (!tile.wanted.query || !StoresDqAtOnce(tile)) return;
  ForDqBlocks(tile, rows, panel, [](int64_t, int64_t, auto, auto, float*) {});
}

// P and dS of a panel become pairs, and dq += what the keys `local` add.
// Returns whether products with them must be multiply-adds.
inline bool RoundAndAddDq(const BackwardTile& tile, const KeyStep& step,
                          const Panel& rows, const BlockPanel& panel,
                          Range local) {
  float* const probs = panel.probs + local.first * Width();
  float* const grads = panel.grad_scores + local.first * Width();
  if (rows.count < Width()) {
    ClearLanes(probs, local.size(), rows.count);
    ClearLanes(grads, local.size(), rows.count);
  }
  const ptrdiff_t first = local.first * Lanes();
  const RoundedPanel rounded{probs, grads, panel.prob_row_pairs + first,
                             panel.grad_row_pairs + first,
                             tile.backward.grad_key_pairs};
  const bool odd = local.first % 2 != 0;
  const RoundedFacts facts = RoundPanel<false>(rounded, local.size(), odd);
  if (facts.beyond) RoundPanel<true>(rounded, local.size(), odd);
  const int64_t before = std::min<int64_t>(local.first, kBig);
  for (float* const pairs : {panel.prob_row_pairs, panel.grad_row_pairs}) {
    std::fill_n(pairs + first - before * Lanes(), before * Lanes(), 0.0f);
    std::fill_n(pairs + local.last * Lanes(), kBig * Lanes(), 0.0f);
  }
  const bool multiply_adds = facts.small || step.small || step.subnormal ||
                             tile.backward.facts[panel.first / Width()].small ||
                             rows.query_rows->subnormal_panel;
  if (tile.wanted.query) AddDqOfPairs(tile, rows, panel, local, multiply_adds);
  return multiply_adds;
}

// One panel and one step: P, dS, and what they add to dq.
inline void SoftmaxPanel(BackwardTile& tile, const KeyStep& step,
                         const BlockPanel& panel, bool skip_masked,
                         PrefetchQueue& prefetch) {
  *panel.seen = {};
  Panel rows = PanelOf(tile, panel.first, panel.probs);
  const Range cols = SeenBy(tile.band, rows, step.cols);
  if (cols.empty()) return StoreNoDq(tile, rows, panel);
  const Range local{cols.first - step.cols.first, cols.last - step.cols.first};
  rows.scores += local.first * Width();
  LoadedKeys loaded{};
  loaded.subnormal_keys = step.subnormal;
  const Scored scored =
      ScorePanel<true>(tile, loaded, step.cols, rows, prefetch);
  if (scored.cols.empty()) return StoreNoDq(tile, rows, panel);
  *panel.seen = local;
  // dp, without dropout.
  const int64_t v_dim = tile.params->v_dim;
  const int64_t stride = tile.backward.value_stride;
  const ChannelRows values{tile.backward.values + local.first * stride, stride};
  const float* const grad_out = tile.backward.grad_out + panel.first * v_dim;
  float* const dp = panel.grad_scores + local.first * Width();
  const bool subnormal = step.subnormal || rows.query_rows->subnormal_panel;
  const bool matrices = tile.dots == PairDots::kMatrices;
  if (matrices && !subnormal) {
    ProductsByMatrices(tile, values, local.size(), grad_out, v_dim, dp,
                       prefetch);
  } else if (tile.terms > 1) {
    ProductsOfTerms(values, local.size(), grad_out, v_dim, dp);
  } else {
    RowProducts<true>(
        tile.dots, [&] { return subnormal; }, values, local.size(), grad_out,
        rows.FillsHalf(), v_dim, nullptr, dp, prefetch);
  }
  SoftmaxKeys(tile, rows, panel, scored, local);
  if (tile.rounds && !skip_masked) {
    tile.multiply_adds |= RoundAndAddDq(tile, step, rows, panel, local);
    return;
  }
  const bool packed =
      matrices && !skip_masked && !subnormal &&
      PackGradPanel(tile, {rows.count, panel.first, panel.number, local},
                    panel.probs, panel.grad_scores) &&
      !step.small && !tile.backward.facts[panel.first / Width()].small;
  if (!packed) tile.multiply_adds = true;
  FinishPanel(panel, local, scored.all ? nullptr : tile.scratch.visible,
              skip_masked);
  if (packed) {
    if (tile.wanted.query) AddDqByMatrices(tile, panel.first, local);
    return;
  }
  if (!tile.wanted.query) return;
  if (matrices) SumDqByRow(tile, panel.first);
  AddDq(tile, rows, panel, local, skip_masked, prefetch);
}

// About how many times SoftmaxPanel issues prefetches, of all keys of a step.
inline int64_t PanelBlocks(const BackwardTile& tile, const KeyStep& step) {
  const int64_t keys = step.cols.size(), channels = tile.params->score_dim();
  if (tile.dots == PairDots::kMatrices) {
    return MatrixBlocks(keys, channels / 2) +
           MatrixBlocks(keys, tile.params->v_dim / 2);
  }
  const int64_t of_keys = 2 * CeilDiv(keys, kBig);
  if (tile.rounds || !tile.wanted.query) return of_keys;
  return of_keys + CeilDiv(channels, Width()) * CeilDiv(Width(), kBig);
}

// A block of rows and one step. Where P and dS become pairs, all panels leave
// them in the first one's place, unless they are gradients of a bias, too.
inline void SoftmaxBlock(BackwardTile& tile, const KeyStep& step, Range block) {
  const BackwardScratch& scratch = tile.backward;
  const bool skip_masked = SkipsMasked(tile, step, block);
  const bool packs = tile.rounds && !skip_masked;
  const int64_t panel_floats = scratch.panel_keys * Width();
  tile.multiply_adds = false;
  BlockPanel panel{
      block.first,  scratch.probs,          scratch.grad_scores,
      scratch.seen, scratch.prob_row_pairs, scratch.grad_row_pairs};
  const bool matrices = tile.dots == PairDots::kMatrices;
  if (matrices) Matrices::Configure();
  PrefetchQueue prefetch(PrefetchesIntoSecond(tile.dots));
  PrefetchAhead(tile, prefetch);
  prefetch.Divide(PanelBlocks(tile, step) * CeilDiv(block.size(), Width()),
                  kMaxRowPrefetchLines);
  for (; panel.first < block.last; panel.first += Width()) {
    SoftmaxPanel(tile, step, panel, skip_masked, prefetch);
    if (!packs) panel.probs += panel_floats;
    if (!packs || tile.wanted.bias) panel.grad_scores += panel_floats;
    if (packs) {
      panel.prob_row_pairs += panel_floats / 2;
      panel.grad_row_pairs += panel_floats / 2;
    }
    ++panel.seen;
    ++panel.number;
  }
  if (matrices) Matrices::Release();
}

// The gradients of keys, or of values, of a step.
struct GradsOfStep {
  float* sums;  // [key, as far apart as rows]
  BlockOrder order;
  GradTensors to;
  Range keys;
};

// sums += P or dS times rows of channels; `block_of(size, halves)` is the
// product of one block of keys. Those that are begun and complete with it are
// stored, and take turns in the memory of the first.
template <typename BlockOf>
HWY_INLINE void AddBlocks(const BackwardTile& tile, const BlockOfRows& block,
                          const ChannelRows& rows, const GradsOfStep& grads,
                          BlockOf block_of) {
  const int64_t channels = grads.to.channels;
  const int64_t keys = grads.keys.size();
  const bool first = grads.order.first, last = grads.order.last;
  const ptrdiff_t from_key_to_key = first && last ? 0 : rows.stride;
  ForChannels(channels, [&](int64_t c, auto halves) HWY_ATTR {
    ForBlocks(keys, [&](int64_t j, auto size) HWY_ATTR {
      float* const sums = grads.sums + j * from_key_to_key + c;
      const Range made{c, std::min(c + Width(), channels)};
      const int64_t count = std::min<int64_t>(size(), keys - j);
      const int64_t key = grads.keys.first + j;
      if (first) ClearSums<size()>(sums, rows.stride);
      block_of(size, halves)(block, j, {rows.at + c, rows.stride}, sums);
      if (last) {
        StoreKeySums(tile, grads.to, {sums, rows.stride}, key, count, made);
      }
    });
  });
}

// The same of what a tile has.
inline void AddBlock(const BackwardTile& tile, const BlockOfRows& block,
                     const ChannelRows& rows, bool skip_masked,
                     const GradsOfStep& grads) {
  if (!tile.rounds) {
    return AddBlocks(tile, block, rows, grads, [&](auto size, auto halves) {
      return skip_masked ? GradKeyBlock<size(), true>
                         : GradKeyBlock<size(), false, halves()>;
    });
  }
  if (skip_masked) {
    return AddBlocks(tile, block, rows, grads,
                     [](auto size, auto) { return GradKeySeenPairs<size()>; });
  }
  WithPairs(tile.dots, tile.multiply_adds, [&](auto product) HWY_ATTR {
    AddBlocks(tile, block, rows, grads, [](auto size, auto halves) {
      return GradKeyPairs<size(), decltype(product), halves()>;
    });
  });
}

// What a block of rows adds to dk and dv of a step, out of vectors.
inline void AddDkvByVectors(const BackwardTile& tile, const KeyStep& step,
                            Range block, BlockOrder order, bool skip_masked,
                            const KvSums& sums) {
  const BackwardScratch& scratch = tile.backward;
  const bool packed = tile.rounds && !skip_masked;
  const ptrdiff_t panel_floats =
      scratch.panel_keys * (packed ? Lanes() : Width());
  const auto add = [&](const float* probs, const float* rows, int64_t stride,
                       float* to, const GradTensors& tensors) HWY_ATTR {
    AddBlock(tile, {probs, panel_floats, scratch.seen, block.size()},
             {rows + block.first * stride, stride}, skip_masked,
             {to, order, tensors, step.cols});
  };
  if (tile.wanted.value) {
    add(packed ? scratch.prob_row_pairs : scratch.probs, scratch.grad_out_rows,
        scratch.value_stride, sums.values, GradValueTensors(tile));
  }
  if (tile.wanted.key) {
    add(packed ? scratch.grad_row_pairs : scratch.grad_scores,
        scratch.queries_by_row, tile.scratch.key_stride, sums.keys,
        GradKeyTensors(tile));
  }
}

inline void AddDkv(const BackwardTile& tile, const KeyStep& step, Range block,
                   BlockOrder order, const KvSums& sums) {
  const bool skip_masked = SkipsMasked(tile, step, block);
  const bool matrices = tile.dots == PairDots::kMatrices;
  // Both sums may make one gradient, and rows be lines where parts are none.
  const bool whole = matrices || tile.value_is_key ||
                     !PartsAreLines(tile, tile.grad_key) ||
                     !PartsAreLines(tile, tile.grad_value);
  if (matrices && !skip_masked && !tile.multiply_adds) {
    AddDkvByMatrices(tile, step.cols.size(), block, order.first, sums);
  } else {
    AddDkvByVectors(tile, step, block, {order.first, order.last && !whole},
                    skip_masked, sums);
  }
  if (order.last && whole) StoreDkv(tile, step.cols, sums);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_BACKWARD_INL_H_
