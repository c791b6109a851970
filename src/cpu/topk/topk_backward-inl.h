// SPDX-License-Identifier: Apache-2.0
// The backward direction over listed keys: two kernels per position.
//
// DifferentiatePosition has heads in the lanes of panels, keys and channels as
// scalars. It packs queries and gradients of outputs as panels, and loads the
// listed keys step by step; for every step it goes over the panels:
//   s = scale q k,  dp = do v,  p = exp(s - max) / sum,
//   ds = scale p (dp - delta),  dq += ds k
// dq stays in scratch memory until the list ends. p and ds are saved, [key,
// head], and q and do once more, [block of channels, head, channel of it], or
// as pairs.
//
// AddKeyGradients has channels in lanes, p and ds as scalars. For a few keys it
// sums ds q and p do over all heads in registers, then adds that to the sums of
// these keys, one position after the other: dk and dv.
//
// Matrix registers, where there are any, multiply for all of these, for dk and
// dv where heads are more than 16 (topk_matrix_grads-inl.h). What they might
// lose is summed by multiply-adds.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/topk/topk_backward_kernel.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#endif

#include "cpu/tile/keys-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrix_values-inl.h"
#include "cpu/tile/queries-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/topk/add_listed-inl.h"
#include "cpu/topk/gather-inl.h"
#include "cpu/topk/topk_grad-inl.h"
#include "cpu/topk/topk_matrix_grads-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A head's row as row `head` of every block of channels, as SavedPds has them.
inline void RowToBlocks(const float* HWY_RESTRICT row, int64_t channels,
                        int64_t head, int64_t heads, bool pairs,
                        float* HWY_RESTRICT block) {
  for (int64_t d = 0; d < channels; d += Width()) {
    const Vector low = hn::LoadU(kF, row + d);
    const Vector high = hn::LoadU(kF, row + d + Lanes());
    if (pairs) {
      hn::Store(UpperHalves(high, low), kF, block + head * Lanes());
      block += heads * Lanes();
    } else {
      PanelPair{low, high}.Store(block + head * Width());
      block += heads * Width();
    }
  }
}

// 1 / sum as GradScores takes it: 0 only where nothing is seen. An infinite sum
// makes p 0, too, but NaN of what is no number.
inline float InvSumOfGrad(float sum) {
  if (sum == 0) return 0.0f;
  return std::isinf(sum) ? -0.0f : 1.0f / sum;
}

// Row max, 1 / sum and delta of four heads from `first` on, and their gradients
// of outputs in `grads`. Lanes without a head repeat the last, but see nothing.
inline void LoadGradRows(const TopKBackwardDqItem& item, int64_t first,
                         const FourRows& grads) {
  const ScoreTile& tile = item.scores;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t v_dim = tile.params->v_dim;
  // Outputs are needed for delta alone.
  const FourRows outs{tile.scratch.staging, tile.scratch.staging_stride};
  for (int64_t r = 0; r < 4; ++r) {
    const int64_t head = std::min(first + r, tile.rows - 1);
    const QueryRow& query_row = tile.scratch.query_rows[head];
    const float sum = *query_row.sum;
    scratch.max[first + r] = *query_row.max;
    scratch.inv_sum[first + r] =
        first + r < tile.rows ? InvSumOfGrad(sum) : 0.0f;
    LoadRow(item.grad_rows.out, query_row.position, query_row.head, v_dim,
            outs.first + r * outs.stride);
    LoadRow(item.grad_rows.grad_out, query_row.position, query_row.head, v_dim,
            grads.first + r * grads.stride);
  }
  // Where a head sees one value, dp and delta are the same number.
  const auto dots = DotsOfFourAs(tile.dots);
  dots(outs, grads, v_dim, scratch.delta + first);
}

// What passes the last pair of a panel becomes 0.
inline void ClearPanels(const TopKBackwardDqItem& item) {
  const ScoreParams& params = *item.scores.params;
  const int64_t channels = params.score_dim();
  for (int64_t first = 0; first < item.scores.rows; first += Width()) {
    ClearAfterPairs(channels, Width(),
                    item.scores.scratch.query + first * channels);
    ClearAfterPairs(params.v_dim, Width(),
                    item.scratch.grad_out + first * params.v_dim);
  }
}

