// SPDX-License-Identifier: Apache-2.0
// One tile of the forward direction: packed query rows, and all keys that they
// see.
//
// Everything is transposed: the rows of a panel lie in the lanes of two
// vectors, keys and channels are scalars. So nothing is combined across lanes.
// Queries are packed as panels once. The outer loop is over steps of keys,
// which are loaded, and their values packed, once for all panels; the next loop
// is over panels: scores, online softmax, out = out * rescale + probs * values.
// Outputs stay unnormalized in scratch memory until a panel's last step; then
// they are divided by their sums and stored, or left as a split to be combined.
// Where there are matrix registers both products may be theirs
// (tile/matrix_products-inl.h).

#include <algorithm>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_FORWARD_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_FORWARD_FORWARD_INL_H_
#undef FLASHACL_CPU_FORWARD_FORWARD_INL_H_
#else
#define FLASHACL_CPU_FORWARD_FORWARD_INL_H_
#endif

#include "cpu/tile/keys-inl.h"
#include "cpu/tile/mask-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrix_values-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/queries-inl.h"
#include "cpu/tile/result-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A panel with its outputs and softmax.
struct OutPanel : Panel {
  float* out;  // [channel, lane]
  PanelState state;
  bool fresh = false;  // its outputs are 0, and not yet written
  // What probs are multiplied by before they meet values, [lane]; null: outputs
  // are, at the end.
  const float* normalizer = nullptr;
};

HWY_INLINE OutPanel OutPanelOf(const ForwardTile& tile, int64_t first,
                               bool fresh = false) {
  const ForwardScratch& forward = tile.forward;
  return {PanelOf(tile, first, forward.scores),
          forward.out + first * BlockEnd(tile.params->v_dim),
          {forward.max + first, forward.sum + first},
          fresh};
}

template <int kRows, class Product, int kHalves, class Lines>
HWY_NOINLINE void OutBlock(const float* HWY_RESTRICT values,
                           const float* HWY_RESTRICT probs, int64_t count,
                           const PanelPair* rescale, float* HWY_RESTRICT out,
                           Lines lines) {
  Sums<kRows, kHalves> sums;
  if (rescale == nullptr) {
    sums.Clear();
  } else {
    sums.Load(out);
    sums.Scale(*rescale);
  }
  AddColumns<Product>(values, probs, count, sums, lines);
  sums.Store(out);
}

// The same where values may be infinite: those of hidden keys, which
// MarkHidden marked, must not be multiplied, as 0 * inf would be NaN. NaN it is
// where a row sees the key, even if its prob has become 0. Probs are floats; of
// value_of(j, r) that of key j of the step and channel r.
template <int kRows, typename ValueOf>
HWY_NOINLINE void OutBlockSkipMasked(ValueOf value_of,
                                     const float* HWY_RESTRICT probs,
                                     Range keys, const PanelPair* rescale,
                                     float* HWY_RESTRICT out) {
  for (int r = 0; r < kRows; ++r) {
    PanelPair sum = PanelPair::Of(0.0f);
    if (rescale != nullptr) {
      sum = PanelPair::Load(out + r * Width());
      sum.low = hn::Mul(sum.low, rescale->low);
      sum.high = hn::Mul(sum.high, rescale->high);
    }
    for (int64_t j = keys.first; j < keys.last; ++j) {
      const PanelPair p = PanelPair::Load(probs + (j - keys.first) * Width());
      const Vector v = value_of(j, r);
      sum.low = AddUnlessHidden(sum.low, p.low, v);
      sum.high = AddUnlessHidden(sum.high, p.high, v);
    }
    sum.Store(out + r * Width());
  }
}

// out = out * rescale + probs * values, of the keys, or pairs of keys, `local`
// of this step.
template <class Product>
inline void AddProducts(const LoadedKeys& loaded, const OutPanel& panel,
                        int64_t v_dim, Range local, const PanelPair* rescale,
                        PrefetchQueue& prefetch) {
  WithHalves(panel.FillsHalf(), [&](auto halves) HWY_ATTR {
    ForBlocks(v_dim, [&](int64_t d, auto size) HWY_ATTR {
      prefetch.WithShare<Product>(local.size(), [&](auto lines) HWY_ATTR {
        OutBlock<size(), Product, halves()>(
            loaded.values.at + d * loaded.values.keys + local.first * size(),
            panel.scores, local.size(), rescale, panel.out + d * Width(),
            lines);
      });
    });
  });
}

