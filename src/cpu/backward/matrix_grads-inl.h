// SPDX-License-Identifier: Apache-2.0
// The products of gradients on matrix registers.
//
// P and dS become words of one or two terms (matrix_values-inl.h): of two rows
// of a panel, one row in each half of its lanes, for dv and dk, which sum over
// the rows of a block; of two keys for dq, which sums over keys and lies by
// channel until a tile is done. Rows of queries and gradients of outputs are
// paired once per tile, keys lie by channel once per step. Numbers of fp16 are
// two terms each (terms-inl.h). Panels and steps of which a term might be lost
// go the way of floats, which are there, too.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/backward/backward_kernel.h"

#if defined(FLASHACL_CPU_BACKWARD_MATRIX_GRADS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_MATRIX_GRADS_INL_H_
#undef FLASHACL_CPU_BACKWARD_MATRIX_GRADS_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_MATRIX_GRADS_INL_H_
#endif

#include "cpu/backward/rounded-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/tile/matrix_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// PairTwoRows, and what the first terms leave of both rows `next` after that.
HWY_INLINE void PairTermsOfTwoRows(const float* first, const float* second,
                                   int64_t count, ptrdiff_t next, float* to) {
  const auto rest = [](const float* at) HWY_ATTR {
    const Vector x = hn::Load(kF, at);
    return hn::BitCast(Bits(), RestOf(x, UpperOfPairs(x)));
  };
  PairTwoRows(first, second, count, to);
  for (int64_t c = 0; c < count; c += Lanes()) {
    hn::Store(WordsOf(rest(first + c), rest(second + c)), kF, to + next + c);
  }
}

// Rows of the panel that begins with row `first` become pairs of rows, of each
// term.
inline void PairRowsOfPanel(const BackwardTile& tile, int64_t first) {
  const BackwardScratch& scratch = tile.backward;
  const auto pack = [&](const float* rows, int64_t stride, int64_t channels,
                        float* to) HWY_ATTR {
    const int64_t count = RoundUp(channels, Width());
    for (int64_t r = 0; r < Lanes(); ++r) {
      const float* const row = rows + (first + r) * stride;
      float* const words = to + (first / 2 + r) * tile.terms * stride;
      if (tile.terms == 1) {
        PairTwoRows(row, row + Lanes() * stride, count, words);
      } else {
        PairTermsOfTwoRows(row, row + Lanes() * stride, count, stride, words);
      }
    }
  };
  pack(scratch.queries_by_row, tile.scratch.key_stride,
       tile.params->score_dim(), scratch.query_row_pairs);
  pack(scratch.grad_out_rows, scratch.value_stride, tile.params->v_dim,
       scratch.grad_out_row_pairs);
}

// Four rows of queries and gradients of outputs, which are loaded, as two terms
// into lanes of their panels; out, in staging memory, as rows of terms.
inline void FourTermsToPanels(const BackwardTile& tile, int64_t first,
                              float* queries, float* grads) {
  const BackwardScratch& scratch = tile.backward;
  const FourRows staging{tile.scratch.staging, tile.scratch.staging_stride};
  NonFinite non_finite;
  const auto fill = [&](const float* rows, int64_t stride, int64_t channels,
                        float* panel) HWY_ATTR {
    for (int64_t r = 0; r < 4; ++r) {
      LoadTermsOfFloats(rows + (first + r) * stride, channels,
                        staging.first + r * staging.stride, non_finite);
    }
    RowsToPanel(staging, channels, panel);
  };
  for (int64_t r = 0; r < 4; ++r) {
    LoadTermsOfFloats(
        staging.first + r * staging.stride, tile.params->v_dim,
        scratch.out_terms + (first % Width() + r) * scratch.value_stride,
        non_finite);
  }
  fill(scratch.queries_by_row, tile.scratch.key_stride,
       tile.params->score_dim(), queries);
  fill(scratch.grad_out_rows, scratch.value_stride, tile.params->v_dim, grads);
  tile.scratch.query_rows[first / Width() * Width()].subnormal_panel |=
      non_finite.any();
}

