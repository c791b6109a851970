// SPDX-License-Identifier: Apache-2.0
// Outputs of few rows: some vectors of channels are outer, keys inner, and
// nothing is combined. Keys are taken one at a time, or two (key_pairs-inl.h).

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/decode/key_pairs-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// sums[v][r] += value[v] * probs[r] for kVectors vectors of channels, which lie
// so many bytes after `value`.
template <class Elements, int kVectors, int kRows>
HWY_INLINE void AddValue(const std::byte* value,
                         const int64_t (&offset)[kVectors],
                         const float* HWY_RESTRICT probs,
                         Vector (&sums)[kVectors][kRows]) {
  if constexpr (kRows == 1) {
    const Vector prob = hn::Set(kF, *probs);
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      sums[v][0] =
          hn::MulAdd(Elements::Load(value + offset[v]), prob, sums[v][0]);
    }
    return;
  }
  Vector channels[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    channels[v] = Elements::Load(value + offset[v]);
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector prob = hn::Set(kF, probs[r]);
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      sums[v][r] = hn::MulAdd(channels[v], prob, sums[v][r]);
    }
  }
}

// The same of the keys that Elements take at a time, whose values lie `from`
// bytes after where these begin, or of a last one alone.
template <class Elements, bool kPieces, bool kAlone = false, int kVectors,
          int kRows>
HWY_INLINE void AddKeys(const std::byte* const* values, int64_t from,
                        const int64_t (&offset)[kVectors], int64_t piece_step,
                        const float* HWY_RESTRICT probs,
                        Vector (&sums)[kVectors][kRows]) {
  const std::byte* value = values[0] + from;
  asm("" : "+r"(value));  // or GCC keeps an offset for every vector
  if constexpr (Elements::kKeys == 1) {
    AddValue<Elements>(value, offset, probs, sums);
  } else {
    const std::byte* next = kAlone ? nullptr : values[1] + from;
    asm("" : "+r"(next));
    AddTwoValues<Elements, kPieces, kAlone>(value, next, offset, piece_step,
                                            probs, sums);
  }
}

// sums[v][r] += values * probs of as many keys at a time as a line has vectors,
// from `from` bytes after where each begins on; returns the first key that is
// left. Prefetches as many lines as it reads, in its turn.
template <class Elements, Prefetches kHow, bool kPieces, int kVectors,
          int kRows>
HWY_INLINE int64_t AddLines(const PvArgs& work, const PvTile& tile, Range which,
                            int64_t from, const int64_t (&offset)[kVectors],
                            LinePrefetcher& prefetch, PrefetchTurns& turns,
                            Vector (&sums)[kVectors][kRows]) {
  constexpr int64_t kWidth = kRows == 1 ? 1 : 4;
  constexpr int kKeys = kVectorsOfLine<Elements>;
  static_assert(kKeys % Elements::kKeys == 0);
  const std::byte* taken = nullptr;
  const std::byte* const* values = work.values + which.first;
  const float* HWY_RESTRICT probs = tile.probs + which.first * kWidth;
  int64_t j = which.first;
  for (; j + kKeys <= which.last; j += kKeys) {
    const bool in_turn = turns.Next();
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      if (in_turn) PrefetchShare<kHow, kVectors, kKeys>(k, taken, prefetch);
      if (k % Elements::kKeys != 0) continue;
      AddKeys<Elements, kPieces>(values + k, from, offset, work.piece_step,
                                 probs + k * kWidth, sums);
    }
    values += kKeys;
    probs += kKeys * kWidth;
  }
  return j;
}

// Of kVectors vectors of channels from number `vector` on.
template <class Elements, int kVectors, int kRows, Prefetches kHow,
          bool kPieces>