// The same where some are not to be multiplied.
inline void AddSeenProducts(const LoadedKeys& loaded, const OutPanel& panel,
                            int64_t v_dim, Range local,
                            const PanelPair* rescale) {
  ForBlocks(v_dim, [&](int64_t d, auto size) HWY_ATTR {
    const float* const values = loaded.values.at + d * loaded.values.keys;
    const auto half = [](const Vector& words, bool upper) HWY_ATTR {
      return upper ? UpperOfPairs(words) : LowerOfPairs(words);
    };
    const auto add = [&](auto value_of) HWY_ATTR {
      OutBlockSkipMasked<size()>(value_of, panel.scores, local, rescale,
                                 panel.out + d * Width());
    };
    const float* const scales = loaded.value_quant.ScalesFrom(0);
    if (loaded.by_channel) {
      const float* const first = loaded.values.at + d * loaded.channel_stride;
      const float* const rest =
          first + (loaded.terms - 1) * v_dim * loaded.channel_stride;
      add([&](int64_t j, int r) HWY_ATTR -> Vector {
        const int64_t word = r * loaded.channel_stride + j / 2;
        const Vector value = half(hn::Set(kF, first[word]), j % 2 != 0);
        if (scales != nullptr) return hn::Mul(value, hn::Set(kF, scales[j]));
        if (loaded.terms == 1) return value;
        return hn::Add(value, half(hn::Set(kF, rest[word]), j % 2 != 0));
      });
    } else if (loaded.pairs_of_keys) {
      add([&](int64_t j, int r) HWY_ATTR {
        return half(hn::Set(kF, values[j / 2 * size() + r]), j % 2 == 0);
      });
    } else {
      add([&](int64_t j, int r)
              HWY_ATTR { return hn::Set(kF, values[j * size() + r]); });
    }
  });
}

// Whether probs meet values on matrix registers. Divided by their sum they may
// be subnormal, and matter, as do those of values that are very small or large.
inline bool OutTakesMatrices(const LoadedKeys& loaded, const OutPanel& panel) {
  return loaded.by_channel && loaded.finite && !loaded.tiny && !loaded.large &&
         panel.normalizer == nullptr;
}

// Whether probs are numbers of bf16, as they may be rounded to them, or are
// integers of 8 bits.
HWY_INLINE bool OneTermOfProbs(const ForwardTile& tile) {
  return tile.pairs_of_keys || tile.forward_params->rounds_probs;
}

// out = out * rescale + probs * values of the keys `local` of this step.
inline void AddOut(const ForwardTile& tile, const LoadedKeys& loaded,
                   const OutPanel& panel, Range local, const PanelPair& rescale,
                   PrefetchQueue& prefetch) {
  const int64_t v_dim = tile.params->v_dim;
  const PanelPair* const before = panel.fresh ? nullptr : &rescale;
  if (OutTakesMatrices(loaded, panel)) {
    return AddMatrixOut(loaded, panel.scores, !OneTermOfProbs(tile),
                        panel.FillsHalf(), v_dim, local, before, panel.out,
                        prefetch);
  }
  if (!loaded.finite || loaded.by_channel) {
    return AddSeenProducts(loaded, panel, v_dim, local, before);
  }
  if (!loaded.pairs_of_keys) {
    return AddProducts<OfFloats>(loaded, panel, v_dim, local, before, prefetch);
  }
  // Probs that were divided by their sum may be subnormal, and matter.
  if (panel.normalizer != nullptr) {
    return AddSeenProducts(loaded, panel, v_dim, local, before);
  }
  const int64_t first = local.first / 2;
  const int64_t pairs =
      PackProbs(panel.scores, local.size(), local.first % 2 != 0);
  // Beside values so small a subnormal prob matters; of values so large one
  // does, too.
  const auto subnormal = [&] { return loaded.tiny || loaded.large; };
  WithProduct<true>(tile.dots, subnormal, [&](auto product) HWY_ATTR {
    AddProducts<decltype(product)>(loaded, panel, v_dim, {first, first + pairs},
                                   before, prefetch);
  });
}