// delta of the panel that begins with row `first`, summed as products with
// values are: what lies on the diagonals of products of its outputs with its
// gradients of outputs.
inline void DeltaOfTerms(const BackwardTile& tile, int64_t first) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t v_dim = tile.params->v_dim;
  const ChannelRows outs{scratch.out_terms, scratch.value_stride};
  const float* const panel = scratch.grad_out + first * v_dim;
  float* const delta = scratch.delta + first;
  HWY_ALIGN float products[std::max(kMatrixRows, Width()) * Width()];
  if (tile.scratch.query_rows[first].subnormal_panel) {
    ProductsOfTerms(outs, Width(), panel, v_dim, products);
    for (int64_t r = 0; r < Width(); ++r) delta[r] = products[r * Width() + r];
    return;
  }
  Matrices registers;
  PrefetchQueue nothing;
  Matrices::Configure();
  for (int64_t half = 0; half < Width(); half += Lanes()) {
    AddMatrixProducts(
        {outs.at + half * outs.stride, outs.stride, tile.terms, v_dim / 2},
        Lanes(),
        {panel + half, Width(), tile.terms, v_dim / 2 * Width(),
         /*half=*/true},
        v_dim / 2, /*fresh=*/true, products, registers, nothing);
    for (int64_t r = 0; r < Lanes(); ++r) {
      delta[half + r] = products[r * Width() + r];
    }
  }
  Matrices::Release();
}

// products[key, lane] of rows and a panel, both as they are loaded.
inline void ProductsByMatrices(const BackwardTile& tile,
                               const ChannelRows& rows, int64_t count,
                               const float* panel, int64_t channels,
                               float* products, PrefetchQueue& prefetch) {
  const int64_t words = channels / 2;
  Matrices registers;
  AddMatrixProducts({rows.at, rows.stride, tile.terms, words}, count,
                    {panel, Width(), tile.terms, words * Width()}, words,
                    /*fresh=*/true, products, registers, prefetch);
}

// Before the rows of a tile are loaded.
inline void StartMatrixGrads(const BackwardTile& tile) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t channels = tile.params->score_dim();
  const int64_t v_dim = tile.params->v_dim;
  for (int64_t first = 0; first < tile.rows; first += Width()) {
    ClearAfterPairs(channels, Width(), tile.scratch.query + first * channels);
    ClearAfterPairs(v_dim, Width(), scratch.grad_out + first * v_dim);
  }
  // What is missing to whole matrices of pairs of rows; panels fill the others.
  const int64_t loaded = RoundUp(tile.rows, Width()) / 2 * tile.terms;
  const int64_t pairs = RoundUp(tile.rows, 2 * kMatrixWords) / 2 * tile.terms;
  for (const auto& [to, stride] :
       {std::pair(scratch.query_row_pairs, tile.scratch.key_stride),
        std::pair(scratch.grad_out_row_pairs, scratch.value_stride)}) {
    std::fill(to + loaded * stride, to + pairs * stride, 0.0f);
  }
}

// A step's keys and values are loaded as pairs of channels, or as terms.
inline void FinishKeyMatrices(const BackwardTile& tile,
                              const KeyAddresses& at) {
  const BackwardScratch& scratch = tile.backward;
  const ScoreParams& params = *tile.params;
  const int64_t count = at.step.size();
  const int64_t channels = params.score_dim();
  if (tile.terms > 1) {
    if (!tile.wanted.query) return;
    return PackTermsByChannel({tile.scratch.keys, tile.scratch.key_stride},
                              count, channels, tile.terms,
                              scratch.channel_stride, scratch.keys_by_channel);
  }
  for (int64_t j = 0; j < count; ++j) {
    ClearAfterPairs(channels, 1,
                    tile.scratch.keys + j * tile.scratch.key_stride);
    ClearAfterPairs(params.v_dim, 1, scratch.values + j * scratch.value_stride);
  }
  if (!tile.wanted.query) return;
  RangeOfPairs unused;
  PackKeysByChannel(tile, at, scratch.channel_stride, scratch.keys_by_channel,
                    unused);
}

