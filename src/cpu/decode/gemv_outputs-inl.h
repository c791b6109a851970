// SPDX-License-Identifier: Apache-2.0
// Outputs of few rows: some vectors of channels are outer, keys inner, and
// nothing is combined. Keys are taken one at a time, or two (key_pairs-inl.h),
// rows those of a micro-tile, or of two, which then load values once.

#include <algorithm>
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

// Micro-tiles of a head that are summed together, one or two, which have the
// same values. Of two the first has four rows; row `r` of both is one of them
// or of the second.
template <int kTiles>
struct SummedTiles {
  PvTile of[kTiles];

  // Where the sums of row `r` of kRows are, of vector `v`.
  template <int kRows>
  HWY_INLINE float* Out(int64_t v, int r) const {
    const int t = r / 4, rows = std::min(kRows - 4 * t, 4);
    return of[t].out + (v * rows + r % 4) * Lanes();
  }
};

// Probs of the kRows rows of such micro-tiles: of a single row one for a key,
// of others four.
template <int kTiles, int kRows>
struct SummedProbs {
  const float* of[kTiles];

  HWY_INLINE float Of(int r) const { return of[r / 4][r % 4]; }
  // Those from so many keys on.
  HWY_INLINE SummedProbs After(int64_t keys) const {
    SummedProbs after = *this;
    HWY_UNROLL_ALL
    for (int t = 0; t < kTiles; ++t) {
      after.of[t] += keys * (kRows - 4 * t == 1 ? 1 : 4);
    }
    return after;
  }
};

// sums[v][r] += value[v] * probs[r] for kVectors vectors of channels, which lie
// so many bytes after `value`.
template <class Elements, class Probs, int kVectors, int kRows>
HWY_INLINE void AddValue(const std::byte* value,
                         const int64_t (&offset)[kVectors], const Probs& probs,
                         Vector (&sums)[kVectors][kRows]) {
  if constexpr (kRows == 1) {
    const Vector prob = hn::Set(kF, probs.Of(0));
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      sums[v][0] = hn::MulAdd(LoadPart<Elements>(value + offset[v], v), prob,
                              sums[v][0]);
    }
    return;
  }
  Vector channels[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    channels[v] = LoadPart<Elements>(value + offset[v], v);
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector prob = hn::Set(kF, probs.Of(r));
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      sums[v][r] = hn::MulAdd(channels[v], prob, sums[v][r]);
    }
  }
}

// The same of the keys that Elements take at a time, whose values lie `from`
// bytes after where these begin, or of a last one alone.
template <class Elements, bool kPieces, bool kAlone = false, class Probs,
          int kVectors, int kRows>
HWY_INLINE void AddKeys(const std::byte* const* values, int64_t from,
                        const int64_t (&offset)[kVectors], int64_t piece_step,
                        const Probs& probs, Vector (&sums)[kVectors][kRows]) {
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
template <class Elements, Prefetches kHow, bool kPieces, class Probs,
          int kVectors, int kRows>
HWY_INLINE int64_t AddLines(const PvArgs& work, Probs probs, Range which,
                            int64_t from, const int64_t (&offset)[kVectors],
                            LinePrefetcher& prefetch, PrefetchTurns& turns,
                            Vector (&sums)[kVectors][kRows]) {
  constexpr int kKeys = kVectorsOfLine<Elements>;
  static_assert(kKeys % Elements::kKeys == 0);
  const std::byte* taken = nullptr;
  const std::byte* const* values = work.values + which.first;
  int64_t j = which.first;
  for (; j + kKeys <= which.last; j += kKeys) {
    const bool in_turn = turns.Next();
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      if (in_turn) PrefetchShare<kHow, kVectors, kKeys>(k, taken, prefetch);
      if (k % Elements::kKeys != 0) continue;
      AddKeys<Elements, kPieces>(values + k, from, offset, work.piece_step,
                                 probs.After(k), sums);
    }
    values += kKeys;
    probs = probs.After(kKeys);
  }
  return j;
}