// The masks and biases of the panel that begins with row `first` will be
// needed.
inline void PrefetchGrids(const ForwardTile& tile, int64_t first, Range cols,
                          PrefetchQueue& prefetch) {
  const ScoreParams& params = *tile.params;
  if (!params.masked && !params.biased) return;
  const int64_t count = std::min<int64_t>(Width(), tile.rows - first);
  const QueryRow* const rows = tile.scratch.query_rows + first;
  if (params.masked) {
    const int64_t step = params.mask_step;
    prefetch.Add(count, cols.size() * step,
                 [&](int64_t r) { return rows[r].mask + cols.first * step; });
  }
  if (params.biased) {
    const int64_t step = params.bias.step * params.bias.element_bytes;
    prefetch.Add(count, cols.size() * step,
                 [&](int64_t r) { return rows[r].bias + cols.first * step; });
  }
}

inline void ClearOut(const ForwardTile& tile, const OutPanel& panel) {
  std::fill_n(panel.out, BlockEnd(tile.params->v_dim) * Width(), 0.0f);
}

// Outputs of integers meet the scales of values.
inline void ScaleOut(const ForwardTile& tile, const OutPanel& panel) {
  const float* const scale = tile.keys.values().quant.scale;
  for (int64_t d = 0; scale != nullptr && d < tile.params->v_dim; ++d) {
    PanelPair sum = PanelPair::Load(panel.out + d * Width());
    sum.low = hn::Mul(sum.low, hn::Set(kF, scale[d]));
    sum.high = hn::Mul(sum.high, hn::Set(kF, scale[d]));
    sum.Store(panel.out + d * Width());
  }
}

// What a panel's scores add to its outputs; their keys begin with key `first`
// of this step.
inline void AttendScored(const ForwardTile& tile, const LoadedKeys& loaded,
                         const Scored& scored, int64_t first,
                         const OutPanel& panel, PrefetchQueue& prefetch) {
  const ForwardParams& forward = *tile.forward_params;
  const ScoreScratch& scratch = tile.scratch;
  const int64_t count = scored.cols.size();
  const Range local{first, first + count};
  const bool matrices = OutTakesMatrices(loaded, panel);
  const float* const value_scales =
      loaded.by_channel ? loaded.value_quant.ScalesFrom(first) : nullptr;
  if (matrices && !tile.params->dropped && !forward.rounds_probs &&
      value_scales == nullptr) {
    const auto softmax =
        tile.pairs_of_keys ? SoftmaxTerms<false> : SoftmaxTerms<true>;
    const PanelPair rescale =
        softmax(panel.state, panel.scores, count, scored.block_max);
    return AddOut(tile, loaded, panel, local, rescale, prefetch);
  }
  const PanelPair rescale =
      panel.state.OnlineSoftmax(panel.scores, count, scored.block_max);
  if (forward.rounds_probs) {
    RoundProbs(panel.scores, count, forward.prob_scale);
  }
  if (tile.params->dropped) {
    FillKept(tile, panel.query_rows, panel.count, scored.cols,
             PanelWords(scratch.kept));
    ReplaceProbs(panel.scores, scratch.kept, count, 0.0f);
  }
  if (panel.normalizer != nullptr) {
    ScaleProbs(panel.scores, count, panel.normalizer);
  }
  // Also where pairs cannot be taken: whether others of a step are finite must
  // not decide on how a row's are rounded. Before some are marked as hidden.
  if (tile.pairs_of_keys && panel.normalizer == nullptr &&
      (loaded.by_channel ? !matrices : !loaded.finite)) {
    RoundProbsToBf16(panel.scores, count);
  }
  if (matrices && value_scales != nullptr) {
    ScaleProbsOfKeys(panel.scores, count, value_scales);
  }
  if (matrices && OneTermOfProbs(tile)) PackTerms<false>(panel.scores, count);
  if (matrices && !OneTermOfProbs(tile)) PackTerms<true>(panel.scores, count);
  if (!loaded.finite && !scored.all) {
    MarkHidden(panel.scores, scratch.visible, count);
  }
  AddOut(tile, loaded, panel, local, rescale, prefetch);
}

// One step of one panel: its rows attend to the keys `step`, which are loaded.
inline void AttendStep(const ForwardTile& tile, const LoadedKeys& loaded,
                       Range step, const OutPanel& panel,
                       PrefetchQueue& prefetch) {
  const Scored scored = ScorePanel<true>(tile, loaded, step, panel, prefetch);
  if (scored.cols.empty()) {
    if (panel.fresh) ClearOut(tile, panel);
    return;
  }
  AttendScored(tile, loaded, scored, scored.cols.first - step.first, panel,
               prefetch);
}

