// SPDX-License-Identifier: Apache-2.0
// Scores of some rows of a query, and the keys that they keep.
//
// Keys lie in lanes, heads are scalars: heads of a row as they lie in memory,
// times a panel of keys (AddRows of tile/matmul-inl.h). So the sum over heads
// stays in the lane of its key, a product is dead once it is added, and a score
// is one chain whatever panel its key is in. Panels of keys are outer: each is
// packed once and stays in L1 for the heads of all rows, which come from L2;
// inner are blocks of heads. Scores are compared with what their row keeps a
// vector at a time; few pass, and those go one by one. Queries and keys of bf16
// may be pairs of channels (tile/pairs-inl.h): scores are the same.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "indexer/selection_kernel.h"

#if defined(FLASHACL_INDEXER_SELECTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_SELECTION_INL_H_
#undef FLASHACL_INDEXER_SELECTION_INL_H_
#else
#define FLASHACL_INDEXER_SELECTION_INL_H_
#endif

#include "indexer/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {

// The heads of one row.
struct QueryHeads {
  const float* queries;  // [head, word]: a channel, or a pair of them
  const float* weights;
  int64_t heads, words;
};

inline void LoadHeads(const SelectionTile& tile) {
  const int64_t padded = tile.padded_heads();
  const int64_t words = tile.words();
  for (int64_t r = 0; r < tile.row_count; ++r) {
    const int64_t position = tile.rows[r].position;
    float* const queries = tile.scratch.queries + r * padded * words;
    vectors::LeastOfPairs<vectors::Floats> subnormals;
    for (int64_t h = 0; h < tile.heads; ++h) {
      float* const to = queries + h * words;
      if (tile.dots == cpu::PairDots::kNone) {
        vectors::LoadRow(tile.query, position, h, tile.channels, to);
      } else {
        vectors::LoadPairs(tile.query.format, tile.query.At(position, h),
                           tile.channels, to, subnormals);
      }
    }
    tile.rows[r].subnormal = subnormals.AnySubnormal();
    std::fill(queries + tile.heads * words, queries + padded * words, 0.0f);
    float* const weights = tile.scratch.weights + r * padded;
    vectors::LoadRow(tile.weights, position, 0, tile.heads, weights);
    std::fill(weights + tile.heads, weights + padded, 0.0f);
  }
}

// Which lanes of a panel have a key; the others are zeros.
struct KeyLanes {
  HWY_ALIGN int32_t here[kMaxLanes];
  bool subnormal;  // some number of the panel, if it is of pairs
};

// Whether some of the numbers were subnormal.
inline bool LoadPanelOfPairs(const SelectionTile& tile, const KeyLanes& lanes) {
  const cpu::ElementFormat& format = tile.keys.key.format;
  const SelectionScratch& scratch = tile.scratch;
  const int64_t pairs = tile.words();
  const bool all_here = std::all_of(lanes.here, lanes.here + Width(),
                                    [](int32_t here) { return here != 0; });
  if (all_here && pairs % 4 == 0 && format.channel_block == 0) {
    vectors::LeastOfPairs<vectors::Quad> subnormals;
    vectors::PanelOfPairs(scratch.places, pairs, scratch.panel, subnormals);
    return subnormals.AnySubnormal();
  }
  vectors::LeastOfPairs<vectors::Floats> subnormals;
  const int64_t stride = RoundUp(pairs, 4);
  for (int64_t n = 0; n < Width(); ++n) {
    float* const row = scratch.staging + n * stride;
    if (lanes.here[n] != 0) {
      vectors::LoadPairs(format, scratch.places[n], tile.channels, row,
                         subnormals);
    } else {
      std::fill_n(row, pairs, 0.0f);
    }
  }
  PackPanel(scratch.staging, stride, pairs, scratch.panel);
  return subnormals.AnySubnormal();
}

inline void LoadPanelOfFloats(const SelectionTile& tile,
                              const KeyLanes& lanes) {
  const SelectionScratch& scratch = tile.scratch;
  const int64_t stride = RoundUp(tile.channels, 4);
  for (int64_t n = 0; n < Width(); ++n) {
    float* const row = scratch.staging + n * stride;
    if (lanes.here[n] != 0) {
      vectors::LoadRow(tile.keys.key.format, scratch.places[n], tile.channels,
                       row);
    } else {
      std::fill_n(row, tile.channels, 0.0f);
    }
  }
  PackPanel(scratch.staging, stride, tile.channels, scratch.panel);
}

