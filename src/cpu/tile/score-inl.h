// SPDX-License-Identifier: Apache-2.0
// The scores of a panel: products of queries with keys, what is added to them
// (a tensor's elements, or slopes times distances), and -inf where a row does
// not see the key.
//
// Query rows lie in lanes, scores are [key, lane]. The outer loop is over a few
// hundred channels (kDepth), so that their queries stay in the first cache, the
// next one over blocks of keys, each a product out of registers
// (matmul-inl.h). Sums wait in the scores between those channels and meet the
// scale after the last. Biases and masks are passes of their own, of panels
// that need them; the last pass leaves the block max of every row.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_SCORE_INL_H_
#undef FLASHACL_CPU_TILE_SCORE_INL_H_
#else
#define FLASHACL_CPU_TILE_SCORE_INL_H_
#endif

#include "cpu/tile/integers-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/mask-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The biases of a row for the keys `cols`, where it has any.
HWY_INLINE void LoadBias(const ScoreParams& params, const QueryRow& row,
                         Range cols, float* HWY_RESTRICT to) {
  const int64_t step = params.bias.step * params.bias.element_bytes;
  const int64_t last = std::min(cols.last, row.position + params.bias_reach);
  LoadRow(params.bias, row.bias + cols.first * step, last - cols.first, to);
}

// What biases are multiplied by together with scores.
HWY_INLINE float FactorAfterBias(const ScoreParams& params) {
  return params.bias_before_scale ? params.scale : 1.0f;
}

// What products of queries and keys are multiplied by, before there are biases.
HWY_INLINE float FactorBeforeBias(const ScoreParams& params) {
  return params.biased && params.bias_before_scale ? 1.0f : params.scale;
}

// One panel of rows of a tile: its queries, and where its scores go.
struct Panel {
  const float* query;  // [channel, lane]
  float* scores;       // [key, lane]
  const QueryRow* query_rows;
  int64_t count;  // rows in it

  // Of lane `n`; lanes without a row repeat the last.
  HWY_INLINE const QueryRow& Row(int64_t n) const {
    return query_rows[std::min(n, count - 1)];
  }

  // Its other lanes repeat the last of these rows, or are 0; so are their
  // products where they are not computed.
  HWY_INLINE bool FillsHalf() const { return count <= MatrixLanes(); }

  HWY_INLINE Range positions() const {
    return {query_rows[0].position, query_rows[count - 1].position + 1};
  }
};

// The panel that begins with row `first`.
HWY_INLINE Panel PanelOf(const ScoreTile& tile, int64_t first, float* scores) {
  return {tile.scratch.query + first * tile.query_floats(), scores,
          tile.scratch.query_rows + first,
          std::min<int64_t>(Width(), tile.rows - first)};
}

// score = (score + bias) * factor for the keys `cols` and the rows of a panel.
inline void AddBias(const ScoreTile& tile, const Panel& panel, Range cols) {
  const int64_t stride = tile.scratch.staging_stride;
  float* const staging = tile.scratch.staging;
  for (int64_t first = 0; first < panel.count; first += 4) {
    for (int64_t r = 0; r < 4; ++r) {
      // Lanes without a row repeat the last: what they get is never used.
      LoadBias(*tile.params, panel.Row(first + r), cols, staging + r * stride);
    }
    AddRowsToPanel({staging, stride}, cols.size(),
                   FactorAfterBias(*tile.params), panel.scores + first);
  }
}

// score -= slope * |distance|, or slope * sqrt(|distance|), of scores that lie
// as [key, row] with one row to a lane: every vector has `keys` of each row.
struct Alibi {
  HWY_ALIGN float slope[Lanes()];
  HWY_ALIGN float start[Lanes()];  // distance of the first key
  bool root;

  // Lane `n` starts with this key of this row.
  HWY_INLINE void Set(const ScoreTile& tile, int64_t n, const QueryRow& row,
                      int64_t key) {
    slope[n] = row.slope;
    start[n] = static_cast<float>(key - row.position + tile.alibi_start);
  }

