// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of bf16 on matrix registers.
//
// Scores: the second operand has queries in its columns, as stored
// (matrix_keys-inl.h). Outputs: probs become two terms of bf16, as for
// cpu/forward; rows of the first operand are the first terms of eight rows, and
// after them the second; the second operand are values as they lie, of which a
// word has two channels of a key. So a word of the first has a prob and 0,
// which gives even channels, or 0 and a prob, which gives odd ones: half of all
// products are by 0, and nothing is packed (docs/notes/0058). Of an infinite
// value the channel beside it becomes no number, too, as 0 * inf is none.
//
// Probs are multiplied by 2^60 and outputs by 2^-60: then no product that
// matters is subnormal, which the registers make 0. Values that are, below
// 2^-126, they make 0, too. Values beyond 2^60 and what is no number make sums
// that are not finite, which are computed again by floats, row by row
// (FinishSplit).

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
#include "cpu/decode/step_prefetch-inl.h"
#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/matrix_values-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr float kProbScale = 0x1p60f;

inline constexpr int64_t kQueriesAtOnce = MatrixLanes();
inline constexpr int64_t kProbRowsAtOnce = kMatrixRows / 2;

#if FLASHACL_HAS_MATRICES
// Those lanes of two vectors.
HWY_INLINE Vector LanesOfTwo(const Vector& a, const Vector& b,
                             const int32_t (&which)[16]) {
  return Vector{_mm512_permutex2var_ps(
      a.raw, _mm512_load_si512(static_cast<const void*>(which)), b.raw)};
}
#endif

