// SPDX-License-Identifier: Apache-2.0
// Scores of some rows of a query on matrix registers (tile/matrices-inl.h).
//
// Keys are rows of pairs as they lie in memory, heads are lanes of panels, so
// that nothing is transposed for a step of keys, however few rows share it.
// What a panel of heads gives is weighed and added lane by lane; then the lanes
// of a key are summed. A score is the same whoever else is in its step.

#include <algorithm>
#include <cstdint>

#include "indexer/selection_kernel.h"

#if defined(FLASHACL_INDEXER_MATRIX_SELECTION_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_MATRIX_SELECTION_INL_H_
#undef FLASHACL_INDEXER_MATRIX_SELECTION_INL_H_
#else
#define FLASHACL_INDEXER_MATRIX_SELECTION_INL_H_
#endif

#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "indexer/selection-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {

static_assert(kMatrixKeys % (2 * vectors::kMatrixRows) == 0);

inline void LoadHeadPanels(const SelectionTile& tile) {
  const int64_t padded = tile.padded_heads(), words = tile.words();
  for (int64_t r = 0; r < tile.row_count; ++r) {
    SelectingRow& row = tile.rows[r];
    row.subnormal =
        PackHeads(tile.query, row.position, tile.heads, tile.channels,
                  RoundUp(words, 4), tile.scratch.staging, words * Width(),
                  tile.scratch.queries + r * padded * words);
    float* const weights = tile.scratch.weights + r * padded;
    vectors::LoadRow(tile.weights, row.position, 0, tile.heads, weights);
    std::fill(weights + tile.heads, weights + padded, 0.0f);
  }
}

// A step's keys, copied from where LocateKeys found them; those that are not
// there are zeros.
struct MatrixKeyStep {
  HWY_ALIGN int32_t here[kMatrixKeys];
  bool subnormal[kMatrixKeys];
  bool any_subnormal;

  HWY_INLINE void Load(const SelectionTile& tile, int64_t count) {
    const std::byte** const at = tile.scratch.places;
    std::fill(at + count, at + kMatrixKeys, nullptr);
    for (int64_t n = 0; n < kMatrixKeys; ++n) {
      here[n] = at[n] != nullptr ? -1 : 0;
    }
    any_subnormal =
        LoadKeyPairs(tile.keys.key.format, at, kMatrixKeys, tile.channels,
                     tile.words(), tile.scratch.staging, subnormal);
  }
};

// Finds the keys of a step, which will be prefetched in so many shares.
inline void LocateKeys(const SelectionTile& tile, Range cols, int64_t shares,
                       vectors::PrefetchQueue& prefetch) {
  const std::byte** const at = tile.scratch.places;
  prefetch.Clear();
  if (cols.empty()) return;
  tile.keys.Locate(cols, at, at + kMatrixKeys, at + 2 * kMatrixKeys);
  for (int64_t n = 0; n < cols.size(); ++n) {
    prefetch.Add(at[n], tile.channels * 2);
  }
  prefetch.Divide(shares);
}

// sums[key, lane] += what the first `heads` of a panel give; of a `fresh` sum
// there is nothing yet. Lanes without a head give nothing, not 0 times what
// keys hold.
template <bool kWhole>
HWY_INLINE void WeighHeads(const float* HWY_RESTRICT products,
                           const float* HWY_RESTRICT weights, int64_t heads,
                           bool fresh, float* HWY_RESTRICT sums) {
  const Vector low = hn::LoadU(kF, weights);
  const Vector high = hn::LoadU(kF, weights + Lanes());
  const auto in_low =
      hn::FirstN(kF, static_cast<size_t>(std::min<int64_t>(heads, Lanes())));
  const auto in_high = hn::FirstN(kF, static_cast<size_t>(std::clamp<int64_t>(
                                          heads - Lanes(), 0, Lanes())));
  for (int64_t j = 0; j < kMatrixKeys; ++j) {
    Vector first = hn::Load(kF, products + j * Width());
    Vector next = hn::Load(kF, products + j * Width() + Lanes());
    if constexpr (!kWhole) {
      first = hn::IfThenElseZero(in_low, first);
      next = hn::IfThenElseZero(in_high, next);
    }
    Vector sum = fresh ? hn::Zero(kF) : hn::Load(kF, sums + j * Lanes());
    sum = hn::MulAdd(low, Relu(first), sum);
    sum = hn::MulAdd(high, Relu(next), sum);
    hn::Store(sum, kF, sums + j * Lanes());
  }
}

