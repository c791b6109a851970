// SPDX-License-Identifier: Apache-2.0
// The forward loop over tiles. Everything is transposed: the rows of a panel
// lie in the lanes of two vectors, keys and channels are scalars. So keys and
// values need no packing, and maxima and sums no look across lanes.

#include <algorithm>
#include <cstddef>
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
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/result-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Scores of kRows keys: the sums over a slice of channels, added to those of
// the slices before. After the last slice they are multiplied by `factor`, and
// `top` is raised to the greatest.
template <int kRows>
HWY_NOINLINE void ScoreBlock(const float* HWY_RESTRICT keys, int64_t stride,
                             const float* HWY_RESTRICT query, Range depth,
                             const float* factor, float* HWY_RESTRICT scores,
                             PanelPair& block_max) {
  Sums<kRows> sums;
  if (depth.first == 0) {
    sums.Clear();
  } else {
    sums.Load(scores);
  }
  AddRows(keys + depth.first, stride, query + depth.first * Width(),
          depth.size(), sums);
  if (factor != nullptr) {
    const Vector scale = hn::Set(kF, *factor);
    sums.Scale(scale, scale);
    Vector low = block_max.low, high = block_max.high;
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      low = hn::Max(sums.at[r][0], low);
      high = hn::Max(sums.at[r][1], high);
    }
    block_max = {low, high};
  }
  sums.Store(scores);
}

// One panel of rows of a tile: its queries, outputs and softmax.
struct Panel {
  const float* query;  // [channel, lane]
  float* out;          // [channel, lane]
  PanelState state;
  const QueryRow* query_rows;
  int64_t count;       // rows in it
  bool fresh = false;  // its outputs are 0, and not yet written
};

HWY_INLINE Panel PanelOf(const ForwardTile& tile, int64_t first) {
  const ForwardParams& shape = *tile.shape;
  const ForwardScratch& scratch = tile.scratch;
  const int64_t channels = shape.qk_dim + shape.rope_dim;
  return {scratch.query + first * channels,
          scratch.out + first * BlockEnd(shape.v_dim),
          {scratch.max + first, scratch.sum + first},
          scratch.query_rows + first,
          std::min<int64_t>(Width(), tile.rows - first),
          false};
}

// Scores of the keys `local` of this step; returns the greatest.
inline PanelPair ScoreKeys(const ForwardTile& tile, const Panel& panel,
                           Range local, float factor, PrefetchQueue& prefetch) {
  const ForwardScratch& scratch = tile.scratch;
  const int64_t channels = tile.shape->qk_dim + tile.shape->rope_dim;
  PanelPair block_max = PanelPair::Of(kMinusInfinity);
  // Also without channels: then every score is 0.
  for (int64_t d = 0; d == 0 || d < channels; d += kDepth) {
    const Range depth{d, std::min(d + kDepth, channels)};
    const float* const last = depth.last == channels ? &factor : nullptr;
    ForBlocks(local.size(), [&](int64_t j, auto size) HWY_ATTR {
      ScoreBlock<size()>(scratch.keys + (local.first + j) * scratch.key_stride,
                         scratch.key_stride, panel.query, depth, last,
                         scratch.scores + j * Width(), block_max);
      prefetch.Issue();
    });
  }
  const bool exact = BlockEnd(local.size()) == local.size();
  return exact ? block_max : BlockMax(scratch.scores, local.size());
}

template <int kRows>
HWY_NOINLINE void OutBlock(const float* HWY_RESTRICT values,
                           const float* HWY_RESTRICT probs, int64_t count,
                           const PanelPair* rescale, float* HWY_RESTRICT out) {
  Sums<kRows> sums;
  if (rescale == nullptr) {
    sums.Clear();
  } else {
    sums.Load(out);
    sums.Scale(rescale->low, rescale->high);
  }
  AddColumns(values, probs, count, sums);
  sums.Store(out);
}

