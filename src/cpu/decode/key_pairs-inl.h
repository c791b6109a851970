// SPDX-License-Identifier: Apache-2.0
// Values of bf16 of two keys at a time: a word has those of the first in its
// upper half, of the second in its lower one, and so has a word of probs, which
// are rounded to bf16 (Score::half_probs). x86 sums the upper half first, so
// outputs have the bits of floats beside such probs where the instruction loses
// nothing. ARM's have bits of their own.
//
// The instruction makes 0 of what is subnormal: values, products and sums. Only
// where a sum is small after the keys of a call, values and the outputs before
// are looked at; if one is tiny, what is added becomes floats. What is lost
// elsewhere is below 2^-126 for each product.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/range.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_KEY_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_KEY_PAIRS_INL_H_
#undef FLASHACL_CPU_DECODE_KEY_PAIRS_INL_H_
#else
#define FLASHACL_CPU_DECODE_KEY_PAIRS_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

static_assert(kDecodeKeys % 2 == 0 && kDecodeKeysAtATime % 2 == 0,
              "calls go through whole pairs of keys");

// Values of two keys, as floats of one key are to ElementsOf. Vectors of
// channels are an even number.
template <class ProductOfPairs>
struct KeyPairsOf : ElementsOf<DType::kBf16> {
  using Product = ProductOfPairs;
  static constexpr int kKeys = 2;
  static constexpr bool kInTwos = true;
  static constexpr bool kLosesTiny = std::is_same_v<Product, OfPairsAtOnce>;
};

// Two vectors of channels of a value, as they lie.
struct TwoVectors {
  static constexpr int64_t kVectorBytes = 4 * Lanes();
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsAt<DType::kF32>(kF, at, 0);
  }
};

template <bool kPieces>
HWY_INLINE Vector LoadTwoVectors(const std::byte* at, int64_t piece_step) {
  if constexpr (kPieces) {
    return LoadPieces<TwoVectors>(at, piece_step);
  } else {
    return TwoVectors::Load(at);
  }
}

// Of two values' channels as they lie: a word for each channel, the first
// value's in the upper half, in their order.
HWY_INLINE void InterleaveKeys(const Vector& first, const Vector& second,
                               Vector& low, Vector& high) {
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  alignas(64) static constexpr auto kOrder = [] {
    std::array<uint16_t, 64> order{};
    for (uint16_t n = 0; n < 64; ++n) order[n] = (n % 2 * 32) + n / 2;
    return order;
  }();
  const __m512i x = _mm512_castps_si512(second.raw);
  const __m512i y = _mm512_castps_si512(first.raw);
  const auto words = [&](int n) HWY_ATTR {
    return Vector{_mm512_castsi512_ps(_mm512_permutex2var_epi16(
        x, _mm512_load_si512(kOrder.data() + 32 * n), y))};
  };
  low = words(0);
  high = words(1);
#else
  const hn::Repartition<uint16_t, Floats> h;
  const auto x = hn::BitCast(h, second);
  const auto y = hn::BitCast(h, first);
#if FLASHACL_SVE_BITS
  low = hn::BitCast(kF, svzip1_u16(x, y));
  high = hn::BitCast(kF, svzip2_u16(x, y));
#else
  low = hn::BitCast(kF, hn::InterleaveLower(h, x, y));
  high = hn::BitCast(kF, hn::InterleaveUpper(h, x, y));
  static_assert(Lanes() <= 8, "two blocks, which interleaving keeps apart");
  if constexpr (Lanes() > 4) {
    const Vector of_low = low;
    low = hn::ConcatLowerLower(kF, high, of_low);
    high = hn::ConcatUpperUpper(kF, high, of_low);
  }
#endif
#endif
}

// sums[v][r] += the products of two keys' values and probs, a word of which is
// `probs` of each row; of a last key alone where `second` is none. Vectors of
// channels lie so many bytes after where values begin.
template <class Elements, bool kPieces, bool kAlone, class Probs, int kVectors,
          int kRows>
HWY_INLINE void AddTwoValues(const std::byte* first, const std::byte* second,
                             const int64_t (&offset)[kVectors],
                             int64_t piece_step, const Probs& probs,
                             Vector (&sums)[kVectors][kRows]) {
  static_assert(kVectors % 2 == 0);
  Vector channels[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; v += 2) {
    const Vector x =
        InRegister(LoadTwoVectors<kPieces>(first + offset[v], piece_step));
    Vector y = hn::Zero(kF);
    if constexpr (!kAlone) {
      y = InRegister(LoadTwoVectors<kPieces>(second + offset[v], piece_step));
    }
    InterleaveKeys(x, y, channels[v], channels[v + 1]);
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector prob = InRegister(hn::Set(kF, probs.Of(r)));
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      sums[v][r] = Elements::Product::Add(channels[v], prob, sums[v][r]);
    }
  }
}

