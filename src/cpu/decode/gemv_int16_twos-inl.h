// SPDX-License-Identifier: Apache-2.0
// Scores beside integers of 16 bits as of Int16KeysOf (int16_products-inl.h),
// with the same bits in fewer instructions, for processors on which these take
// the places of multiply-adds, as on Intel's with AVX-512 (docs/notes/0075).
//
// A vector has 32 channels of two keys, a key in each half. One instruction
// joins these and two make words of them, even and odd channels, for two
// micro-tiles of a head. Half as many lanes are left to sum, of four keys at
// once. Of 32 channels of a query the even ones are first.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_GEMV_INT16_TWOS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_INT16_TWOS_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_INT16_TWOS_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_INT16_TWOS_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_int16-inl.h"
#include "cpu/decode/gemv_scores-inl.h"
#include "cpu/decode/int16_products-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

#if FLASHACL_HAS_INT16_TWOS
HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// 32 bytes, aligned in any way: a piece of a key, or half a vector.
HWY_INLINE __m256i LoadPiece(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

// 32 channels of two keys as words, the first key's in the lower half.
struct TwoKeys {
  Vector even;  // 128 more than they are
  Vector odd;

  HWY_INLINE TwoKeys(const std::byte* first, const std::byte* second) {
    const __m512i bytes = _mm512_inserti64x4(
        _mm512_castsi256_si512(LoadPiece(first)), LoadPiece(second), 1);
    constexpr int kXorThenAnd = 0x28;
    const __m512i words = _mm512_ternarylogic_epi32(
        bytes, _mm512_set1_epi16(0x80), _mm512_set1_epi16(0xFF), kXorThenAnd);
    even = InRegister(Vector{_mm512_castsi512_ps(words)});
    odd = InRegister(Vector{_mm512_castsi512_ps(_mm512_srai_epi16(bytes, 8))});
  }
};

// 16 words of a query, in both halves.
HWY_INLINE Vector InBothHalves(const float* words) {
  return InRegister(
      Vector{_mm512_castsi512_ps(_mm512_broadcast_i64x4(LoadPiece(words)))});
}

// What four rows have, once for each of four keys.
HWY_INLINE __m512i ForFourKeys(const void* rows) {
  return _mm512_broadcast_i32x4(
      _mm_loadu_si128(static_cast<const __m128i*>(rows)));
}

// Keys that are computed at a time: their sums, of eight rows, take half of the
// registers.
inline constexpr int kKeysOfTwos = 4;

// sums[n][r] += keys 2n and 2n + 1 . query[r] over vector `v` of a line.
template <int kTiles, int kRows>
HWY_INLINE void AddTwoKeys(const TwoKeys (&keys)[2],
                           const QueriesOf<kTiles, kRows>& queries, int v,
                           Vector (&sums)[2][kRows]) {
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const float* const words = queries.At(v, r);
    const Vector even = InBothHalves(words);
    HWY_UNROLL_ALL
    for (int n = 0; n < 2; ++n) {
      sums[n][r] = OfInt16AtOnce::Add(keys[n].even, even, sums[n][r]);
    }
    const Vector odd = InBothHalves(words + Lanes() / 2);
    HWY_UNROLL_ALL
    for (int n = 0; n < 2; ++n) {
      sums[n][r] = OfInt16AtOnce::Add(keys[n].odd, odd, sums[n][r]);
    }
  }
}

// Dot products of the first four of `keys`, or of the last again where fewer
// are left, whose lanes are not summed yet.
template <Prefetches kHow, bool kPieces, int kTiles, int kRows>
HWY_INLINE void DotFourKeys(const QkArgs& work,
                            const ScoredTiles<kTiles>& tiles, Range keys,
                            bool in_turn, LinePrefetcher& prefetch,
                            Vector (&sums)[2][kRows]) {
  // As AddDots does, and AddDotsOfPieces does not.
  constexpr bool kMayLeave =
      !kPieces && (kHow == Prefetches::kSecond || kHow == Prefetches::kAny);
  const std::byte* rows[kKeysOfTwos];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeysOfTwos; ++k) {
    rows[k] = work.keys[std::min(keys.first + k, keys.last - 1)] +
              tiles.of[0].key_shift;
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) sums[0][r] = sums[1][r] = hn::Zero(kF);
  QueriesOf<kTiles, kRows> queries(tiles);
  const int64_t read_before = work.leaves_lines
                                  ? keys.first / kKeysOfTwos * work.key_channels
                                  : kLeavesNone;
  const std::byte* taken = nullptr;
  const int64_t step = kPieces ? work.piece_step : kPieceBytes;
  int64_t from = 0;
  for (int64_t d = 0; d < work.key_channels; d += 2 * kPieceBytes) {
    HWY_UNROLL_ALL
    for (int v = 0; v < 2; ++v) {
      if (in_turn && (!kMayLeave || (read_before + d) % kLeftEvery != 0)) {
        PrefetchShare<kHow, kKeysOfTwos, 2>(v, taken, prefetch);
      }
      const TwoKeys of[2] = {{rows[0] + from, rows[1] + from},
                             {rows[2] + from, rows[3] + from}};
      AddTwoKeys(of, queries, v, sums);
      from += step;
    }
    queries.Skip(2);
  }
}