// scores[key] = the sum of its lanes.
inline void SumLanes(const float* HWY_RESTRICT sums,
                     float* HWY_RESTRICT scores) {
  using Doubles = hn::Repartition<double, vectors::Floats>;
  constexpr Doubles kD{};
  HWY_ALIGN float blocks[Lanes()];
  for (int64_t j = 0; j < kMatrixKeys; j += 4) {
    const auto of = [&](int64_t n) HWY_ATTR {
      return hn::Load(kF, sums + (j + n) * Lanes());
    };
    // Of each block of four lanes: {a0 + a2, b0 + b2, a1 + a3, b1 + b3}.
    const auto two = [&](int64_t n) HWY_ATTR {
      const Vector a = of(n), b = of(n + 1);
      return hn::BitCast(kD, hn::Add(hn::InterleaveLower(kF, a, b),
                                     hn::InterleaveUpper(kF, a, b)));
    };
    const auto ab = two(0), cd = two(2);
    const Vector lower = hn::BitCast(kF, hn::InterleaveLower(kD, ab, cd));
    const Vector upper = hn::BitCast(kF, hn::InterleaveUpper(kD, ab, cd));
    hn::Store(hn::Add(lower, upper), kF, blocks);
    auto sum = hn::LoadU(vectors::kQ, blocks);
    for (ptrdiff_t lane = 4; lane < Lanes(); lane += 4) {
      sum = hn::Add(sum, hn::LoadU(vectors::kQ, blocks + lane));
    }
    hn::StoreU(sum, vectors::kQ, scores + j);
  }
}

template <class M>
inline void ScoreByMatrices(const SelectionTile& tile, int64_t r,
                            const MatrixKeyStep& step,
                            float* HWY_RESTRICT scores, M& registers,
                            vectors::PrefetchQueue& prefetch) {
  HWY_ALIGN float products[kMatrixKeys * kMaxLanes];
  HWY_ALIGN float sums[kMatrixKeys * Lanes()];
  const int64_t padded = tile.padded_heads(), words = tile.words();
  const float* panel = tile.scratch.queries + r * padded * words;
  const float* const weights = tile.scratch.weights + r * padded;
  const KeyPairs keys{tile.scratch.staging, words, words, kMatrixKeys,
                      step.any_subnormal ? step.subnormal : nullptr};
  for (int64_t first = 0; first < tile.heads; first += Width()) {
    MultiplyByMatrices(keys, panel, tile.rows[r].subnormal, products, registers,
                       prefetch);
    const int64_t heads = tile.heads - first;
    if (heads >= Width()) {
      WeighHeads<true>(products, weights + first, heads, first == 0, sums);
    } else {
      WeighHeads<false>(products, weights + first, heads, first == 0, sums);
    }
    panel += words * Width();
  }
  SumLanes(sums, scores);
}

inline void SelectByMatrices(const SelectionTile& tile) {
  LoadHeadPanels(tile);
  const auto step_at = [&](int64_t j) {
    return Range{j, std::min(j + kMatrixKeys, tile.cols.last)};
  };
  const int64_t shares = tile.row_count *
                         CeilDiv(tile.heads, int64_t{Width()}) *
                         vectors::MatrixBlocks(kMatrixKeys, tile.words());
  vectors::PrefetchQueue prefetch;
  vectors::Matrices registers;
  vectors::Matrices::Configure();
  // Nobody has the time to prefetch the first step.
  LocateKeys(tile, step_at(tile.cols.first), shares, prefetch);
  for (int64_t j = tile.cols.first; j < tile.cols.last; j += kMatrixKeys) {
    MatrixKeyStep step;
    step.Load(tile, step_at(j).size());
    LocateKeys(tile, step_at(j + kMatrixKeys), shares, prefetch);
    for (int64_t r = 0; r < tile.row_count; ++r) {
      SelectingRow& row = tile.rows[r];
      const int64_t count = std::min(row.seen, tile.cols.last) - j;
      if (count <= 0) continue;
      HWY_ALIGN float scores[kMatrixKeys];
      ScoreByMatrices(tile, r, step, scores, registers, prefetch);
      for (int64_t lane = 0; lane < kMatrixKeys; lane += Lanes()) {
        KeepBest(scores, step.here, lane, count, j, row.kept);
      }
    }
  }
  vectors::Matrices::Release();
}

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_MATRIX_SELECTION_INL_H_