// The same where values may be infinite: those of hidden keys, which
// MarkHidden marked, must not be multiplied, as 0 * inf would be NaN. It is
// where a row sees the key, if only with a weight that has become 0.
template <int kRows>
HWY_NOINLINE void OutBlockSkipMasked(const float* HWY_RESTRICT values,
                                     const float* HWY_RESTRICT probs,
                                     int64_t count, const PanelPair* rescale,
                                     float* HWY_RESTRICT out) {
  for (int r = 0; r < kRows; ++r) {
    PanelPair sum = PanelPair::Of(0.0f);
    if (rescale != nullptr) {
      sum = PanelPair::Load(out + r * Width());
      sum.low = hn::Mul(sum.low, rescale->low);
      sum.high = hn::Mul(sum.high, rescale->high);
    }
    for (int64_t j = 0; j < count; ++j) {
      const PanelPair p = PanelPair::Load(probs + j * Width());
      const Vector v = hn::Set(kF, values[j * kRows + r]);
      sum.low = hn::Add(sum.low, MulSeen(p.low, v));
      sum.high = hn::Add(sum.high, MulSeen(p.high, v));
    }
    sum.Store(out + r * Width());
  }
}

// out = out * shrink + weights * values
inline void AddOut(const ForwardTile& tile, const Panel& panel, bool finite,
                   Range local, const PanelPair& rescale,
                   PrefetchQueue& prefetch) {
  const ForwardScratch& scratch = tile.scratch;
  const PanelPair* const before = panel.fresh ? nullptr : &rescale;
  ForBlocks(tile.shape->v_dim, [&](int64_t d, auto size) HWY_ATTR {
    const auto block = finite ? OutBlock<size()> : OutBlockSkipMasked<size()>;
    block(scratch.values + d * scratch.value_keys + local.first * size(),
          scratch.scores, local.size(), before, panel.out + d * Width());
    prefetch.Issue();
  });
}

// The keys of `cols` that some row of the panel may see, by its band alone.
inline Range SeenBy(const Band& band, const Panel& panel, Range cols) {
  const int64_t first = panel.query_rows[0].position;
  const int64_t last = panel.query_rows[panel.count - 1].position;
  if (band.upper < band.lower) {
    return {cols.first, std::min(cols.last, band.prefix)};
  }
  const int64_t low =
      band.prefix > cols.first ? cols.first : first + band.lower;
  const int64_t high = std::max(band.prefix, last + band.upper + 1);
  return {std::max(cols.first, low), std::min(cols.last, high)};
}

// What masks and biases have for the panel that begins with row `first` will be
// needed.
inline void PrefetchGrids(const ForwardTile& tile, int64_t first, Range cols,
                          PrefetchQueue& prefetch) {
  const ForwardParams& shape = *tile.shape;
  if (!shape.masked && !shape.biased) return;
  const int64_t last = std::min<int64_t>(first + Width(), tile.rows);
  const int64_t bias_step = shape.bias.step * shape.bias.element_bytes;
  for (int64_t r = first; r < last; ++r) {
    const QueryRow& query_row = tile.scratch.query_rows[r];
    if (shape.masked) {
      prefetch.Add(query_row.mask + cols.first * shape.mask_step,
                   cols.size() * shape.mask_step);
    }
    if (shape.biased) {
      prefetch.Add(query_row.bias + cols.first * bias_step,
                   cols.size() * bias_step);
    }
  }
}

// What a step of a panel's scores turned out to be.
struct Scored {
  Range cols;           // the keys they are of; empty if no row sees any
  bool all = false;     // every row sees all of these
  PanelPair block_max;  // the greatest that rows see
};

