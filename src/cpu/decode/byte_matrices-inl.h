// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of 8 bits on matrix registers, with the bits of
// gemv_bytes-inl.h.
//
// Scores: the second operand has the digits of four queries in its columns
// (matrix_keys-inl.h). Outputs: rows of the first operand are the digits of
// four rows of probs, 64 keys each, of which a step has 48; the second are
// values as PackByteValues leaves them. The outer loop is over vectors of
// channels. Every phase prefetches a share of a micro-tile's lines.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_BYTE_MATRICES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_BYTE_MATRICES_INL_H_
#undef FLASHACL_CPU_DECODE_BYTE_MATRICES_INL_H_
#else
#define FLASHACL_CPU_DECODE_BYTE_MATRICES_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/decode/gemv_bytes-inl.h"
#include "cpu/decode/matrix_keys-inl.h"
#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

struct SignedBytes {
  static HWY_INLINE constexpr int64_t Columns() { return kColumns; }
  template <int kTo, class M>
  static HWY_INLINE void Load(const float* from, M& m) {
    m.template LoadRows<kTo>(from, Columns());
  }
  template <int kSums, int kA, int kB, class M>
  static HWY_INLINE void MultiplyAdd(M& m) {
    m.template MultiplyAddBytes<int8_t, kSums, kA, kB>();
  }
};

template <class M, int kRows>
HWY_NOINLINE void DotBytesOnMatrices(const ByteQkArgs& given) {
  const ByteQkArgs work = given;  // which nothing that is stored can change
  const ByteQuery query(work.query);
  LinePrefetcher prefetch = *given.prefetch;
  HWY_ALIGN int32_t sums[kDecodeKeys * kColumns];
  const StepMatrices keys({work.rows, work.shift, work.count}, work.channels,
                          reinterpret_cast<std::byte*>(work.keys));
  M m;
  ClearSums(m);
  // Two thirds of its lines go with the multiplications, a third with what
  // makes scores of their sums.
  const int64_t products = keys.count() * (work.channels / kMatrixBytes);
  keys.MultiplyAdd<SignedBytes>(
      query.digits, CeilDiv(2 * work.lines, 3 * products), prefetch, m);
  keys.StoreSums(sums, m);
  const Vector units = hn::LoadDup128(kF, query.units);
  const Vector offsets = hn::LoadDup128(kF, work.offset);
  constexpr int64_t kKeys = Lanes() / 4;
  EvenShares lines(CeilDiv(work.lines, int64_t{3}), CeilDiv(work.count, kKeys));
  for (int64_t j = 0; j < work.count; j += kKeys) {
    prefetch.PrefetchLines(lines.Next());
    const auto sum = [&](int t) HWY_ATTR {
      const Vector words = JoinLoaded([&](int n) HWY_ATTR {
        return hn::Load(kQ, reinterpret_cast<const float*>(
                                sums + kColumns * (j + n) + 4 * t));
      });
      return hn::ConvertTo(kF, hn::BitCast(kW, words));
    };
    const Vector low = hn::MulAdd(sum(1), hn::Set(kF, 0x1p8f), sum(2));
    const Vector dot = hn::MulAdd(sum(0), hn::Set(kF, 0x1p16f), low);
    const Vector score =
        hn::Mul(hn::MulAdd(dot, units, offsets), hn::Set(kF, work.factor));
    if constexpr (kRows == 1) {
      HWY_ALIGN float lanes[Lanes()];
      hn::Store(score, kF, lanes);
      for (int64_t n = 0; n < kKeys; ++n) work.scores[j + n] = lanes[4 * n];
    } else {
      hn::Store(score, kF, work.scores + 4 * j);
    }
  }
  *given.prefetch = prefetch;
}