  // Of `count` vectors, `stride` floats apart, each `keys` keys after the last.
  HWY_INLINE void AddTo(float* HWY_RESTRICT scores, int64_t count,
                        ptrdiff_t stride, int64_t keys) const {
    const Vector factor = hn::Load(kF, slope);
    const Vector step = hn::Set(kF, static_cast<float>(keys));
    Vector distance = hn::Load(kF, start);
    for (int64_t n = 0; n < count; ++n) {
      float* const at = scores + n * stride;
      Vector far = hn::Abs(distance);
      if (root) far = hn::Sqrt(far);
      hn::Store(hn::NegMulAdd(factor, far, hn::Load(kF, at)), kF, at);
      distance = hn::Add(distance, step);
    }
  }
};

inline void AddAlibi(const ScoreTile& tile, const Panel& panel, Range cols) {
  for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
    Alibi alibi;
    alibi.root = tile.params->alibi_root;
    for (int64_t n = 0; n < Lanes(); ++n) {
      alibi.Set(tile, n, panel.Row(half + n), cols.first);
    }
    alibi.AddTo(panel.scores + half, cols.size(), Width(), 1);
  }
}

// Scores of kRows keys: the sums over the channels `depth`, added to those of
// the channels before. After the last they are multiplied by `factor`, which is
// null until then, and `block_max` is raised to the greatest. `lines` are
// prefetched meanwhile.
template <int kRows, class Product, int kHalves, class Lines>
HWY_NOINLINE void ScoreBlock(const float* HWY_RESTRICT keys, int64_t stride,
                             const float* HWY_RESTRICT query, Range depth,
                             const float* factor, float* HWY_RESTRICT scores,
                             PanelPair& block_max, Lines lines) {
  Sums<kRows, kHalves> sums;
  if (depth.first == 0) {
    sums.Clear();
  } else {
    sums.Load(scores);
  }
  AddRows<Product>(keys + depth.first, stride, query + depth.first * Width(),
                   depth.size(), sums, lines);
  if (factor != nullptr) {
    sums.Scale(PanelPair::Of(*factor));
    Vector low = block_max.low, high = block_max.high;
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      low = hn::Max(sums.at[r][0], low);
      if constexpr (kHalves == 2) high = hn::Max(sums.at[r][1], high);
    }
    if constexpr (kHalves == 1) high = hn::Zero(kF);
    block_max = {low, high};
  }
  sums.Store(scores);
}

// products[row, lane] = sum over channels of row * panel, times `factor` unless
// that is null; then returns the greatest, of what passes the last row, too.
template <class Product = OfFloats, int kHalves = 2>
inline PanelPair RowProducts(const ChannelRows& rows, int64_t count,
                             const float* panel, int64_t channels,
                             const float* factor, float* products,
                             PrefetchQueue& prefetch) {
  PanelPair block_max = PanelPair::Of(kMinusInfinity);
  // Also without channels: then every product is 0.
  for (int64_t d = 0; d == 0 || d < channels; d += kDepth) {
    const Range depth{d, std::min(d + kDepth, channels)};
    const float* const last = depth.last == channels ? factor : nullptr;
    ForBlocks(count, [&](int64_t j, auto size) HWY_ATTR {
      prefetch.WithShare<Product>(
          depth.size(), [&](const auto& lines) HWY_ATTR {
            ScoreBlock<size(), Product, kHalves>(
                rows.at + j * rows.stride, rows.stride, panel, depth, last,
                products + j * Width(), block_max, lines);
          });
    });
  }
  return block_max;
}