// A panel of which a step's P and dS are there.
struct GradPanel {
  int64_t count;   // rows
  int64_t first;   // row of the tile
  int64_t number;  // in its block
  Range local;     // those that are seen
};

// What must be known of the numbers of a panel (RoundPanel).
struct GradPanelFacts {
  Patterns probs = hn::Zero(kW), low = hn::Zero(kW), high = hn::Zero(kW);
  LeastOfPairs<Floats> least;

  HWY_INLINE GradPanelFacts() {}

  HWY_INLINE void Add(const PanelPair& p, const PanelPair& ds) {
    const auto pattern = [](const Vector& x)
                             HWY_ATTR { return hn::BitCast(kW, hn::Abs(x)); };
    probs = hn::Max(probs, hn::Max(pattern(p.low), pattern(p.high)));
    low = hn::Max(low, pattern(ds.low));
    high = hn::Max(high, pattern(ds.high));
  }

  // Whether no number becomes infinite or 0, and none is a NaN.
  HWY_INLINE bool AreOrdinary() const {
    const auto small = [](const Patterns& x) HWY_ATTR {
      const auto bound = hn::Set(kW, std::bit_cast<int32_t>(kSmallGrad));
      return hn::And(hn::Lt(hn::Zero(kW), x), hn::Lt(x, bound));
    };
    const auto most = hn::Max(probs, hn::Max(low, high));
    const auto beyond = hn::Gt(most, hn::Set(kW, kBeyondBf16 - 1));
    return hn::AllFalse(kW, hn::Or(beyond, hn::Or(small(low), small(high)))) &&
           !least.AnySubnormal();
  }
};

// Stores words of two rows, and of what a first term leaves of them.
template <bool kTwoTerms>
HWY_INLINE Vector StoreRowTerms(PanelPair p, ptrdiff_t next, float* to) {
  const Vector low = TermOf(p.low), high = TermOf(p.high);
  const Vector words =
      WordsOf(hn::BitCast(Bits(), low), hn::BitCast(Bits(), high));
  hn::Store(words, kF, to);
  if constexpr (kTwoTerms) {
    const Vector rest_low = TermOf(p.low), rest_high = TermOf(p.high);
    hn::Store(
        WordsOf(hn::BitCast(Bits(), rest_low), hn::BitCast(Bits(), rest_high)),
        kF, to + next);
  }
  return words;
}

template <bool kTwoTerms>
HWY_NOINLINE bool PackGradTerms(const BackwardTile& tile,
                                const GradPanel& panel, const float* probs,
                                const float* grads) {
  const BackwardScratch& scratch = tile.backward;
  const ptrdiff_t stride = scratch.word_stride;
  const int64_t count = panel.local.size();
  const ptrdiff_t first = panel.local.first * stride + panel.number * Lanes();
  float* const prob_words = scratch.prob_words + first;
  float* const grad_words = scratch.grad_words + first;
  float* const key_words = scratch.grad_key_words;
  GradPanelFacts facts;
  const auto key = [&](int64_t j) HWY_ATTR {
    const PanelPair p = PanelPair::Load(probs + j * Width());
    const PanelPair ds = PanelPair::Load(grads + j * Width());
    facts.Add(p, ds);
    facts.least.Add(StoreRowTerms<kTwoTerms>(p, scratch.block_words,
                                             prob_words + j * stride));
    facts.least.Add(StoreRowTerms<kTwoTerms>(ds, scratch.block_words,
                                             grad_words + j * stride));
    return ds;
  };
  for (int64_t j = 0; j < count; j += 2) {
    const PanelPair a = key(j);
    const PanelPair b = j + 1 < count ? key(j + 1) : PanelPair::Of(0.0f);
    float* const to = key_words + j * Width();
    StoreTerms<kTwoTerms>(a.low, b.low, to);
    StoreTerms<kTwoTerms>(a.high, b.high, to + Lanes());
  }
  ClearTerms(key_words, count);
  return facts.AreOrdinary();
}