#if FLASHACL_HAS_MATRICES
// The integers of four keys and rows, a vector of 16 lanes: their bytes become
// words [digit, row], of the four keys; the fourth digit is 0.
HWY_INLINE Vector DigitsOfKeys(const WordVector& integers) {
  const hn::Repartition<uint8_t, Floats> b;
  // [row, byte] of each key, to [digit, row], the last byte first.
  alignas(16) static constexpr uint8_t kByDigit[16] = {
      2, 6, 10, 14, 1, 5, 9, 13, 0, 4, 8, 12, 3, 7, 11, 15};
  // [key, row] of each digit, to [row, key].
  alignas(16) static constexpr uint8_t kByRow[16] = {
      0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  HWY_ALIGN static constexpr int32_t kByBlock[16] = {
      0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto bytes = hn::TableLookupBytes(hn::BitCast(b, integers),
                                          hn::LoadDup128(b, kByDigit));
  const auto digits = hn::TableLookupLanes(hn::BitCast(kW, bytes),
                                           hn::SetTableIndices(kW, kByBlock));
  return hn::BitCast(kF, hn::TableLookupBytes(hn::BitCast(b, digits),
                                              hn::LoadDup128(b, kByRow)));
}
#endif

// The digits of four rows of probs, [digit, row][four keys]: rows of a matrix,
// of which the last four have no meaning. Keys after the last are 0.
struct MatrixProbs {
  HWY_ALIGN float words[kMatrixRows][16];
  HWY_ALIGN float units[4];  // of each row

  HWY_INLINE MatrixProbs(float* HWY_RESTRICT probs, int64_t count) {
#if FLASHACL_HAS_MATRICES
    const ProbUnits of(probs, count);
    for (int64_t g = 0; g < 16; g += 4) {
      const auto load = [&](int64_t n) HWY_ATTR {
        if (4 * (g + n) >= count) return hn::Zero(kF);
        return DigitsOfKeys(hn::NearestInt(
            hn::Mul(hn::Load(kF, probs + 16 * (g + n)), of.scales)));
      };
      QuadsOf<Floats> quads{{load(0), load(1), load(2), load(3)}};
      quads.Transpose();
      HWY_UNROLL_ALL
      for (int r = 0; r < 4; ++r) {
        const auto raw = quads.at[r].raw;
        _mm_store_ps(words[r] + g, _mm512_castps512_ps128(raw));
        _mm_store_ps(words[4 + r] + g, _mm512_extractf32x4_ps(raw, 1));
        _mm_store_ps(words[8 + r] + g, _mm512_extractf32x4_ps(raw, 2));
      }
    }
#else
    const ByteProbs of(probs, count);
    std::memset(words, 0, sizeof(words));
    for (int64_t g = 0; 4 * g < count; ++g) {
      for (int n = 0; n < 4 * kProbDigits; ++n) {
        std::memcpy(&words[n][g], &of.digits[g][n / 4][n % 4], sizeof(float));
      }
    }
#endif
    hn::Store(hn::Load(kQ, of.units), kQ, units);
  }
};

// Sums of the digits of four rows, of some vectors of channels.
inline constexpr int kVectorsAtOnce = 8;
struct MatrixByteSums {
  HWY_ALIGN int32_t of[kVectorsAtOnce][kMatrixRows][16];

  // Of `count` vectors, an even number, whose values are `step` words apart.
  template <class M>
  HWY_INLINE void Multiply(const float* HWY_RESTRICT values, int64_t count,
                           int64_t step, EvenShares& lines,
                           LinePrefetcher& prefetch, M& m) {
    for (int64_t v = 0; v < count; v += 2) {
      m.template Clear<0>();
      m.template LoadLanes<5>(values + v * Lanes(), step);
      m.template MultiplyAddBytes<uint8_t, 0, 4, 5>();
      prefetch.PrefetchLines(lines.Next());
      m.template Clear<1>();
      m.template LoadLanes<6>(values + (v + 1) * Lanes(), step);
      m.template MultiplyAddBytes<uint8_t, 1, 4, 6>();
      prefetch.PrefetchLines(lines.Next());
      m.template StoreLanes<0>(of[v], 16);
      m.template StoreLanes<1>(of[v + 1], 16);
    }
  }
};

template <class M, int kRows>
HWY_NOINLINE void AddBytesOnMatrices(const BytePvArgs& given) {
  const BytePvArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  HWY_ALIGN float four[4 * kDecodeKeys + 16];
  if constexpr (kRows == 1) SpreadProbs(work.probs, work.count, four);
  // A third of its lines goes with digits, one with multiplications, one with
  // what is made of their sums.
  const int64_t third = CeilDiv(work.lines, int64_t{3});
  prefetch.PrefetchLines(third);
  const MatrixProbs probs(kRows == 1 ? four : work.probs, work.count);
  M m;
  m.template LoadRows<4>(probs.words, 16);
  MatrixByteSums sums;
  const int64_t step = work.vectors * Lanes();
  EvenShares with_products(third, work.vectors);
  EvenShares with_sums(third, kRows * CeilDiv(work.vectors, int64_t{4}));
  for (int64_t first = 0; first < work.vectors; first += kVectorsAtOnce) {
    const int64_t count =
        std::min<int64_t>(work.vectors - first, kVectorsAtOnce);
    sums.Multiply(work.values + first * Lanes(), count, step, with_products,
                  prefetch, m);
    for (int64_t v = 0; v < count; v += 4) {
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) {
        prefetch.PrefetchLines(with_sums.Next());
        WordVector digits[kProbDigits][4];
        HWY_UNROLL_ALL
        for (int n = 0; n < 4 * kProbDigits; ++n) {
          digits[n / 4][n % 4] =
              hn::Load(kW, sums.of[v + n % 4][n / 4 * 4 + r]);
        }
        AddDigitSums<kRows>(digits, probs.units[r],
                            work.out + ((first + v) * kRows + r) * Lanes());
      }
    }
  }
  *given.prefetch = prefetch;
}

// Digits cost nothing, and keys need no packing, so few rows gain, too.
template <class M>
constexpr ByteKernels MakeMatrixByteKernels() {
  return {.dot = {DotBytesOnMatrices<M, 1>, DotBytesOnMatrices<M, 2>,
                  DotBytesOnMatrices<M, 3>, DotBytesOnMatrices<M, 4>},
          .add = {AddBytesOnMatrices<M, 1>, AddBytesOnMatrices<M, 2>,
                  AddBytesOnMatrices<M, 3>, AddBytesOnMatrices<M, 4>},
          .min_rows = kMinMatrixByteRows,
          .channel_unit = kMatrixBytes,
          .digits_in_twos = false,
          .shares_lines = true,
          .pack_keys = nullptr,
          .pack_values = PackByteValues<false>};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_BYTE_MATRICES_INL_H_