// SumsInBlocks() of words.
HWY_INLINE __m512i WordSumsInBlocks(const Vector& a, const Vector& b,
                                    const Vector& c, const Vector& d) {
  const Vector ab =
      AddWords(hn::InterleaveLower(kF, a, b), hn::InterleaveUpper(kF, a, b));
  const Vector cd =
      AddWords(hn::InterleaveLower(kF, c, d), hn::InterleaveUpper(kF, c, d));
  const __m512d low =
      _mm512_unpacklo_pd(_mm512_castps_pd(ab.raw), _mm512_castps_pd(cd.raw));
  const __m512d high =
      _mm512_unpackhi_pd(_mm512_castps_pd(ab.raw), _mm512_castps_pd(cd.raw));
  return _mm512_add_epi32(_mm512_castpd_si512(low), _mm512_castpd_si512(high));
}

// The scores of those of the four keys that there are, of a micro-tile of kRows
// rows, of which sums[n][kFirst] is the first's.
template <int kRows, int kFirst, int kSums>
HWY_INLINE void StoreFourKeys(const QkArgs& work, const QkTile& tile, int64_t j,
                              const Vector (&sums)[2][kSums]) {
  const Vector none = hn::Zero(kF);
  const auto of_keys = [&](const Vector(&of)[kSums]) HWY_ATTR {
    return WordSumsInBlocks(of[kFirst],
                            kRows > 1 ? of[kFirst + 1 % kRows] : none,
                            kRows > 2 ? of[kFirst + 2 % kRows] : none,
                            kRows > 3 ? of[kFirst + 3 % kRows] : none);
  };
  const __m512i first = of_keys(sums[0]), second = of_keys(sums[1]);
  constexpr int kEven = 0x88, kOdd = 0xDD;  // blocks of both
  const __m512i dots =
      _mm512_add_epi32(_mm512_shuffle_i32x4(first, second, kEven),
                       _mm512_shuffle_i32x4(first, second, kOdd));
  const Vector sum{
      _mm512_cvtepi32_ps(_mm512_add_epi32(dots, ForFourKeys(tile.starts)))};
  const Vector unit{_mm512_castsi512_ps(ForFourKeys(tile.units))};
  const Vector offset{_mm512_castsi512_ps(ForFourKeys(tile.offset))};
  const Vector scores =
      hn::Mul(hn::MulAdd(sum, unit, offset), hn::Set(kF, work.factor));
  if constexpr (kRows > 1) {
    hn::StoreU(scores, kF, tile.scores + 4 * j);
  } else {
    // The first lane of each block.
    const __m512i lanes = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    hn::StoreU(QuadVector{_mm512_castps512_ps128(
                   _mm512_permutexvar_ps(lanes, scores.raw))},
               kQ, tile.scores + j);
  }
}

// Scores of the keys `which` for a micro-tile of kRows rows, or two.
template <int kRows, Prefetches kHow, bool kPieces>
HWY_NOINLINE void DotTwos(const QkArgs& given, const QkTile* given_tiles,
                          Range which, PrefetchTurns turns) {
  constexpr int kTiles = kRows > 4 ? 2 : 1;
  const QkArgs work = given;
  ScoredTiles<kTiles> tiles;
  HWY_UNROLL_ALL
  for (int t = 0; t < kTiles; ++t) tiles.of[t] = given_tiles[t];
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t j = which.first; j < which.last; j += kKeysOfTwos) {
    Vector sums[2][kRows];
    DotFourKeys<kHow, kPieces>(work, tiles, {j, which.last}, turns.Next(),
                               prefetch, sums);
    StoreFourKeys<std::min(kRows, 4), 0>(work, tiles.of[0], j, sums);
    if constexpr (kTiles == 2) {
      StoreFourKeys<kRows - 4, 4>(work, tiles.of[1], j, sums);
    }
  }
  *given.prefetch = prefetch;
}

template <Prefetches kHow, bool kPieces>
HWY_INLINE void DotAllInTwos(const QkArgs& work) {
  static constexpr DotTile kOne[] = {
      DotTwos<1, kHow, kPieces>, DotTwos<2, kHow, kPieces>,
      DotTwos<3, kHow, kPieces>, DotTwos<4, kHow, kPieces>};
  static constexpr DotTile kTwo[] = {
      DotTwos<5, kHow, kPieces>, DotTwos<6, kHow, kPieces>,
      DotTwos<7, kHow, kPieces>, DotTwos<8, kHow, kPieces>};
  ForTwos(work, kOne, kTwo);
}

inline HWY_NOINLINE void DotInt16InTwos(const QkArgs& work) {
  if (work.piece_step != 0) return DotAllInTwos<Prefetches::kAny, true>(work);
  WithPrefetches<LoopBody::kLong>(*work.prefetch, [&](auto how) HWY_ATTR {
    DotAllInTwos<how(), false>(work);
  });
}

constexpr GemvKernels MakeInt16KernelsInTwos() {
  constexpr auto kDot = DotInt16InTwos;
  constexpr auto kAdd = AddInt16<OfInt16AtOnce>;
  return {{{kDot, kDot, kDot, kDot}}, {kAdd, kAdd, kAdd, kAdd}};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FLASHACL_HAS_INT16_TWOS

#endif  // FLASHACL_CPU_DECODE_GEMV_INT16_TWOS_INL_H_