// The next step of keys, from `from` on, that some row sees; empty after the
// last. Steps lie on one grid for all tiles of a sequence: which keys a row
// sees together does not depend on the other rows of its tile, and so no bit of
// its result.
inline Range NextStepOf(const ForwardTile& tile, int64_t from) {
  const int64_t size = tile.forward_params->step_keys;
  const Range rows = tile.positions({0, tile.rows});
  while (from < tile.cols.last) {
    const int64_t end = (from / size + 1) * size;
    const Range step{from, std::min(end, tile.cols.last)};
    if (tile.band.Classify(rows, step) != TileKind::kEmpty) return step;
    from = end;
  }
  return {};
}
inline Range FirstStepOf(const ForwardTile& tile) {
  return NextStepOf(tile, tile.cols.first);
}

// How many blocks of arithmetic one step of one panel is, about.
inline int64_t PanelBlocks(const ForwardTile& tile) {
  const int64_t keys = tile.forward_params->step_keys;
  const int64_t v_dim = tile.params->v_dim;
  if (tile.dots == PairDots::kMatrices) {
    return MatrixBlocks(keys, tile.params->score_dim() / 2) +
           MatrixBlocks(v_dim, keys / 2);
  }
  return CeilDiv(keys, kBig) + CeilDiv(v_dim, kBig);
}

inline LoadedKeys NothingLoaded(const ForwardTile& tile,
                                const PackedValues& values) {
  LoadedKeys loaded{values, tile.pairs_of_keys};
  if (tile.dots == PairDots::kMatrices) {
    loaded.pairs_of_keys = false;
    loaded.by_channel = true;
    loaded.terms = tile.terms;
    loaded.channel_stride = MatrixStride(tile.forward_params->step_keys);
  }
  return loaded;
}

inline void LoadStep(const ForwardTile& tile, const KeyAddresses& at,
                     LoadedKeys& loaded) {
  LoadKeys(tile, at, loaded);
  if (loaded.by_channel) PackValuesByChannel(tile, at, loaded);
}

// Calls body(loaded, step, prefetch) for every step, loaded by load(tile, at,
// loaded), without prefetching.
template <typename Load, typename Body>
inline void ForSteps(const ForwardTile& tile, const PackedValues& values,
                     Load load, Body body) {
  LoadedKeys loaded = NothingLoaded(tile, values);
  KeyAddresses at;
  PrefetchQueue no_prefetch;
  for (Range step = FirstStepOf(tile); !step.empty();
       step = NextStepOf(tile, step.last)) {
    at.Locate(tile.keys, step);
    load(tile, at, loaded);
    body(loaded, step, no_prefetch);
  }
}

// Probs that are rounded must not be rescaled afterwards: a sweep of its own
// raises every row's max to the greatest of all its scores.
inline void FindRowMax(const ForwardTile& tile, const PackedValues& values) {
  ForSteps(
      tile, values, LoadKeys,
      [&](const LoadedKeys& loaded, Range step, PrefetchQueue& prefetch) {
        for (int64_t first = 0; first < tile.rows; first += Width()) {
          const OutPanel panel = OutPanelOf(tile, first);
          panel.state.Raise(
              ScorePanel<true>(tile, loaded, step, panel, prefetch).block_max);
        }
      });
}

// Rows of the panel that begins with row `first`, which is stored, once more if
// they may have overflowed: attend(panel) goes over all keys again, and probs
// of the final max are divided by the final sum before they meet values.
template <typename Attend>
HWY_NOINLINE void RedoOverflowed(const ForwardTile& tile, int64_t first,
                                 Attend attend) {
  const uint32_t rows = RowsThatMayOverflow(tile, first);
  if (rows == 0) return;
  HWY_ALIGN float normalizer[Width()];
  HWY_ALIGN float unused_sum[Width()] = {};
  for (int64_t r = 0; r < Width(); ++r) {
    normalizer[r] = NormalizerOf(tile, tile.forward.sum[first + r]);
  }
  OutPanel panel = OutPanelOf(tile, first);
  panel.state.sum = unused_sum;
  panel.normalizer = normalizer;
  ClearOut(tile, panel);
  attend(panel);
  float* const row = tile.scratch.staging;
  for (int64_t r = 0; r < Width(); ++r) {
    if (((rows >> r) & 1u) == 0) continue;
    for (int64_t d = 0; d < tile.params->v_dim; ++d) {
      row[d] = panel.out[d * Width() + r];
    }
    StoreNormalized(tile, first + r, tile.forward.max[first + r],
                    tile.forward.sum[first + r], row);
  }
}