// AnyTiny() of all micro-tiles, and AddTinyValues().
template <bool kPieces, int kTiles>
HWY_INLINE bool AnyTinyOf(const PvArgs& work, const SummedTiles<kTiles>& tiles,
                          Range which, Range vectors) {
  for (const PvTile& tile : tiles.of) {
    if (AnyTiny<kPieces>(work, tile, which, vectors)) return true;
  }
  return false;
}
template <bool kPieces, int kTiles>
HWY_INLINE void AddTinyValuesOf(const PvArgs& work,
                                const SummedTiles<kTiles>& tiles, Range which,
                                Range vectors) {
  for (const PvTile& tile : tiles.of) {
    AddTinyValues<kPieces>(work, tile, which, vectors);
  }
}

// Of kVectors vectors of channels from number `vector` on, for kRows rows of
// all micro-tiles.
template <class Elements, int kVectors, int kRows, Prefetches kHow,
          bool kPieces, int kTiles>
HWY_INLINE void AddVectors(const PvArgs& work, const SummedTiles<kTiles>& tiles,
                           Range which, int64_t vector,
                           LinePrefetcher& prefetch, PrefetchTurns& turns) {
  Vector sums[kVectors][kRows];
  SummedProbs<kTiles, kRows> probs;
  HWY_UNROLL_ALL
  for (int t = 0; t < kTiles; ++t) probs.of[t] = tiles.of[t].probs;
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums[v][r] = hn::Load(kF, tiles.template Out<kRows>(vector + v, r));
    }
  }
  const int64_t first = OffsetOf<Elements, kPieces>(vector, work.piece_step);
  int64_t offset[kVectors];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    offset[v] =
        OffsetOf<Elements, kPieces>(vector + v, work.piece_step) - first;
  }
  const int64_t from = tiles.of[0].shift + first;
  int64_t j = which.first;
  if constexpr (kHow != Prefetches::kNone) {
    j = AddLines<Elements, kHow, kPieces>(work, probs.After(j), which, from,
                                          offset, prefetch, turns, sums);
  }
  for (; j + Elements::kKeys <= which.last; j += Elements::kKeys) {
    AddKeys<Elements, kPieces>(work.values + j, from, offset, work.piece_step,
                               probs.After(j), sums);
  }
  if constexpr (Elements::kKeys == 2) {
    if (j < which.last) {
      AddKeys<Elements, kPieces, true>(work.values + j, from, offset,
                                       work.piece_step, probs.After(j), sums);
    }
    if (Elements::kLosesTiny && AnySmall(sums) &&
        AnyTinyOf<kPieces>(work, tiles, which, {vector, vector + kVectors})) {
      return AddTinyValuesOf<kPieces>(work, tiles, which,
                                      {vector, vector + kVectors});
    }
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[v][r], kF, tiles.template Out<kRows>(vector + v, r));
    }
  }
}

// Whether two micro-tiles of a head share what they load of values: pairs of
// keys, interleaved once for both (docs/notes/0067), and 16 bits that become
// floats once (docs/notes/0071). Fp32 gained nothing, AVX2 has too few
// registers, ARM is unmeasured.
template <class Elements>
inline constexpr bool kSumsInTwos =
    Elements::kInTwos&& kVectorRegisters == 32 && HWY_ARCH_X86_64;

// Vectors that are summed at a time, at most: with their values and a prob they
// fill the registers. Fewer than ten sums would be slower than the
// products they wait for. Vectors of two keys are taken in twos; of six rows
// and more, as four of eight would be too many.
template <class Elements>
constexpr int VectorsOf(int rows) {
  if (kVectorRegisters == 32) return rows > 5 ? 2 : rows > 2 ? 4 : 8;
  return rows == 1 ? 8 : rows == 2 ? 4 : Elements::kKeys == 2 ? 2 : 3;
}