// The operands of four heads from `first` on, as lanes of their panel, and in
// what is saved.
inline void LoadFourHeads(const TopKBackwardDqItem& item, int64_t first) {
  const ScoreTile& tile = item.scores;
  const ScoreParams& params = *tile.params;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t channels = params.score_dim();
  const int64_t stride = tile.scratch.staging_stride;
  const FourRows queries{tile.scratch.staging, stride};
  const FourRows grads{scratch.grad_staging, stride};
  std::fill_n(queries.first, 4 * stride, 0.0f);
  std::fill_n(grads.first, 4 * stride, 0.0f);
  LoadGradRows(item, first, grads);
  for (int64_t r = 0; r < 4; ++r) {
    const int64_t head = first + r;
    const QueryRow& query_row =
        tile.scratch.query_rows[std::min(head, tile.rows - 1)];
    float* const query = queries.first + r * stride;
    std::fill_n(query, params.v_dim, 0.0f);  // the output
    LoadQuery(params, query_row, query);
    if (head >= tile.rows || !item.params->wants_keys) continue;
    const bool pairs = SavesPairs(tile.dots);
    RowToBlocks(query, channels, head, tile.rows, pairs, item.saved.query);
    RowToBlocks(grads.first + r * stride, params.v_dim, head, tile.rows, pairs,
                item.saved.grad_out);
  }
  const int64_t panel = first / Width() * Width();
  const int64_t lane = first - panel;
  float* const query_lanes = tile.scratch.query + panel * channels + lane;
  float* const grad_lanes = scratch.grad_out + panel * params.v_dim + lane;
  if (tile.dots != PairDots::kNone) {
    FourPairsToPanels(tile, item.grad_rows,
                      {first, std::min(first + 4, tile.rows)}, queries,
                      query_lanes, grad_lanes);
    return;
  }
  RowsToPanel(queries, channels, query_lanes);
  RowsToPanel(grads, params.v_dim, grad_lanes);
}

// Whether the heads of the panel that begins with head `first` fill no more
// than its lower half.
HWY_INLINE bool FillsHalf(const TopKBackwardDqItem& item, int64_t first) {
  return item.scores.rows - first <= Lanes();
}

// The keys of a step as dq takes them: by channel for matrix registers, or
// where they lie, or as they are loaded, or as floats, which for matrix
// registers are loaded once some panel wants them.
class DqKeys {
 public:
  // in_place: of a panel, as StayInPlace() says.
  DqKeys(const TopKBackwardDqItem& item, const KvBuffers& rows, bool in_place,
         const ListedStep& step)
      : item_(item), rows_(rows), in_place_(in_place), step_(step) {
    if (!rows.matrices || !item.params->wants_query || step.subnormal) return;
    RangeOfPairs range;
    PackKeysByChannel(item.scores, step.at, item.scratch.channel_stride,
                      item.scratch.keys_by_channel, range);
    // Below kSmallFactor all products may be subnormal.
    by_channel_ = range.AllBelow(128) && !range.AllBelow(-20);
  }

  // dq of the panel that begins with head `first` += ds times keys.
  void AddDq(int64_t first, PrefetchQueue& prefetch) {
    const int64_t channels = item_.scores.params->score_dim();
    const int64_t count = step_.size();
    float* const ds = item_.scratch.ds;
    float* const grad_query = item_.grad_query + first * BlockEnd(channels);
    const bool half = FillsHalf(item_, first);
    if (by_channel_ && AreOrdinary(ds, count, half)) {
      PackTerms<true>(ds, count);
      Matrices registers;
      AddMatrixProducts(
          {item_.scratch.keys_by_channel, item_.scratch.channel_stride},
          channels, {ds, 2 * Width(), 2, Width(), half}, CeilDiv(count, 2),
          /*fresh=*/false, grad_query, registers, prefetch);
      return;
    }
    AddStep(Rows(), channels, half, ds, count, nullptr, grad_query, prefetch);
  }

 private:
  // Whether no term of ds is subnormal or infinite, and no head's are all so
  // small that products vanish.
  static bool AreOrdinary(const float* HWY_RESTRICT ds, int64_t count,
                          bool half) {
    for (int64_t lane = 0; lane < (half ? Lanes() : Width()); lane += Lanes()) {
      RangeOfFloats range;
      for (int64_t j = 0; j < count; ++j) {
        range.Add(hn::Load(kF, ds + j * Width() + lane));
      }
      if (!range.AreNormal() || !range.EachLaneReaches(kSmallGrad))
        return false;
    }
    return true;
  }