inline void LoadKeys(const SelectionTile& tile, Range cols, KeyLanes& lanes) {
  const std::byte** const at = tile.scratch.places;
  tile.keys.Locate(cols, at, at + kMaxLanes, at + 2 * kMaxLanes);
  for (int64_t n = 0; n < Width(); ++n) {
    lanes.here[n] = n < cols.size() && at[n] != nullptr ? -1 : 0;
  }
  lanes.subnormal = false;
  if (tile.dots == cpu::PairDots::kNone) return LoadPanelOfFloats(tile, lanes);
  lanes.subnormal = LoadPanelOfPairs(tile, lanes);
}

// scores += what kRows heads from `first` on give. Heads after the last give
// nothing, not 0 times what keys hold.
template <int kRows, class Product>
HWY_NOINLINE void AddHeads(const QueryHeads& of, int64_t first,
                           const float* HWY_RESTRICT panel,
                           float* HWY_RESTRICT scores) {
  vectors::Sums<kRows> sums;
  sums.Clear();
  vectors::AddRows<Product>(of.queries + first * of.words, of.words, panel,
                            of.words, sums);
  vectors::PanelPair score = vectors::PanelPair::Load(scores);
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    if (first + r >= of.heads) break;
    const Vector weight = hn::Set(kF, of.weights[first + r]);
    score.low = hn::MulAdd(weight, Relu(sums.at[r][0]), score.low);
    score.high = hn::MulAdd(weight, Relu(sums.at[r][1]), score.high);
  }
  score.Store(scores);
}

inline void AddAllHeads(const SelectionTile& tile, const QueryHeads& heads,
                        bool subnormal, float* HWY_RESTRICT scores) {
  vectors::WithProduct<true>(
      tile.dots, [&] { return subnormal; },
      [&](auto product) HWY_ATTR {
        vectors::ForBlocks(heads.heads, [&](int64_t h, auto size) HWY_ATTR {
          AddHeads<size(), decltype(product)>(heads, h, tile.scratch.panel,
                                              scores);
        });
      });
}

// As in candidates.h.
HWY_INLINE hn::Vec<vectors::Words> Ordered(const Vector& score) {
  const auto bits = hn::BitCast(kW, hn::Add(score, hn::Zero(kF)));
  const auto ordered =
      hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(kW, 0x7FFFFFFF)));
  return hn::IfThenElse(hn::RebindMask(kW, hn::IsNaN(score)),
                        hn::Set(kW, 0x7FC00000), ordered);
}

// The scores of `count` keys from `first` on, those in lanes from `lane` on.
inline void KeepBest(const float* HWY_RESTRICT scores,
                     const int32_t* lanes_here, int64_t lane, int64_t count,
                     int64_t first, Candidates& kept) {
  const auto ordered = Ordered(hn::Load(kF, scores + lane));
  const auto here = hn::Ne(hn::Load(kW, lanes_here + lane), hn::Zero(kW));
  const auto among = hn::FirstN(
      kW, static_cast<size_t>(std::clamp<int64_t>(count - lane, 0, Lanes())));
  const auto better = hn::And(hn::And(here, among),
                              hn::Gt(ordered, hn::Set(kW, kept.threshold())));
  if (hn::AllFalse(kW, better)) return;
  HWY_ALIGN int32_t values[Lanes()];
  hn::Store(ordered, kW, values);
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(kW, better, bytes);
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  for (; bits != 0; bits &= bits - 1) {
    const int n = std::countr_zero(bits);
    kept.Append(values[n], static_cast<uint32_t>(first + lane + n));
  }
}

inline void Select(const SelectionTile& tile) {
  LoadHeads(tile);
  const int64_t padded = tile.padded_heads();
  const int64_t words = tile.words();
  for (int64_t j = tile.cols.first; j < tile.cols.last; j += Width()) {
    KeyLanes lanes;
    LoadKeys(tile, {j, std::min<int64_t>(j + Width(), tile.cols.last)}, lanes);
    for (int64_t r = 0; r < tile.row_count; ++r) {
      SelectingRow& row = tile.rows[r];
      const int64_t count = std::min(row.seen, tile.cols.last) - j;
      if (count <= 0) continue;
      const QueryHeads heads{tile.scratch.queries + r * padded * words,
                             tile.scratch.weights + r * padded, tile.heads,
                             words};
      HWY_ALIGN float scores[kMaxLanes] = {};
      AddAllHeads(tile, heads, row.subnormal || lanes.subnormal, scores);
      for (int64_t lane = 0; lane < Width(); lane += Lanes()) {
        KeepBest(scores, lanes.here, lane, count, j, row.kept);
      }
    }
  }
}

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_SELECTION_INL_H_