// The scores of one step of one panel, -inf where a row does not see the key.
inline Scored ScorePanel(const ForwardTile& tile, const LoadedKeys& loaded,
                         Range step, const Panel& panel,
                         PrefetchQueue& prefetch) {
  const ForwardParams& shape = *tile.shape;
  const ForwardScratch& scratch = tile.scratch;
  const Range rows{panel.query_rows[0].position,
                   panel.query_rows[panel.count - 1].position + 1};
  const Scored none{Range{}, false, PanelPair::Of(kMinusInfinity)};
  const Range cols = SeenBy(tile.band, panel, step);
  if (cols.empty()) return none;
  const TileKind kind = tile.band.Classify(rows, cols);
  if (kind == TileKind::kEmpty) return none;
  const Range local{cols.first - step.first, cols.last - step.first};

  Visible visible{true, true};
  if (kind == TileKind::kPartial || shape.masked || loaded.absent) {
    visible = FillVisible(tile, panel.query_rows, panel.count, cols,
                          loaded.ExistsFrom(local.first), scratch.visible);
    if (!visible.any) return none;
  }

  const bool late_scale = shape.biased && shape.bias_before_scale;
  PanelPair block_max =
      ScoreKeys(tile, panel, local, late_scale ? 1.0f : shape.scale, prefetch);
  if (shape.biased) {
    AddBias(tile, panel.query_rows, panel.count, cols,
            late_scale ? shape.scale : 1.0f, scratch.scores);
  }
  if (shape.alibi) {
    AddAlibi(tile, panel.query_rows, panel.count, cols, scratch.scores);
  }
  if (!visible.all) {
    block_max = HideScores(scratch.scores, scratch.visible, local.size());
  } else if (shape.biased || shape.alibi) {
    block_max = BlockMax(scratch.scores, local.size());
  }
  return {cols, visible.all, block_max};
}

inline void ClearOut(const ForwardTile& tile, const Panel& panel) {
  std::fill_n(panel.out, BlockEnd(tile.shape->v_dim) * Width(), 0.0f);
}

// One step of one panel: the rows take in the keys `step` that are loaded.
inline void AttendStep(const ForwardTile& tile, const LoadedKeys& loaded,
                       Range step, const Panel& panel,
                       PrefetchQueue& prefetch) {
  const ForwardParams& shape = *tile.shape;
  const ForwardScratch& scratch = tile.scratch;
  const Scored scored = ScorePanel(tile, loaded, step, panel, prefetch);
  if (scored.cols.empty()) {
    if (panel.fresh) ClearOut(tile, panel);
    return;
  }
  const int64_t count = scored.cols.size();
  const PanelPair rescale =
      panel.state.OnlineSoftmax(scratch.scores, count, scored.block_max);
  if (shape.rounds_probs) {
    RoundProbs(scratch.scores, count, shape.prob_scale);
  }
  if (shape.dropped) {
    FillKept(tile, panel.query_rows, panel.count, scored.cols, scratch.kept);
    DropProbs(scratch.scores, scratch.kept, count);
  }
  if (!loaded.finite && !scored.all) {
    MarkHidden(scratch.scores, scratch.visible, count);
  }
  const int64_t first = scored.cols.first - step.first;
  AddOut(tile, panel, loaded.finite, {first, first + count}, rescale, prefetch);
}

// Keys of one step: as even as the unit of keys allows, since a short step
// costs almost as much as a long one.
inline int64_t StepOf(const ForwardTile& tile) {
  const int64_t columns = tile.cols.size();
  if (columns == 0) return 1;
  const int64_t steps = CeilDiv(columns, tile.shape->column_step);
  return RoundUp(CeilDiv(columns, steps), kColumnUnit);
}

// The next step at or behind `from` that some row sees; empty behind the last.
inline Range NextStep(const ForwardTile& tile, int64_t size, int64_t from) {
  const Range rows{tile.scratch.query_rows[0].position,
                   tile.scratch.query_rows[tile.rows - 1].position + 1};
  for (int64_t j = from; j < tile.cols.last; j += size) {
    const Range step{j, std::min(j + size, tile.cols.last)};
    if (tile.band.Classify(rows, step) != TileKind::kEmpty) return step;
  }
  return {};
}