// Even channels and odd ones become two vectors of channels in their order.
HWY_INLINE void OrderChannels(Vector& even, Vector& odd) {
#if FLASHACL_HAS_MATRICES
  HWY_ALIGN static constexpr int32_t kLower[16] = {0, 16, 1, 17, 2, 18, 3, 19,
                                                   4, 20, 5, 21, 6, 22, 7, 23};
  HWY_ALIGN static constexpr int32_t kUpper[16] = {
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const Vector lower = LanesOfTwo(even, odd, kLower);
  odd = LanesOfTwo(even, odd, kUpper);
  even = lower;
#else
  HWY_ALIGN float lanes[2 * Lanes()];
  hn::StoreInterleaved2(even, odd, kF, lanes);
  even = hn::Load(kF, lanes);
  odd = hn::Load(kF, lanes + Lanes());
#endif
}

// The probs of as many keys as a vector has lanes, [key][row] of four rows, to
// [row][key].
HWY_INLINE void ProbsByRow(const float* HWY_RESTRICT from,
                           float* HWY_RESTRICT to) {
#if FLASHACL_HAS_MATRICES
  // Of eight keys the first two rows, and the others.
  HWY_ALIGN static constexpr int32_t kFirst[16] = {0, 4, 8, 12, 16, 20, 24, 28,
                                                   1, 5, 9, 13, 17, 21, 25, 29};
  HWY_ALIGN static constexpr int32_t kOthers[16] = {
      2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31};
  const auto load = [&](int64_t n)
                        HWY_ATTR { return hn::Load(kF, from + n * Lanes()); };
  const Vector first = LanesOfTwo(load(0), load(1), kFirst);
  const Vector others = LanesOfTwo(load(0), load(1), kOthers);
  const Vector first_after = LanesOfTwo(load(2), load(3), kFirst);
  const Vector others_after = LanesOfTwo(load(2), load(3), kOthers);
  hn::Store(hn::ConcatLowerLower(kF, first_after, first), kF, to);
  hn::Store(hn::ConcatUpperUpper(kF, first_after, first), kF, to + Lanes());
  to += 2 * Lanes();
  hn::Store(hn::ConcatLowerLower(kF, others_after, others), kF, to);
  hn::Store(hn::ConcatUpperUpper(kF, others_after, others), kF, to + Lanes());
#else
  for (int64_t n = 0; n < 4 * Lanes(); ++n) {
    to[n % 4 * Lanes() + n / 4] = from[n];
  }
#endif
}

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

// With the scores' multiplications go three quarters of what goes with scores
// and softmax: lines for each.
HWY_INLINE int64_t LinesWithProduct(const DecodeTile& decode, int64_t count) {
  const int64_t products =
      CeilDiv(count, kMatrixRows) * (decode.keys.bytes / kMatrixBytes);
  return CeilDiv(3 * LinesWithScores(decode, count), 4 * products);
}

// Scores of a step of all micro-tiles.
inline void ScoreMatrixStep(const DecodeTile& decode, const StepPlace& at,
                            LinePrefetcher& prefetch) {
  const KvRows& rows = decode.tile->keys;
  auto* const room = reinterpret_cast<std::byte*>(decode.tile->scratch.keys);
  const int64_t count = at.count();
  const int64_t bytes = 2 * rows.key.channels, ropes = 2 * rows.rope.channels;
  const StepMatrices keys({at.rows.key, at.key_shift, count}, bytes, room);
  const StepMatrices rope({at.rows.rope, at.rope_shift, ropes == 0 ? 0 : count},
                          ropes, room + kDecodeKeys * bytes);
  HWY_ALIGN float sums[kDecodeKeys * kColumns];
  Matrices m;
  const int64_t lines = LinesWithProduct(decode, count);
  const Vector factor = hn::Set(kF, FactorBeforeBias(*decode.tile->params));
  constexpr int64_t kKeys = Lanes() / 4, kTiles = kQueriesAtOnce / 4;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    if (n % kTiles == 0) {
      const float* const queries = MatrixQueries(decode, n / kTiles);
      ClearSums(m);
      keys.MultiplyAdd<Bf16Pairs>(queries, n == 0 ? lines : 0, prefetch, m);
      rope.MultiplyAdd<Bf16Pairs>(queries + bytes / 4 * kQueriesAtOnce, 0,
                                  prefetch, m);
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
    for (int64_t j = 0; j < count; j += kKeys) {
      const Vector dots = JoinLoaded([&](int64_t k) HWY_ATTR {
        return hn::Load(kQ, from + kColumns * (j + k));
      });
      hn::Store(hn::Mul(dots, factor), kF, micro_tile.scores + 4 * j);
    }
  }
}

// Two terms of the probs of eight rows, [parity][term, row][key]: words whose
// lower half meets even channels of values, the upper being 0, and the reverse.
// Rows that do not exist have no meaning, and may not be initialised.
struct PairProbs {
  HWY_ALIGN float words[2][kMatrixRows][kDecodeKeys];

  // Those of a micro-tile, from row `first` on; 0 after `count` keys.
  HWY_INLINE void Load(const MicroTile& micro_tile, int64_t count,
                       int64_t first) {
    HWY_ALIGN float some[4 * kDecodeKeys];
    const float* HWY_RESTRICT probs = micro_tile.scores;
    if (count < kDecodeKeys || micro_tile.width == 1) {
      FillFour(micro_tile, count, some);
      probs = some;
    }
    const hn::RebindToUnsigned<Floats> u;
    const Vector scale = hn::Set(kF, kProbScale);
    for (int64_t j = 0; j < kDecodeKeys; j += Lanes()) {
      HWY_ALIGN float by_row[4 * Lanes()];
      ProbsByRow(probs + 4 * j, by_row);
      HWY_UNROLL_ALL
      for (int64_t r = 0; r < 4; ++r) {
        Vector rest = hn::Mul(hn::Load(kF, by_row + r * Lanes()), scale);
        HWY_UNROLL_ALL
        for (int64_t term = 0; term < 2; ++term) {
          const int64_t row = term * kProbRowsAtOnce + first + r;
          const Vector word = TermOf(rest);
          hn::Store(hn::BitCast(kF, hn::ShiftRight<16>(hn::BitCast(u, word))),
                    kF, &words[0][row][j]);
          hn::Store(word, kF, &words[1][row][j]);
        }
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

// Sums of both terms of eight rows, of some channels: of each 2 * Lanes() of
// them the even ones and the odd ones.
struct MatrixPairSums {
  static constexpr int64_t kVectors = 8;
  HWY_ALIGN float of[kVectors][kMatrixRows][16];

  // Of an even number of vectors, from an even one on. So many lines are
  // prefetched with each multiplication.
  template <class M>
  HWY_INLINE void Multiply(const PairProbs& probs, const StepMatrices& values,
                           Range vectors, int64_t lines,
                           LinePrefetcher& prefetch, M& m) {
    constexpr int64_t kBytes = 2 * Lanes() * 2;  // of a row of a matrix
    for (int64_t v = 0; v < vectors.size(); v += 4) {
      const int64_t at = (vectors.first + v) / 2 * kBytes;
      const bool two_matrices = v + 2 < vectors.size();
      m.template Clear<0>();
      m.template Clear<1>();
      m.template Clear<2>();
      m.template Clear<3>();
      for (int64_t g = 0; g < values.count(); ++g) {
        m.template LoadRows<4>(&probs.words[0][0][g * kMatrixWords],
                               kDecodeKeys);
        m.template LoadRows<5>(&probs.words[1][0][g * kMatrixWords],
                               kDecodeKeys);
        values.LoadLanes<6>(g, at, m);
        m.template MultiplyAdd<0, 4, 6>();
        prefetch.PrefetchLines(lines);
        m.template MultiplyAdd<1, 5, 6>();
        prefetch.PrefetchLines(lines);
        if (!two_matrices) continue;
        values.LoadLanes<7>(g, at + kBytes, m);
        m.template MultiplyAdd<2, 4, 7>();
        prefetch.PrefetchLines(lines);
        m.template MultiplyAdd<3, 5, 7>();
        prefetch.PrefetchLines(lines);
      }
      m.template StoreLanes<0>(of[v], 16);
      m.template StoreLanes<1>(of[v + 1], 16);
      if (!two_matrices) continue;
      m.template StoreLanes<2>(of[v + 2], 16);
      m.template StoreLanes<3>(of[v + 3], 16);
    }
  }

  // out += the sums of these vectors, of a micro-tile whose rows are from `row`
  // on.
  HWY_INLINE void AddTo(const MicroTile& micro_tile, Range vectors,
                        int64_t row) const {
    for (int64_t v = 0; v < vectors.size(); v += 2) {
      for (int64_t r = 0; r < micro_tile.rows; ++r) {
        const auto sum = [&](int64_t n) HWY_ATTR {
          const auto& rows = of[v + n];
          return hn::Add(hn::Load(kF, rows[row + r]),
                         hn::Load(kF, rows[kProbRowsAtOnce + row + r]));
        };
        Vector lower = sum(0), upper = sum(1);
        OrderChannels(lower, upper);
        float* const out =
            micro_tile.out +
            ((vectors.first + v) * micro_tile.rows + r) * Lanes();
        float* const next = out + micro_tile.rows * Lanes();
        hn::Store(hn::Add(hn::Load(kF, out), lower), kF, out);
        hn::Store(hn::Add(hn::Load(kF, next), upper), kF, next);
      }
    }
  }
};

// out += probs * values of a step, for all micro-tiles. Pairs of them share
// what is prefetched: a quarter while probs become terms, a half with the
// multiplications, a quarter while sums are added to outputs.
inline void AddMatrixStep(const DecodeTile& decode, const StepPlace& at,
                          LinePrefetcher& prefetch) {
  constexpr int64_t kAtOnce = MatrixPairSums::kVectors;
  const int64_t count = at.count();
  const int64_t vectors = decode.values.vectors;
  const StepMatrices values(
      {at.rows.value, at.value_shift, count}, decode.values.bytes,
      reinterpret_cast<std::byte*>(decode.tile->scratch.keys));
  const int64_t lines = CeilDiv(LinesWithOutputs(decode, count),
                                CeilDiv(decode.micro_tiles(), int64_t{2}));
  const int64_t with_product = CeilDiv(lines, 2 * values.count() * vectors);
  MatrixPairSums sums;
  Matrices m;
  PairProbs probs;
  for (int64_t n = 0; n < decode.micro_tiles(); n += 2) {
    const int64_t last = std::min(n + 2, decode.micro_tiles());
    const int64_t with_probs = CeilDiv(lines, 4 * (last - n));
    const int64_t with_sums = CeilDiv(with_probs, CeilDiv(vectors, kAtOnce));
    for (int64_t i = n; i < last; ++i) {
      prefetch.PrefetchLines(with_probs);
      probs.Load(decode.At(i), count, 4 * (i - n));
    }
    for (int64_t v = 0; v < vectors; v += kAtOnce) {
      const int64_t some = std::min(vectors - v, kAtOnce);
      sums.Multiply(probs, values, {v, v + some}, with_product, prefetch, m);
      for (int64_t i = n; i < last; ++i) {
        prefetch.PrefetchLines(with_sums);
        sums.AddTo(decode.At(i), {v, v + some}, 4 * (i - n));
      }
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_PAIR_MATRICES_INL_H_