// The same of rows and a panel that may be pairs; subnormal() says whether some
// of their numbers are. half: its rows fill no more than its lower half.
template <bool kPairs, typename Subnormal>
inline PanelPair RowProducts(PairDots dots, Subnormal subnormal,
                             const ChannelRows& rows, int64_t count,
                             const float* panel, bool half, int64_t channels,
                             const float* factor, float* products,
                             PrefetchQueue& prefetch) {
  return WithProduct<kPairs>(dots, subnormal, [&](auto product) HWY_ATTR {
    using Product = decltype(product);
    const bool floats = std::is_same_v<Product, OfFloats>;
    return WithHalves(half, [&](auto halves) HWY_ATTR {
      return RowProducts<Product, halves()>(rows, count, panel,
                                            floats ? channels : channels / 2,
                                            factor, products, prefetch);
    });
  });
}

// The same of pairs on matrix registers.
inline PanelPair ScoreKeysByMatrices(const ScoreTile& tile,
                                     const ChannelRows& keys, int64_t count,
                                     const Panel& panel, float factor,
                                     PrefetchQueue& prefetch) {
  const int64_t pairs = tile.params->score_dim() / 2;
  Matrices matrices;
  AddMatrixProducts(
      {keys.at, keys.stride, tile.terms, pairs}, count,
      {panel.query, Width(), tile.terms, pairs * Width(), panel.FillsHalf()},
      pairs,
      /*fresh=*/true, panel.scores, matrices, prefetch);
  return ScaleScores(panel.scores, count, factor);
}

// What each lane's products with integers are multiplied by.
inline PanelPair LaneScales(const Panel& panel, float of_keys) {
  if (panel.query_rows->query_scale == nullptr) return PanelPair::Of(of_keys);
  HWY_ALIGN float scales[Width()];
  for (int64_t n = 0; n < Width(); ++n) {
    scales[n] = *panel.Row(n).query_scale * of_keys;
  }
  return PanelPair::Load(scales);
}

// The same of integers with scales [key], if any, where queries or keys have
// numbers that registers do not take.
HWY_NOINLINE inline PanelPair ScoreSpecialIntegers(
    const ScoreTile& tile, const ChannelRows& keys, int64_t count,
    const Panel& panel, float factor, const float* of_keys) {
  // Floats have met scales of rows, and terms of which there are three those of
  // channels.
  const bool floats = panel.query_rows->subnormal_panel;
  const bool scaled = !floats && tile.query_terms > 2;
  ProductsOfIntegers(
      tile, keys, count, QueriesOfPanel(tile, panel.query, floats),
      scaled ? nullptr : tile.keys.key.quant.scale,
      {floats ? PanelPair::Of(1.0f) : LaneScales(panel, 1.0f), of_keys},
      panel.scores);
  return ScaleScores(panel.scores, count, factor);
}

// The same where registers take them.
inline PanelPair ScoreIntegers(const ScoreTile& tile, const ChannelRows& keys,
                               int64_t count, const Panel& panel, float factor,
                               const float* of_keys, PrefetchQueue& prefetch) {
  const int64_t words = tile.params->qk_dim / 2;
  const int64_t rope_words = tile.params->rope_dim / 2;
  const bool half = panel.FillsHalf();
  Matrices matrices;
  AddMatrixProducts(
      {keys.at, keys.stride}, count,
      {panel.query, Width(), tile.query_terms, words * Width(), half}, words,
      /*fresh=*/true, panel.scores, matrices, prefetch);
  const IntegerScales scales{LaneScales(panel, KeyScaleOf(tile)), of_keys};
  if (rope_words == 0) {
    return ScaleScores(panel.scores, count, factor, &scales);
  }
  ScaleScores(panel.scores, count, 1.0f, &scales);
  AddMatrixProducts(
      {keys.at + words, keys.stride}, count,
      {panel.query + tile.query_terms * words * Width(), Width(), 1, 0, half},
      rope_words, /*fresh=*/false, panel.scores, matrices, prefetch);
  return ScaleScores(panel.scores, count, factor);
}