// The same for all panels of a tile; each loads the keys for itself.
HWY_NOINLINE inline void RedoTile(const ForwardTile& tile,
                                  const PackedValues& values) {
  for (int64_t r = 0; r < tile.rows; r += Width()) {
    RedoOverflowed(tile, r, [&](const OutPanel& panel) {
      ForSteps(
          tile, values, LoadStep,
          [&](const LoadedKeys& loaded, Range step, PrefetchQueue& prefetch) {
            AttendStep(tile, loaded, step, panel, prefetch);
          });
    });
  }
}

inline void StartPanel(const ForwardTile& tile, int64_t first) {
  LoadQueries(tile, first);
  StartRows(tile, first);
}

// Invariant of every row, over the keys seen so far, with max the greatest
// score: sum = sum exp(s_j - max), out = sum exp(s_j - max) v_j.
//
// Memory is prefetched, a share with every panel: the keys of the next step
// while this one is computed, and of the next tile during the last; queries and
// results of the next panel. Rows a power of two apart push each other out of a
// few sets of every cache, so a panel's queries are loaded just before its
// first step and its results stored just after its last.
inline void AttendSteps(const ForwardTile& tile, const PackedValues& values,
                        const ForwardTile* following) {
  LoadedKeys loaded = NothingLoaded(tile, values);
  KeyAddresses at[2];
  PrefetchQueue prefetch(PrefetchesIntoSecond(tile.dots));
  at[0].Locate(tile.keys, FirstStepOf(tile));
  bool first = true, large = false;
  const auto start_all = [&] {
    for (int64_t r = 0; r < tile.rows; r += Width()) {
      StartPanel(tile, r);
      ClearOut(tile, OutPanelOf(tile, r));
    }
    first = false;
  };
  if (tile.forward_params->rounds_probs || at[0].step.empty()) start_all();
  if (tile.forward_params->rounds_probs) FindRowMax(tile, values);
  const int64_t panels = (tile.rows + Width() - 1) / Width();
  const int64_t blocks = PanelBlocks(tile);
  const int64_t lines = tile.dots == PairDots::kMatrices ? kMaxPrefetchLines
                                                         : kMaxRowPrefetchLines;
  for (int n = 0; !at[n].step.empty(); n ^= 1) {
    LoadStep(tile, at[n], loaded);
    large = large || loaded.large;
    KeyAddresses& next = at[n ^ 1];
    next.Locate(tile.keys, NextStepOf(tile, at[n].step.last));
    const bool last = next.step.empty();
    if (last && following != nullptr) {
      next.Locate(following->keys, FirstStepOf(*following));
    }
    const KvRows& next_keys = last && following ? following->keys : tile.keys;
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t row = p * Width();
      if (first) StartPanel(tile, row);
      prefetch.Clear();
      if (last) PrefetchResults(tile, row, prefetch);
      if (first) PrefetchQueries(tile, row + Width(), prefetch);
      PrefetchGrids(tile, row + Width(), at[n].step, prefetch);
      PrefetchKeys(next_keys, next, p, panels, prefetch);
      if (last && following != nullptr && p + 1 == panels) {
        PrefetchQueries(*following, 0, prefetch);
      }
      prefetch.Divide(blocks, lines, kPrefetchesWithTurns);
      AttendStep(tile, loaded, at[n].step, OutPanelOf(tile, row, first),
                 prefetch);
      if (last && tile.integers) ScaleOut(tile, OutPanelOf(tile, row));
      if (last) StorePanel(tile, row, /*keep=*/large);
    }
    if (last && large) RedoTile(tile, values);
    if (last) return;
    first = false;
  }
  for (int64_t r = 0; r < tile.rows; r += Width()) StorePanel(tile, r);
}

inline void AttendTile(const ForwardTile& tile, const PackedValues& values,
                       const ForwardTile* following) {
  const bool matrices = tile.dots == PairDots::kMatrices;
  if (matrices) Matrices::Configure();
  AttendSteps(tile, values, following);
  if (matrices) Matrices::Release();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_FORWARD_FORWARD_INL_H_
