// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of bf16 on matrix registers.
//
// Scores: the second operand has queries in its columns, as stored
// (matrix_keys-inl.h). Outputs: probs become two terms of bf16, as for
// cpu/forward; rows of the first operand are the first terms of eight rows, and
// after them the second, of 24 words along k, keys n and n + 24 in a word; the
// second operand are values of the same pairs of keys. The outer loop is over
// vectors of channels; prefetches are issued with each.
//
// Probs are multiplied by 2^60 and outputs by 2^-60: then no product that
// matters is subnormal, which the registers make 0. Values that are, below
// 2^-126, they make 0, too. Values beyond 2^60 and what is no number make sums
// that are not finite, which are computed again by floats, row by row
// (FinishSplit).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_
#undef FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_
#else
#define FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_
#endif

#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/matrix_keys-inl.h"
#include "cpu/decode/score-inl.h"
#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/matrix_values-inl.h"
#include "cpu/tile/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr float kProbScale = 0x1p60f;

inline constexpr int64_t kPairedKeys = kDecodeKeys / 2;  // with as many others
inline constexpr int64_t kPairWords = 2 * kMatrixWords;  // of keys, with zeros
inline constexpr int64_t kQueriesAtOnce = MatrixLanes();
inline constexpr int64_t kProbRowsAtOnce = kMatrixRows / 2;

struct Bf16Pairs {
  static HWY_INLINE constexpr int64_t Columns() { return MatrixLanes(); }
  template <int kTo, class M>
  static HWY_INLINE void Load(const float* from, M& m) {
    m.template LoadLanes<kTo>(from, Columns());
  }
  template <int kSums, int kA, int kB, class M>
  static HWY_INLINE void MultiplyAdd(M& m) {
    m.template MultiplyAdd<kSums, kA, kB>();
  }
};

// The queries of `n` times kQueriesAtOnce rows and after, [pair of channels]
// [column].
HWY_INLINE float* MatrixQueries(const DecodeTile& decode, int64_t n) {
  return decode.tile->scratch.query + n * decode.channels / 2 * kQueriesAtOnce;
}

// Scores of a step of all micro-tiles.
inline void ScoreMatrixStep(const DecodeTile& decode, const StepPlace& at,
                            LinePrefetcher& prefetch) {
  const KvRows& rows = decode.tile->keys;
  auto* const room = reinterpret_cast<std::byte*>(decode.tile->scratch.keys);
  const int64_t count = at.count();
  const int64_t bytes = 2 * rows.key.channels, ropes = 2 * rows.rope.channels;
  const MatrixKeys keys({at.rows.key, at.key_shift, count}, bytes, room);
  const MatrixKeys rope({at.rows.rope, at.rope_shift, ropes == 0 ? 0 : count},
                        ropes, room + kDecodeKeys * bytes);
  HWY_ALIGN float sums[kDecodeKeys * kColumns];
  Matrices m;
  LinePrefetcher nothing;
  const Vector factor = hn::Set(kF, FactorBeforeBias(*decode.tile->params));
  constexpr int64_t kKeys = Lanes() / 4, kTiles = kQueriesAtOnce / 4;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    LinePrefetcher& issue = n == 0 ? prefetch : nothing;
    if (n % kTiles == 0) {
      const float* const queries = MatrixQueries(decode, n / kTiles);
      ClearSums(m);
      keys.MultiplyAdd<Bf16Pairs>(queries, issue, m);
      rope.MultiplyAdd<Bf16Pairs>(queries + bytes / 4 * kQueriesAtOnce, nothing,
                                  m);
      keys.StoreSums(sums, m);
    }
    const MicroTile micro_tile = decode.At(n);
    const float* const from = sums + n % kTiles * 4;
    if (micro_tile.rows == 1) {
      for (int64_t j = 0; j < count; ++j) {
        micro_tile.scores[j] = from[kColumns * j] * hn::GetLane(factor);
      }
      continue;
    }
    const int64_t lines = kKeys * bytes / kLineBytes / 2;
    for (int64_t j = 0; j < count; j += kKeys) {
      PrefetchLines(lines, issue);
      const Vector dots = JoinLoaded([&](int64_t k) HWY_ATTR {
        return hn::Load(kQ, from + kColumns * (j + k));
      });
      hn::Store(hn::Mul(dots, factor), kF, micro_tile.scores + 4 * j);
    }
  }
}