HWY_INLINE void AddVectors(const PvArgs& work, const PvTile& tile, Range which,
                           int64_t vector, LinePrefetcher& prefetch,
                           PrefetchTurns& turns) {
  constexpr int64_t kWidth = kRows == 1 ? 1 : 4;
  float* const out = tile.out + vector * kRows * Lanes();
  Vector sums[kVectors][kRows];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums[v][r] = hn::Load(kF, out + (v * kRows + r) * Lanes());
    }
  }
  const int64_t first = OffsetOf<Elements, kPieces>(vector, work.piece_step);
  int64_t offset[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    offset[v] =
        OffsetOf<Elements, kPieces>(vector + v, work.piece_step) - first;
  }
  const int64_t from = tile.shift + first;
  int64_t j = which.first;
  if constexpr (kHow != Prefetches::kNone) {
    j = AddLines<Elements, kHow, kPieces>(work, tile, which, from, offset,
                                          prefetch, turns, sums);
  }
  for (; j + Elements::kKeys <= which.last; j += Elements::kKeys) {
    AddKeys<Elements, kPieces>(work.values + j, from, offset, work.piece_step,
                               tile.probs + j * kWidth, sums);
  }
  if constexpr (Elements::kKeys == 2) {
    if (j < which.last) {
      AddKeys<Elements, kPieces, true>(work.values + j, from, offset,
                                       work.piece_step, tile.probs + j * kWidth,
                                       sums);
    }
    if (Elements::kLosesTiny && AnySmall(sums) &&
        AnyTiny<kPieces>(work, tile, which, {vector, vector + kVectors})) {
      return AddTinyValues<kPieces>(work, tile, which,
                                    {vector, vector + kVectors});
    }
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[v][r], kF, out + (v * kRows + r) * Lanes());
    }
  }
}

// Vectors that are summed at a time, at most: with their values and a prob they
// fill the registers. Fewer than ten sums would be slower than the
// products they wait for. Vectors of two keys are taken in twos.
template <class Elements>
constexpr int VectorsOf(int rows) {
  if (kVectorRegisters == 32) return rows > 2 ? 4 : 8;
  return rows == 1 ? 8 : rows == 2 ? 4 : Elements::kKeys == 2 ? 2 : 3;
}

// All channels of the values `which` for one micro-tile.
template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_INLINE void AddRange(const PvArgs& work, const PvTile& tile, Range which,
                         LinePrefetcher& prefetch, PrefetchTurns turns) {
  constexpr int kVectors = VectorsOf<Elements>(kRows);
  int64_t v = 0;
  // Four are two times two, as a single one would wait for itself.
  for (;
       v + kVectors <= work.vectors && (kVectors != 3 || v + 4 != work.vectors);
       v += kVectors) {
    AddVectors<Elements, kVectors, kRows, kHow, kPieces>(work, tile, which, v,
                                                         prefetch, turns);
  }
  for (; v + 2 <= work.vectors; v += 2) {
    AddVectors<Elements, 2, kRows, kHow, kPieces>(work, tile, which, v,
                                                  prefetch, turns);
  }
  if constexpr (Elements::kKeys == 1) {
    if (v < work.vectors) {
      AddVectors<Elements, 1, kRows, kHow, kPieces>(work, tile, which, v,
                                                    prefetch, turns);
    }
  }
}

// The same for one that is not its head's first.
template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_NOINLINE void AddAgain(const PvArgs& given, const PvTile& given_tile,
                           Range which, PrefetchTurns turns) {
  const PvArgs work = given;
  const PvTile tile = given_tile;
  LinePrefetcher prefetch = *given.prefetch;
  AddRange<Elements, kRows, kHow, kPieces>(work, tile, which, prefetch, turns);
  *given.prefetch = prefetch;
}

// Heads whose first micro-tile has so many rows, as with scores.
template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_NOINLINE void AddAllValues(const PvArgs& given) {
  static constexpr void (*kAgain[])(const PvArgs&, const PvTile&, Range,
                                    PrefetchTurns) = {
      AddAgain<Elements, 1, kHow, kPieces>,
      AddAgain<Elements, 2, kHow, kPieces>,
      AddAgain<Elements, 3, kHow, kPieces>,
      AddAgain<Elements, 4, kHow, kPieces>};
  const PvArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const PvTile* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head) {
      const PvTile first = *tiles++;
      AddRange<Elements, kRows, kHow, kPieces>(work, first, which, prefetch,
                                               TurnsOf(work.all, 0));
      if (work.all.of_head == 1) continue;
      *given.prefetch = prefetch;
      for (int64_t n = 1; n < work.all.of_head; ++n, ++tiles) {
        kAgain[tiles->rows - 1](given, *tiles, which, TurnsOf(work.all, n));
      }
      prefetch = *given.prefetch;
    }
  }
  *given.prefetch = prefetch;
}

template <class Elements, int kRows>
HWY_NOINLINE void AddAll(const PvArgs& work) {
  if constexpr (Elements::kKeys == 2) MakePairsOfProbs(work);
  if (Elements::kHasPieces && work.piece_step != 0) {
    AddAllValues<Elements, kRows, Prefetches::kAny, Elements::kHasPieces>(work);
  } else {
    WithPrefetches<Elements::kBody>(*work.prefetch, [&](auto how) HWY_ATTR {
      AddAllValues<Elements, kRows, how(), false>(work);
    });
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_