// P and dS of a panel become words, [key of the step, lane] as they are, of the
// keys that it sees; false if these are not to be used.
inline bool PackGradPanel(const BackwardTile& tile, const GradPanel& panel,
                          float* probs, float* grads) {
  float* const first_prob = probs + panel.local.first * Width();
  float* const first_grad = grads + panel.local.first * Width();
  if (panel.count < Width()) {
    ClearLanes(first_prob, panel.local.size(), panel.count);
    ClearLanes(first_grad, panel.local.size(), panel.count);
  }
  const auto pack =
      tile.grad_terms == 1 ? PackGradTerms<false> : PackGradTerms<true>;
  return pack(tile, panel, first_prob, first_grad);
}

// dq of the panel that begins with row `first` += what the keys `local` add.
inline void AddDqByMatrices(const BackwardTile& tile, int64_t first,
                            Range local) {
  const BackwardScratch& scratch = tile.backward;
  const int64_t channels = tile.params->score_dim();
  const auto* const keys =
      reinterpret_cast<const std::byte*>(scratch.keys_by_channel) +
      2 * local.first;
  bool& summed = scratch.facts[first / Width()].dq_by_channel;
  Matrices registers;
  PrefetchQueue nothing;
  AddMatrixProducts(
      {keys, scratch.channel_stride, tile.terms,
       channels * scratch.channel_stride},
      channels, {scratch.grad_key_words, 2 * Width(), tile.grad_terms, Width()},
      CeilDiv(local.size(), 2), /*fresh=*/!summed,
      scratch.grad_query_panels + first * channels, registers, nothing);
  summed = true;
}

// Which rows of a block products with its P and dS need: from the first panel
// to the last that sees one of some keys. Of keys that a panel between them
// does not see, the words become 0.
class DepthsOfStep {
 public:
  // Of `keys` of a step; what panels see, and their words, which this clears,
  // are in the tile's scratch memory.
  DepthsOfStep(const BackwardTile& tile, int64_t keys, int64_t rows)
      : panels_(CeilDiv(rows, Width())), seen_(tile.backward.seen) {
    for (int64_t j = 0; j < keys; j += kDepthRows) {
      const Range some{j, std::min(j + kDepthRows, keys)};
      depths_[static_cast<size_t>(j / kDepthRows)] = DepthOf(tile, some);
    }
  }

  MatrixDepths get() const { return depths_.data(); }

 private:
  // Which of `keys` a panel of the block sees, or one that the block lacks.
  Range Seen(int64_t number, Range keys) const {
    if (number >= panels_) return {};
    const Range& seen = seen_[number];
    return {std::max(seen.first, keys.first), std::min(seen.last, keys.last)};
  }

  Range DepthOf(const BackwardTile& tile, Range keys) const {
    constexpr int64_t kPanels = kMatrixWords / Lanes();  // along k of a matrix
    int64_t first = 0, last = panels_;
    while (first < last && Seen(first, keys).empty()) ++first;
    while (last > first && Seen(last - 1, keys).empty()) --last;
    if (first == last) return {};
    const Range depth{first / kPanels, CeilDiv(last, kPanels)};
    for (int64_t n = depth.first * kPanels; n < depth.last * kPanels; ++n) {
      const Range seen = Seen(n, keys);
      if (seen.empty()) {
        ClearWords(tile, n, keys);
      } else {
        ClearWords(tile, n, {keys.first, seen.first});
        ClearWords(tile, n, {seen.last, keys.last});
      }
    }
    return depth;
  }