// Words of values n and n + 24 of a step, [pair][channel], in the order that
// interleaving gives; zeros up to whole matrices. Keys after the last repeat
// it: their probs are 0.
inline void PackPairValues(const RowPlaces& rows, int64_t channels,
                           LinePrefetcher& prefetch,
                           float* HWY_RESTRICT packed) {
  const hn::Repartition<uint16_t, Floats> h;
  const auto row = [&](int64_t j) HWY_ATTR {
    return rows.at[std::min(j, rows.count - 1)] + rows.shift;
  };
  const int64_t lines = 2 * channels / kLineBytes;
  for (int64_t n = 0; n < kPairedKeys; ++n) {
    const std::byte* const first = row(n);
    const std::byte* const second = row(n + kPairedKeys);
    PrefetchLines(lines, prefetch);
    for (int64_t d = 0; d < channels; d += 2 * Lanes()) {
      const auto a =
          hn::BitCast(h, FloatsAt<DType::kF32>(kF, first + 2 * d, 0));
      const auto b =
          hn::BitCast(h, FloatsAt<DType::kF32>(kF, second + 2 * d, 0));
      hn::Store(hn::BitCast(kF, hn::InterleaveLower(h, a, b)), kF, packed + d);
      hn::Store(hn::BitCast(kF, hn::InterleaveUpper(h, a, b)), kF,
                packed + d + Lanes());
    }
    packed += channels;
  }
  std::fill_n(packed, (kPairWords - kPairedKeys) * channels, 0.0f);
}

// What interleaving leaves of two vectors of channels, in their order.
HWY_INLINE void OrderPairs(Vector& lower, Vector& upper) {
  if constexpr (Lanes() == 4) return;
  const Vector first = hn::ConcatLowerLower(kF, upper, lower);
  const Vector second = hn::ConcatUpperUpper(kF, upper, lower);
  lower = SwapInnerBlocks(first);
  upper = SwapInnerBlocks(second);
}

// Two terms of the probs of eight rows, [term, row][word of two keys], with
// zeros up to whole matrices. Rows that do not exist have no meaning.
struct PairProbs {
  HWY_ALIGN float words[kMatrixRows][kPairWords];

  HWY_INLINE PairProbs() { std::memset(words, 0, sizeof(words)); }

  // Of a micro-tile, from row `first` on.
  HWY_INLINE void Load(const MicroTile& micro_tile, int64_t count,
                       int64_t first) {
    HWY_ALIGN float some[4 * kDecodeKeys];
    const float* HWY_RESTRICT probs = micro_tile.scores;
    if (count < kDecodeKeys || micro_tile.width == 1) {
      FillFour(micro_tile, count, some);
      probs = some;
    }
    constexpr int64_t kKeys = Lanes() / 4;
    const Vector scale = hn::Set(kF, kProbScale);
    for (int64_t j = 0; j < kPairedKeys; j += kKeys) {
      Vector lower = hn::Mul(hn::Load(kF, probs + 4 * j), scale);
      Vector upper =
          hn::Mul(hn::Load(kF, probs + 4 * (j + kPairedKeys)), scale);
      HWY_UNROLL_ALL
      for (int term = 0; term < 2; ++term) {
        const Vector word = TermOf(lower);
        StoreByRow(UpperHalves(word, TermOf(upper)), kPairWords,
                   &words[term * kProbRowsAtOnce + first][j]);
      }
    }
  }

 private:
  // Probs of four rows and all keys of a step, with zeros where there are none.
  static HWY_INLINE void FillFour(const MicroTile& micro_tile, int64_t count,
                                  float* HWY_RESTRICT four) {
    const float* HWY_RESTRICT probs = micro_tile.scores;
    if (micro_tile.width == 1) {
      SpreadProbs(probs, count, four);
    } else {
      std::copy_n(probs, 4 * count, four);
    }
    std::fill_n(four + 4 * count, 4 * (kDecodeKeys - count), 0.0f);
  }
};