  ListedRows Rows() {
    const int64_t stride = rows_.key_stride;
    const KvRows& keys = item_.scores.keys;
    if (in_place_) {
      const bool has_rope = keys.rope.base != nullptr;
      return {nullptr,
              0,
              false,
              {keys.key.format.dtype, step_.at.key, keys.key.channels,
               has_rope ? step_.at.rope : nullptr}};
    }
    if (rows_.key_floats != nullptr) return {rows_.key_floats, stride, false};
    if (kListedRowsStayPairs) return {rows_.keys, stride, true};
    float* const to = item_.scratch.key_rows;
    for (int64_t j = 0; !loaded_ && j < step_.size(); ++j) {
      LoadKey(item_.scores.keys, step_.at, j, to + j * stride);
    }
    loaded_ = true;
    return {to, stride, false};
  }

  const TopKBackwardDqItem& item_;
  const KvBuffers& rows_;
  const bool in_place_;
  const ListedStep& step_;
  bool by_channel_ = false;
  bool loaded_ = false;
};

// Packs the head block that the panel which begins with head `first` ends.
inline void PackSaved(const TopKBackwardDqItem& item, Range listed,
                      int64_t first) {
  const int64_t heads = item.scores.rows;
  const int64_t end = first + Width();
  if (end % kHeadBlock != 0 && end < heads) return;
  const int64_t block = first / kHeadBlock;
  const int64_t step = listed.first / item.params->step_keys;
  item.saved.is_words[step * CeilDiv(heads, kHeadBlock) + block] =
      PackHeadBlock(item.saved, listed, block * kHeadBlock, heads,
                    item.params->head_stride);
}

// One panel and the rows of one step: p, ds and what they add to dq.
inline void DifferentiatePanel(const TopKBackwardDqItem& item,
                               const KvBuffers& rows, const ListedStep& step,
                               DqKeys& dq_keys, int64_t first,
                               PrefetchQueue& prefetch) {
  const ScoreParams& params = *item.scores.params;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t channels = params.score_dim();
  const int64_t count = step.size();
  const ScoreScratch& score = item.scores.scratch;
  const auto subnormal = [&] {
    return step.subnormal || score.query_rows[first].subnormal_panel;
  };
  const auto multiply = [&](const ChannelRows& of_keys, const float* panel,
                            int64_t depth, float* products) HWY_ATTR {
    const bool half = FillsHalf(item, first);
    if (rows.matrices && !subnormal()) {
      Matrices registers;
      return AddMatrixProducts({of_keys.at, of_keys.stride}, count,
                               {panel, Width(), 1, 0, half}, depth / 2,
                               /*fresh=*/true, products, registers, prefetch);
    }
    RowProducts<true>(item.scores.dots, subnormal, of_keys, count, panel, half,
                      depth, nullptr, products, prefetch);
  };
  multiply({rows.keys, rows.key_stride}, score.query + first * channels,
           channels, scratch.scores);
  multiply({rows.values, rows.value_stride},
           scratch.grad_out + first * params.v_dim, params.v_dim, scratch.ds);
  SavedPanel saved{};
  if (item.params->wants_keys) {
    const int64_t stride = item.params->head_stride;
    const int64_t at = step.listed.first * stride + first;
    saved = {item.saved.probs + at, item.saved.grad_scores + at, stride,
             stride - first};
  }
  GradScores(
      {scratch.max + first, scratch.inv_sum + first, scratch.delta + first},
      params.scale, count, saved, scratch.scores, scratch.ds);
  if (saved.probs != nullptr && item.saved.is_words != nullptr) {
    PackSaved(item, step.listed, first);
  }
  if (item.params->wants_query) dq_keys.AddDq(first, prefetch);
}

// dq of all heads of a position, from panels to where the caller has them.
inline void StoreGradQueries(const TopKBackwardDqItem& item) {
  const ScoreTile& tile = item.scores;
  const ScoreParams& params = *tile.params;
  const int64_t channels = params.score_dim();
  const FourRows rows{tile.scratch.staging, tile.scratch.staging_stride};
  for (int64_t first = 0; first < tile.rows; first += 4) {
    const int64_t panel = first / Width() * Width();
    PanelToRows(
        item.grad_query + panel * BlockEnd(channels) + (first - panel),
        channels, [](Quads&) {},
        [&](int64_t k, const Quads& quads) HWY_ATTR { rows.Store(quads, k); });
    const int64_t last = std::min(first + 4, tile.rows);
    for (int64_t head = first; head < last; ++head) {
      StoreGradQuery(item.grad_rows, tile.scratch.query_rows[head], params,
                     rows.first + (head - first) * rows.stride);
    }
  }
}