  static void ClearWords(const BackwardTile& tile, int64_t number, Range keys) {
    const BackwardScratch& scratch = tile.backward;
    for (float* const words : {scratch.prob_words, scratch.grad_words}) {
      for (int64_t j = keys.first; j < keys.last; ++j) {
        float* const to = words + j * scratch.word_stride + number * Lanes();
        std::fill_n(to, Lanes(), 0.0f);
        std::fill_n(to + scratch.block_words, Lanes(), 0.0f);
      }
    }
  }

  int64_t panels_;
  const Range* seen_;
  std::array<Range, CeilDiv(kMaxStepKeys, kDepthRows)> depths_;
};

// dk and dv += what a block of rows adds, of which all panels are packed. Sums
// begin as 0 if they are `fresh`.
inline void AddDkvByMatrices(const BackwardTile& tile, int64_t keys,
                             Range block, bool fresh, const KvSums& sums) {
  const BackwardScratch& scratch = tile.backward;
  const DepthsOfStep depths(tile, keys, block.size());
  Matrices registers;
  Matrices::Configure();
  const auto add = [&](const float* words, const float* rows, int64_t stride,
                       int64_t channels, float* to) HWY_ATTR {
    const int64_t from = tile.terms * stride;
    AddMatrixColumns(
        {words, scratch.word_stride, tile.grad_terms, scratch.block_words},
        keys, {rows + block.first / 2 * from, from, tile.terms, stride},
        depths.get(), channels, fresh, {to, stride}, registers);
  };
  if (tile.wanted.value) {
    add(scratch.prob_words, scratch.grad_out_row_pairs, scratch.value_stride,
        tile.params->v_dim, sums.values);
  }
  if (tile.wanted.key) {
    add(scratch.grad_words, scratch.query_row_pairs, tile.scratch.key_stride,
        tile.params->score_dim(), sums.keys);
  }
  Matrices::Release();
}

// dq of the panel that begins with row `first` are summed by row from now on:
// what its keys add may not be rounded.
inline void SumDqByRow(const BackwardTile& tile, int64_t first) {
  bool& by_row = tile.backward.facts[first / Width()].dq_by_row;
  const int64_t stride = tile.scratch.key_stride;
  if (!by_row) {
    std::fill_n(tile.backward.grad_query + first * stride, Width() * stride,
                0.0f);
  }
  by_row = true;
}

// dq of the panel that begins with row `first`, by row, whole: what lies by
// channel is added to what is there. Where nothing is they take the place of
// the first panel, whose own are stored before all others.
inline ChannelRows DqRowsOfPanel(const BackwardTile& tile, int64_t first) {
  const BackwardScratch& scratch = tile.backward;
  const PanelFacts& facts = scratch.facts[first / Width()];
  const int64_t channels = tile.params->score_dim();
  const int64_t stride = tile.scratch.key_stride;
  float* const rows =
      scratch.grad_query + (facts.dq_by_row ? first * stride : 0);
  if (!facts.dq_by_channel && !facts.dq_by_row) {
    std::fill_n(rows, Width() * stride, 0.0f);
  }
  if (!facts.dq_by_channel) return {rows, stride};
  for (ptrdiff_t lane = 0; lane < Width(); lane += Lanes()) {
    PanelToWholeRows(
        scratch.grad_query_panels + first * channels + lane, channels,
        [](const Vector& x) HWY_ATTR { return x; },
        [&](int64_t r, int64_t k, Vector x) HWY_ATTR {
          float* const to = rows + (lane + r) * stride + k;
          if (facts.dq_by_row) x = hn::Add(hn::Load(kF, to), x);
          hn::Store(x, kF, to);
        });
  }
  return {rows, stride};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_MATRIX_GRADS_INL_H_