// Sums of both terms of eight rows, of some vectors of channels.
struct MatrixPairSums {
  static constexpr int64_t kVectors = 8;
  HWY_ALIGN float of[kVectors][kMatrixRows][16];

  // Of `count` vectors from `values` on, an even number, whose words of
  // neighbouring pairs are `step` apart. Probs are in registers 4 and 7.
  template <class M>
  HWY_INLINE void Multiply(const float* HWY_RESTRICT values, int64_t count,
                           int64_t step, int64_t lines,
                           LinePrefetcher& prefetch, M& m) {
    for (int64_t v = 0; v < count; v += 2) {
      const float* const at = values + v * Lanes();
      m.template Clear<0>();
      m.template LoadLanes<2>(at, step);
      m.template MultiplyAdd<0, 4, 2>();
      m.template LoadLanes<3>(at + kMatrixWords * step, step);
      m.template MultiplyAdd<0, 7, 3>();
      PrefetchLines(lines, prefetch);
      m.template Clear<1>();
      m.template LoadLanes<5>(at + Lanes(), step);
      m.template MultiplyAdd<1, 4, 5>();
      m.template LoadLanes<6>(at + Lanes() + kMatrixWords * step, step);
      m.template MultiplyAdd<1, 7, 6>();
      PrefetchLines(lines, prefetch);
      m.template StoreLanes<0>(of[v], 16);
      m.template StoreLanes<1>(of[v + 1], 16);
    }
  }

  // out += the sums of vectors `first` and after, of a micro-tile whose rows
  // are from `row` on.
  HWY_INLINE void AddTo(const MicroTile& micro_tile, int64_t first,
                        int64_t count, int64_t row) const {
    for (int64_t v = 0; v < count; v += 2) {
      for (int64_t r = 0; r < micro_tile.rows; ++r) {
        const auto sum = [&](int64_t n) HWY_ATTR {
          const auto& rows = of[v + n];
          return hn::Add(hn::Load(kF, rows[row + r]),
                         hn::Load(kF, rows[kProbRowsAtOnce + row + r]));
        };
        Vector lower = sum(0), upper = sum(1);
        OrderPairs(lower, upper);
        float* const out =
            micro_tile.out + ((first + v) * micro_tile.rows + r) * Lanes();
        float* const next = out + micro_tile.rows * Lanes();
        hn::Store(hn::Add(hn::Load(kF, out), lower), kF, out);
        hn::Store(hn::Add(hn::Load(kF, next), upper), kF, next);
      }
    }
  }
};

// out += probs * values of a step, for all micro-tiles.
inline void AddMatrixStep(const DecodeTile& decode, const StepPlace& at,
                          LinePrefetcher& prefetch) {
  const int64_t count = at.count();
  const int64_t vectors = decode.values.vectors;
  const int64_t step = vectors * Lanes();
  float* const packed = decode.tile->scratch.keys;
  PackPairValues({at.rows.value, at.value_shift, count}, step, prefetch,
                 packed);
  // With each vector half of its lines; the others were prefetched before.
  const int64_t lines = CeilDiv(count * Lanes(), kLineBytes);
  MatrixPairSums sums;
  Matrices m;
  LinePrefetcher nothing;
  PairProbs probs;
  for (int64_t n = 0; n < decode.micro_tiles(); n += 2) {
    const int64_t last = std::min(n + 2, decode.micro_tiles());
    for (int64_t i = n; i < last; ++i) {
      probs.Load(decode.At(i), count, 4 * (i - n));
    }
    m.template LoadRows<4>(probs.words[0], kPairWords);
    m.template LoadRows<7>(probs.words[0] + kMatrixWords, kPairWords);
    for (int64_t v = 0; v < vectors; v += MatrixPairSums::kVectors) {
      const int64_t some = std::min(vectors - v, MatrixPairSums::kVectors);
      sums.Multiply(packed + v * Lanes(), some, step, lines,
                    n == 0 ? prefetch : nothing, m);
      for (int64_t i = n; i < last; ++i) {
        sums.AddTo(decode.At(i), v, some, 4 * (i - n));
      }
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_