// Weights that are rounded must not shrink afterwards: a sweep of its own
// raises every row's max to the greatest of all its scores.
inline void FindRowMax(const ForwardTile& tile, int64_t size) {
  LoadedKeys loaded;
  KeyAddresses at;
  PrefetchQueue no_prefetch;
  for (Range step = NextStep(tile, size, tile.cols.first); !step.empty();
       step = NextStep(tile, size, step.last)) {
    at.Locate(tile.keys, step);
    LoadKeys(tile, at, loaded);
    for (int64_t first = 0; first < tile.rows; first += Width()) {
      const Panel panel = PanelOf(tile, first);
      panel.state.Raise(
          ScorePanel(tile, loaded, step, panel, no_prefetch).block_max);
    }
  }
}

inline void StartPanel(const ForwardTile& tile, int64_t first) {
  LoadQueries(tile, first);
  StartRows(tile, first);
}

// Invariant of every row, over the keys seen so far, with max the greatest
// score: sum = sum exp(s_j - max), out = sum exp(s_j - max) v_j.
//
// Memory is asked for early, a share with every panel: the keys of the next
// step while this one is computed, and of the tile behind this one during the
// last; queries and results a panel ahead. Rows of many heads lie a power of
// two apart and push each other out of a few sets of every cache, so a panel's
// queries are loaded just before its first step and its results are stored just
// behind its last, never those of a whole tile at a time.
inline void AttendTile(const ForwardTile& tile, const ForwardTile* behind) {
  const int64_t size = StepOf(tile);
  LoadedKeys loaded;
  KeyAddresses at[2];
  PrefetchQueue prefetch;
  at[0].Locate(tile.keys, NextStep(tile, size, tile.cols.first));
  bool first = true;
  const auto start_all = [&] {
    for (int64_t r = 0; r < tile.rows; r += Width()) {
      StartPanel(tile, r);
      ClearOut(tile, PanelOf(tile, r));
    }
    first = false;
  };
  if (tile.shape->rounds_probs || at[0].step.empty()) start_all();
  if (tile.shape->rounds_probs) FindRowMax(tile, size);
  const int64_t panels = (tile.rows + Width() - 1) / Width();
  const int64_t blocks = CeilDiv(size, kBig) + CeilDiv(tile.shape->v_dim, kBig);
  for (int n = 0; !at[n].step.empty(); n ^= 1) {
    LoadKeys(tile, at[n], loaded);
    KeyAddresses& next = at[n ^ 1];
    next.Locate(tile.keys, NextStep(tile, size, at[n].step.last));
    const bool last = next.step.empty();
    if (last && behind != nullptr) {
      next.Locate(behind->keys,
                  NextStep(*behind, StepOf(*behind), behind->cols.first));
    }
    const KvRows& next_keys = last && behind ? behind->keys : tile.keys;
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t row = p * Width();
      if (first) StartPanel(tile, row);
      prefetch.Clear();
      if (last) PrefetchResults(tile, row, prefetch);
      if (first) PrefetchQueries(tile, row + Width(), prefetch);
      PrefetchGrids(tile, row + Width(), at[n].step, prefetch);
      PrefetchKeys(next_keys, next, p, panels, prefetch);
      if (last && behind != nullptr && p + 1 == panels) {
        PrefetchQueries(*behind, 0, prefetch);
      }
      prefetch.Divide(blocks);
      Panel panel = PanelOf(tile, row);
      panel.fresh = first;
      AttendStep(tile, loaded, at[n].step, panel, prefetch);
      if (last) StorePanel(tile, row);
    }
    if (last) return;
    first = false;
  }
  for (int64_t r = 0; r < tile.rows; r += Width()) StorePanel(tile, r);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_FORWARD_FORWARD_INL_H_