// Probs of all micro-tiles of a call become words: a key's in the upper half,
// the next one's in the lower one. A last one has 0 beside it; words after that
// are anything, in scratch memory.
inline void MakePairsOfProbs(const PvArgs& work) {
  const PvTile* tile = work.all.tiles;
  for (int64_t n = work.all.heads * work.all.of_head; n > 0; --n, ++tile) {
    const int64_t width = tile->rows == 1 ? 1 : 4;
    const int64_t count = work.count * width;
    float* HWY_RESTRICT probs = tile->probs;
    std::fill_n(probs + count, width, 0.0f);
    for (int64_t j = 0; j < count; j += Lanes()) {
      hn::StoreU(
          ProbPairs(hn::LoadU(kF, probs + j), hn::LoadU(kF, probs + j + width)),
          kF, probs + j);
    }
  }
}

// The one of the lesser magnitude; the second of a NaN.
HWY_INLINE Vector Lesser(const Vector& x, const Vector& y) {
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  return Vector{_mm512_range_ps(x.raw, y.raw, 2)};
#else
  return hn::Min(hn::Abs(x), y);
#endif
}

// Whether a sum is so small that what the instruction loses may matter.
template <int kVectors, int kRows>
HWY_INLINE bool AnySmall(const Vector (&sums)[kVectors][kRows]) {
  const Vector bound = hn::Set(kF, 0x1p-80f);
  Vector least[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    least[v] = bound;
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) least[v] = Lesser(sums[v][r], least[v]);
  }
  HWY_UNROLL_ALL
  for (int v = 1; v < kVectors; ++v) least[0] = Lesser(least[v], least[0]);
  return !hn::AllFalse(kF, hn::Lt(hn::Abs(least[0]), bound));
}

// Whether, in these vectors of channels, some output so far or some of the
// values `which` is not 0, but below 2^-100. Products of others are subnormal
// only with probs below 2^-26.
template <bool kPieces>
HWY_NOINLINE bool AnyTiny(const PvArgs& work, const PvTile& tile, Range which,
                          Range vectors) {
  using Elements = ElementsOf<DType::kBf16>;
  LeastOfPairs<Floats> least;
  for (int64_t v = vectors.first; v < vectors.last; v += 2) {
    const int64_t from =
        tile.shift + OffsetOf<Elements, kPieces>(v, work.piece_step);
    for (int64_t j = which.first; j < which.last; ++j) {
      least.Add(
          LoadTwoVectors<kPieces>(work.values[j] + from, work.piece_step));
    }
  }
  if (least.AnyBelow(-100)) return true;
  const Vector zero = hn::Zero(kF), bound = hn::Set(kF, 0x1p-100f);
  for (int64_t n = vectors.first * tile.rows; n < vectors.last * tile.rows;
       ++n) {
    const Vector out = hn::Abs(hn::Load(kF, tile.out + n * Lanes()));
    const auto tiny = hn::And(hn::Gt(out, zero), hn::Lt(out, bound));
    if (!hn::AllFalse(kF, tiny)) return true;
  }
  return false;
}

// out += probs * values of some vectors of channels, as floats, with the bits
// of multiply-adds of pairs.
template <bool kPieces>
HWY_NOINLINE void AddTinyValues(const PvArgs& work, const PvTile& tile,
                                Range which, Range vectors) {
  using Elements = ElementsOf<DType::kBf16>;
  const int64_t width = tile.rows == 1 ? 1 : 4;
  for (int64_t j = which.first; j < which.last; ++j) {
    const float* const words = tile.probs + j * width;
    for (int64_t v = vectors.first; v < vectors.last; ++v) {
      const Vector value =
          Elements::Load(work.values[j] + tile.shift +
                         OffsetOf<Elements, kPieces>(v, work.piece_step));
      for (int r = 0; r < tile.rows; ++r) {
        float* const out = tile.out + (v * tile.rows + r) * Lanes();
        const Vector prob = UpperOfPairs(hn::Set(kF, words[r]));
        hn::Store(hn::MulAdd(value, prob, hn::Load(kF, out)), kF, out);
      }
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_KEY_PAIRS_INL_H_
