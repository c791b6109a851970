// SPDX-License-Identifier: Apache-2.0
// Values of bf16 by pairs of keys, for few rows: words of two neighbouring keys
// meet words of two probs that were rounded to bf16.
//
// Rows of two keys are interleaved in registers, once for all rows of a
// micro-tile. That leaves channels in another order than memory's: of each
// vector of pairs a vector of sums has the first four of every eight channels,
// and the next one the others ("by fours"). Outputs are read in that order.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_PAIR_VALUES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_PAIR_VALUES_INL_H_
#undef FLASHACL_CPU_DECODE_PAIR_VALUES_INL_H_
#else
#define FLASHACL_CPU_DECODE_PAIR_VALUES_INL_H_
#endif

#include "cpu/decode/gemv-inl.h"
#include "cpu/tile/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A vector of pairs `from` bytes after a value, in one piece or two.
template <class Product, bool kPieces>
HWY_INLINE Vector LoadValuePairs(const std::byte* at, int64_t piece_step) {
  if constexpr (kPieces) return LoadPieces<PairsOf<Product>>(at, piece_step);
  return PairsOf<Product>::Load(at);
}

// sums[2 v], sums[2 v + 1] += first, second . probs for kVectors vectors of
// pairs that lie so many bytes after both.
template <class Product, int kVectors, int kRows, bool kPieces>
HWY_INLINE void AddValuePair(const std::byte* first, const std::byte* second,
                             const int64_t (&offset)[kVectors],
                             int64_t piece_step,
                             const float* HWY_RESTRICT probs,
                             Vector (&sums)[2 * kVectors][kRows]) {
  const hn::Repartition<uint16_t, Floats> halves;
  Vector words[2 * kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    const auto a = hn::BitCast(halves, LoadValuePairs<Product, kPieces>(
                                           first + offset[v], piece_step));
    const auto b = hn::BitCast(halves, LoadValuePairs<Product, kPieces>(
                                           second + offset[v], piece_step));
    words[2 * v] = hn::BitCast(kF, hn::InterleaveLower(halves, a, b));
    words[2 * v + 1] = hn::BitCast(kF, hn::InterleaveUpper(halves, a, b));
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector pair = hn::Set(kF, probs[r]);
    HWY_UNROLL_ALL
    for (int v = 0; v < 2 * kVectors; ++v) {
      sums[v][r] = Product::Add(words[v], pair, sums[v][r]);
    }
  }
}

// Bytes from the beginning of a value to vector `v` of pairs.
template <bool kPieces>
HWY_INLINE int64_t OffsetOfPairs(int64_t v, int64_t piece_step) {
  constexpr int64_t kBytes = 4 * Lanes();
  if (!kPieces) return v * kBytes;
  const int64_t from = v * kBytes;
  return from / kPieceBytes * piece_step + from % kPieceBytes;
}

// Of kVectors vectors of pairs from number `vector` on. The last of an odd
// number of keys has zeros beside it.
template <class Product, int kVectors, int kRows, bool kPieces>
HWY_INLINE void AddPairVectors(const PvArgs& work, int64_t vector,
                               LinePrefetcher& prefetch) {
  constexpr int64_t kWidth = kRows == 1 ? 1 : 4;
  float* const out = work.out + 2 * vector * kRows * Lanes();
  Vector sums[2 * kVectors][kRows];
  HWY_UNROLL_ALL
  for (int v = 0; v < 2 * kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums[v][r] = hn::Load(kF, out + (v * kRows + r) * Lanes());
    }
  }
  int64_t offset[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    offset[v] = OffsetOfPairs<kPieces>(vector + v, work.piece_step);
  }
  const std::byte* taken = nullptr;
  const float* HWY_RESTRICT probs = work.probs;
  int64_t j = 0;
  for (; j + 2 <= work.count; j += 2, probs += kWidth) {
    PrefetchShare<2 * kVectors, 1>(0, taken, prefetch);
    AddValuePair<Product, kVectors, kRows, kPieces>(
        work.values[j] + work.shift, work.values[j + 1] + work.shift, offset,
        work.piece_step, probs, sums);
  }
  if (j < work.count) {
    alignas(64) static constexpr std::byte kZeros[kPieceBytes * 2]{};
    const int64_t nowhere[1] = {0};
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      Vector two[2][kRows];
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) {
        two[0][r] = sums[2 * v][r];
        two[1][r] = sums[2 * v + 1][r];
      }
      HWY_ALIGN std::byte last[kPieceBytes * 2];
      hn::Store(LoadValuePairs<Product, kPieces>(
                    work.values[j] + work.shift + offset[v], work.piece_step),
                kF, reinterpret_cast<float*>(last));
      AddValuePair<Product, 1, kRows, false>(last, kZeros, nowhere, 0, probs,
                                             two);
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) {
        sums[2 * v][r] = two[0][r];
        sums[2 * v + 1][r] = two[1][r];
      }
    }
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < 2 * kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[v][r], kF, out + (v * kRows + r) * Lanes());
    }
  }
}

template <class Product, int kRows, bool kPieces>
HWY_INLINE void AddAllPairVectors(const PvArgs& given) {
  // Sums of twice as many vectors, with their words and probs.
  constexpr int kVectors = kRows <= 2 ? 4 : 2;
  const PvArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  const int64_t count = work.vectors / 2;
  int64_t v = 0;
  for (; v + kVectors <= count; v += kVectors) {
    AddPairVectors<Product, kVectors, kRows, kPieces>(work, v, prefetch);
  }
  for (; v < count; ++v) {
    AddPairVectors<Product, 1, kRows, kPieces>(work, v, prefetch);
  }
  *given.prefetch = prefetch;
}

template <class Product, int kRows>
HWY_NOINLINE void AddAllPairs(const PvArgs& work) {
  if (work.piece_step != 0) {
    AddAllPairVectors<Product, kRows, true>(work);
  } else {
    AddAllPairVectors<Product, kRows, false>(work);
  }
}

template <class Product>
constexpr AddKernels MakeAddPairKernels() {
  return {AddAllPairs<Product, 1>, AddAllPairs<Product, 2>,
          AddAllPairs<Product, 3>, AddAllPairs<Product, 4>};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_PAIR_VALUES_INL_H_