// Scores of the keys `local` of this step, of which some may be subnormal;
// returns the greatest. Integers may have scales, of key local.first on.
// kPairs: tiles may be of pairs.
template <bool kPairs = false>
inline PanelPair ScoreKeys(const ScoreTile& tile, const Panel& panel,
                           Range local, float factor, PrefetchQueue& prefetch,
                           bool subnormal_keys = false,
                           const float* integer_scales = nullptr) {
  const int64_t stride = tile.scratch.key_stride;
  const int64_t channels = tile.params->score_dim();
  const ChannelRows keys{tile.scratch.keys + local.first * stride, stride};
  const auto subnormal = [&] {
    return subnormal_keys || panel.query_rows->subnormal_panel;
  };
  if (kPairs && tile.integers && subnormal()) {
    return ScoreSpecialIntegers(tile, keys, local.size(), panel, factor,
                                integer_scales);
  }
  if (kPairs && tile.integers) {
    return ScoreIntegers(tile, keys, local.size(), panel, factor,
                         integer_scales, prefetch);
  }
  if (kPairs && tile.dots == PairDots::kMatrices) {
    if (!subnormal()) {
      return ScoreKeysByMatrices(tile, keys, local.size(), panel, factor,
                                 prefetch);
    }
    if (tile.terms == 2) {
      ProductsOfTerms(keys, local.size(), panel.query, channels, panel.scores);
      return ScaleScores(panel.scores, local.size(), factor);
    }
  }
  const PanelPair block_max = RowProducts<kPairs>(
      tile.dots, subnormal, keys, local.size(), panel.query, panel.FillsHalf(),
      channels, &factor, panel.scores, prefetch);
  const bool exact = BlockEnd(local.size()) == local.size();
  return exact ? block_max : BlockMax(panel.scores, local.size());
}

// The keys of `cols` that some row of the panel may see, by its band alone.
inline Range SeenBy(const Band& band, const Panel& panel, Range cols) {
  const Range rows = panel.positions();
  if (band.upper < band.lower) {
    return {cols.first, std::min(cols.last, band.prefix)};
  }
  const int64_t low =
      band.prefix > cols.first ? cols.first : rows.first + band.lower;
  const int64_t high = std::max(band.prefix, rows.last + band.upper);
  return {std::max(cols.first, low), std::min(cols.last, high)};
}

// What a step of a panel's scores turned out to be.
struct Scored {
  Range cols;           // the keys they are of; empty if no row sees any
  bool all = false;     // every row sees all of these
  PanelPair block_max;  // the greatest that rows see
};

// The scores of one step of one panel, -inf where a row does not see the key.
template <bool kPairs = false>
inline Scored ScorePanel(const ScoreTile& tile, const LoadedKeys& loaded,
                         Range step, const Panel& panel,
                         PrefetchQueue& prefetch) {
  const ScoreParams& params = *tile.params;
  const ScoreScratch& scratch = tile.scratch;
  const Scored none{Range{}, false, PanelPair::Of(kMinusInfinity)};
  const Range cols = SeenBy(tile.band, panel, step);
  if (cols.empty()) return none;
  const TileKind kind = tile.band.Classify(panel.positions(), cols);
  if (kind == TileKind::kEmpty) return none;
  const Range local{cols.first - step.first, cols.last - step.first};

  Visible visible{true, true};
  if (kind == TileKind::kPartial || params.masked || loaded.absent) {
    visible = FillVisible(tile, panel.query_rows, panel.count, cols,
                          loaded.ExistsFrom(local.first),
                          PanelWords(scratch.visible));
    if (!visible.any) return none;
  }

  PanelPair block_max = ScoreKeys<kPairs>(
      tile, panel, local, FactorBeforeBias(params), prefetch,
      loaded.subnormal_keys, loaded.key_quant.ScalesFrom(local.first));
  if (params.biased) AddBias(tile, panel, cols);
  if (params.alibi) AddAlibi(tile, panel, cols);
  if (!visible.all) {
    block_max = HideScores(panel.scores, scratch.visible, local.size());
  } else if (params.biased || params.alibi) {
    block_max = BlockMax(panel.scores, local.size());
  }
  return {cols, visible.all, block_max};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_SCORE_INL_H_