// All channels of the values `which` for the rows of some micro-tiles.
template <class Elements, int kRows, Prefetches kHow, bool kPieces, int kTiles>
HWY_INLINE void AddRange(const PvArgs& work, const SummedTiles<kTiles>& tiles,
                         Range which, LinePrefetcher& prefetch,
                         PrefetchTurns turns) {
  constexpr int kVectors = VectorsOf<Elements>(kRows);
  int64_t v = 0;
  // Four are two times two, as a single one would wait for itself.
  for (;
       v + kVectors <= work.vectors && (kVectors != 3 || v + 4 != work.vectors);
       v += kVectors) {
    AddVectors<Elements, kVectors, kRows, kHow, kPieces>(work, tiles, which, v,
                                                         prefetch, turns);
  }
  for (; v + 2 <= work.vectors; v += 2) {
    AddVectors<Elements, 2, kRows, kHow, kPieces>(work, tiles, which, v,
                                                  prefetch, turns);
  }
  if constexpr (Elements::kKeys == 1) {
    if (v < work.vectors) {
      AddVectors<Elements, 1, kRows, kHow, kPieces>(work, tiles, which, v,
                                                    prefetch, turns);
    }
  }
}

// The same for a micro-tile of a head of several, or for two of them, with so
// many rows in all.
template <class Elements, int kRows, Prefetches kHow, bool kPieces,
          int kTiles = 1>
HWY_NOINLINE void AddSome(const PvArgs& given, const PvTile* given_tiles,
                          Range which, PrefetchTurns turns) {
  const PvArgs work = given;
  SummedTiles<kTiles> tiles;
  HWY_UNROLL_ALL
  for (int t = 0; t < kTiles; ++t) tiles.of[t] = given_tiles[t];
  LinePrefetcher prefetch = *given.prefetch;
  AddRange<Elements, kRows, kHow, kPieces>(work, tiles, which, prefetch, turns);
  *given.prefetch = prefetch;
}

using AddTile = void (*)(const PvArgs&, const PvTile*, Range, PrefetchTurns);

// By the number of rows less one.
template <class Elements, Prefetches kHow, bool kPieces>
inline constexpr AddTile kAddOne[] = {
    AddSome<Elements, 1, kHow, kPieces>, AddSome<Elements, 2, kHow, kPieces>,
    AddSome<Elements, 3, kHow, kPieces>, AddSome<Elements, 4, kHow, kPieces>};

// Of two, by the number of rows of the second less one.
template <class Elements, Prefetches kHow, bool kPieces>
inline constexpr AddTile kAddTwo[] = {AddSome<Elements, 5, kHow, kPieces, 2>,
                                      AddSome<Elements, 6, kHow, kPieces, 2>,
                                      AddSome<Elements, 7, kHow, kPieces, 2>,
                                      AddSome<Elements, 8, kHow, kPieces, 2>};

// Heads whose first micro-tile has so many rows, as with scores.
template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_NOINLINE void AddAllValues(const PvArgs& given) {
  const PvArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  const int64_t of_head = work.all.of_head;
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const PvTile* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head, tiles += of_head) {
      const SummedTiles<1> first{{*tiles}};
      AddRange<Elements, kRows, kHow, kPieces>(work, first, which, prefetch,
                                               TurnsOf(work.all, of_head, 0));
      if (of_head == 1) continue;
      *given.prefetch = prefetch;
      for (int64_t n = 1; n < of_head; ++n) {
        kAddOne<Elements, kHow, kPieces>[tiles[n].rows - 1](
            given, tiles + n, which, TurnsOf(work.all, of_head, n));
      }
      prefetch = *given.prefetch;
    }
  }
  *given.prefetch = prefetch;
}

template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_INLINE void AddHeads(const PvArgs& work) {
  if constexpr (kSumsInTwos<Elements>) {
    ForTwos(work, kAddOne<Elements, kHow, kPieces>,
            kAddTwo<Elements, kHow, kPieces>);
  } else {
    AddAllValues<Elements, kRows, kHow, kPieces>(work);
  }
}

template <class Elements, int kRows>
HWY_NOINLINE void AddAll(const PvArgs& work) {
  if constexpr (Elements::kKeys == 2) MakePairsOfProbs(work);
  if (Elements::kHasPieces && work.piece_step != 0) {
    AddHeads<Elements, kRows, Prefetches::kAny, Elements::kHasPieces>(work);
  } else {
    WithPrefetches<Elements::kBody>(*work.prefetch, [&](auto how) HWY_ATTR {
      AddHeads<Elements, kRows, how(), false>(work);
    });
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_OUTPUTS_INL_H_