// About how many times one step of one panel issues prefetches.
inline int64_t DifferentiateBlocks(const TopKBackwardDqItem& item) {
  const ScoreParams& params = *item.scores.params;
  const int64_t step_keys = item.params->step_keys;
  const int64_t channels = params.score_dim();
  const PairDots dots = item.scores.dots;
  if (dots == PairDots::kMatrices) {
    return MatrixBlocks(step_keys, channels / 2) +
           MatrixBlocks(step_keys, params.v_dim / 2) +
           MatrixBlocks(channels, step_keys / 2);
  }
  return DotBlocks(dots, step_keys, channels) +
         DotBlocks(dots, step_keys, params.v_dim) +
         channels / kBig * CeilDiv(step_keys, kKeysAtOnce);
}

inline void DifferentiatePosition(const TopKBackwardDqItem& item) {
  const ScoreParams& params = *item.scores.params;
  const int64_t channels = params.score_dim();
  const int64_t step_keys = item.params->step_keys;
  const int64_t heads = RoundUp(item.scores.rows, Width());
  if (item.scores.dots == PairDots::kMatrices) ClearPanels(item);
  for (int64_t head = 0; head < heads; head += 4) LoadFourHeads(item, head);
  if (item.saved.is_words != nullptr && item.params->wants_keys) {
    PairSavedRows(item.saved, params, item.scores.rows);
  }
  if (item.first_split && item.params->wants_query) {
    std::fill_n(item.grad_query, heads * BlockEnd(channels), 0.0f);
  }
  const ListedKeys keys{item.scores.keys, item.saved.columns, item.count,
                        step_keys};
  const bool key_floats = item.params->wants_query && !kListedRowsStayPairs &&
                          item.scores.dots != PairDots::kMatrices;
  const KvBuffers rows(item.scores, item.scratch.values,
                       item.scratch.value_stride, ValuesAs::kDots,
                       key_floats ? item.scratch.key_rows : nullptr);
  if (rows.matrices) Matrices::Configure();
  const int64_t panel_blocks = DifferentiateBlocks(item);
  const bool in_place =
      StayInPlace(item.scores, item.scores.keys.key, item.scores.keys.rope);
  keys.ForSteps(rows, heads / Width() * panel_blocks,
                [&](const ListedStep& step, PrefetchQueue& prefetch) HWY_ATTR {
                  DqKeys dq_keys(item, rows, in_place, step);
                  for (int64_t first = 0; first < heads; first += Width()) {
                    DifferentiatePanel(item, rows, step, dq_keys, first,
                                       prefetch);
                  }
                });
  if (rows.matrices) Matrices::Release();
  if (item.last_split && item.params->wants_query) StoreGradQueries(item);
}

// A key that is listed twice gets both, one after the other.
//
// Some keys take all channels of the d block before the next keys do, if the
// rows of all heads stay in a first cache meanwhile: probs are then read once,
// and addresses found once. Otherwise some blocks of channels go over all keys.
inline void AddKeyGradients(const DkvArgs& args) {
  if (args.is_words != nullptr) return AddKeyGradientsByMatrices(args);
  const int64_t operands =
      args.query != nullptr && args.value_channels > 0 ? 2 : 1;
  const int64_t blocks = CeilDiv(args.channels, int64_t{Width()});
  const int64_t bytes = 4 * operands * args.WordsOf(Width());
  const int64_t at_once =
      std::clamp<int64_t>(kDBlockOperandBytes / bytes, 1, blocks);
  const int64_t value_blocks =
      CeilDiv(std::clamp<int64_t>(args.value_channels, 0, args.channels),
              int64_t{Width()});
  const int64_t products =
      CeilDiv(args.count, kBig) *
      (value_blocks + (args.query != nullptr ? blocks : 0));
  SpanPrefetcher prefetch(args.prefetch,
                          products * CeilDiv(args.heads, kHeadsAtOnce));
  for (int64_t n = 0; n < blocks; n += at_once) {
    const Range some{n, std::min(n + at_once, blocks)};
    ForBlocks(args.count, [&](int64_t j, auto size) HWY_ATTR {
      const auto add = args.channel_pairs ? AddToKeys<size(), PairsOfPanel>
                                          : AddToKeys<size(), FloatsOfPanel>;
      add(args, j, some, prefetch);
    });
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
