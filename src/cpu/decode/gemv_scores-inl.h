// SPDX-License-Identifier: Apache-2.0
// Scores of few rows: some keys are outer, their channels inner. The lanes of a
// sum are combined after the last channel, and where registers allow it after
// the products of the next keys, so that no product waits (docs/notes/0064).
// Micro-tiles are taken one at a time, or two where these share what is
// converted (docs/notes/0071).

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_GEMV_SCORES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_SCORES_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_SCORES_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_SCORES_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Micro-tiles of a head that meet its keys together, one or two. Of two the
// first has four rows; row `r` of both is one of them or of the second.
template <int kTiles>
struct ScoredTiles {
  QkTile of[kTiles];
};

// Where the queries of the kRows rows of such micro-tiles are, from a vector of
// channels on.
template <int kTiles, int kRows>
struct QueriesOf {
  const float* of[kTiles];

  explicit QueriesOf(const ScoredTiles<kTiles>& tiles) {
    HWY_UNROLL_ALL
    for (int t = 0; t < kTiles; ++t) of[t] = tiles.of[t].query;
  }
  static constexpr int RowsOf(int t) { return std::min(kRows - 4 * t, 4); }

  // The query of row `r`, of vector `v` from here on.
  HWY_INLINE const float* At(int v, int r) const {
    return of[r / 4] + (v * RowsOf(r / 4) + r % 4) * Lanes();
  }
  HWY_INLINE Vector Load(int v, int r) const { return hn::Load(kF, At(v, r)); }
  HWY_INLINE void Skip(int vectors) {
    HWY_UNROLL_ALL
    for (int t = 0; t < kTiles; ++t) of[t] += vectors * RowsOf(t) * Lanes();
  }
};

// sums[k][r] += rows[k] . query[r] over one vector of channels, number `v` of a
// line and of `queries`, `from` bytes after where the rows begin.
template <class Elements, bool kPieces = false, int kTiles, int kKeys,
          int kRows>
HWY_INLINE void AddDotsOfVector(const std::byte* const (&rows)[kKeys],
                                int64_t from,
                                const QueriesOf<kTiles, kRows>& queries, int v,
                                Vector (&sums)[kKeys][kRows],
                                int64_t piece_step = 0) {
  const auto load = [&](int k) HWY_ATTR {
    if constexpr (kPieces) {
      return LoadPieces<Elements>(rows[k] + from, piece_step);
    } else {
      return LoadPart<Elements>(rows[k] + from, v);
    }
  };
  if constexpr (kRows == 1) {
    const Vector q = queries.Load(v, 0);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      sums[k][0] = Elements::AddDot(load(k), q, sums[k][0]);
    }
    return;
  }
  Vector key[kKeys];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) key[k] = InRegister(load(k));
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector q = InRegister(queries.Load(v, r));
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      sums[k][r] = Elements::AddDot(key[k], q, sums[k][r]);
    }
  }
}

// What keys are made of.
enum class Rows {
  kLines,   // whole ones, some
  kAny,     // whole vectors, maybe with a rope elsewhere
  kPieces,  // pairs of pieces
};

// Of scores that leave lines to the softmax: one in so many bytes, about a
// quarter. Bytes are even, so the second leaves none.
inline constexpr int64_t kLeftEvery = 4 * kLineBytes;
inline constexpr int64_t kLeavesNone = 1;

// The same over rows of so many bytes; `queries` are the next ones' then.
// Prefetches as many lines as it reads, in its turn, but those that are left,
// of a call before which so many bytes of a row at a time were read, or
// kLeavesNone.
template <class Elements, Prefetches kHow, Rows kMadeOf, int kTiles, int kKeys,
          int kRows>
HWY_INLINE void AddDots(const std::byte* const (&rows)[kKeys],
                        LinePrefetcher& prefetch, bool in_turn, int64_t bytes,
                        QueriesOf<kTiles, kRows>& queries,
                        Vector (&sums)[kKeys][kRows],
                        int64_t read_before = kLeavesNone) {
  // Not on ARM, nor into the first cache: nothing is left there (LeavesLines).
  constexpr bool kMayLeave = HWY_ARCH_X86_64 && (kHow == Prefetches::kSecond ||
                                                 kHow == Prefetches::kAny);
  constexpr int64_t kVectorBytes = Elements::kVectorBytes;
  constexpr int kOfLine = kVectorsOfLine<Elements>;
  constexpr int64_t kBytes = kOfLine * kVectorBytes;
  constexpr bool kPlain = kMadeOf == Rows::kLines;
  const std::byte* taken = nullptr;
  int64_t at = 0;
  while (kPlain || at + kBytes <= bytes) {
    HWY_UNROLL_ALL
    for (int v = 0; v < kOfLine; ++v) {
      if (in_turn && (!kMayLeave || (read_before + at) % kLeftEvery != 0)) {
        PrefetchShare<kHow, kKeys, kOfLine>(v, taken, prefetch);
      }
      AddDotsOfVector<Elements>(rows, at + v * kVectorBytes, queries, v, sums);
    }
    queries.Skip(kOfLine);
    at += kBytes;
    if (kPlain && at >= bytes) return;
  }
  if (HWY_LIKELY(at == bytes)) return;
  if (in_turn) PrefetchShare<kHow, kKeys, 1>(0, taken, prefetch);
  for (; at < bytes; at += kVectorBytes) {
    AddDotsOfVector<Elements>(rows, at, queries, 0, sums);
    queries.Skip(1);
  }
}

// The same over rows of pieces, two at a time, from the first of each on to the
// last of the keys' channels.
template <class Elements, int kTiles, int kKeys, int kRows>
HWY_INLINE void AddDotsOfPieces(const std::byte* const (&rows)[kKeys],
                                const QkArgs& work,
                                QueriesOf<kTiles, kRows> queries,
                                LinePrefetcher& prefetch, bool in_turn,
                                Vector (&sums)[kKeys][kRows]) {
  constexpr int kOfLine = kVectorsOfLine<Elements>;
  const int64_t last =
      BytesOf<Elements>(work.key_channels) / kPieceBytes * work.piece_step;
  const std::byte* taken = nullptr;
  for (int64_t at = 0; at < last; at += 2 * work.piece_step) {
    HWY_UNROLL_ALL
    for (int v = 0; v < kOfLine; ++v) {
      if (in_turn) {
        PrefetchShare<Prefetches::kAny, kKeys, kOfLine>(v, taken, prefetch);
      }
      AddDotsOfVector<Elements, true>(
          rows, at + OffsetOf<Elements>(v, work.piece_step), queries, v, sums,
          work.piece_step);
    }
    queries.Skip(kOfLine);
  }
}

// Dot products of kKeys keys from number `j` on, whose lanes are not summed
// yet.
template <class Elements, Prefetches kHow, Rows kMadeOf, int kTiles, int kKeys,
          int kRows>
HWY_INLINE void DotKeys(const QkArgs& work, const ScoredTiles<kTiles>& tiles,
                        LinePrefetcher& prefetch, PrefetchTurns& turns,
                        int64_t j, Vector (&sums)[kKeys][kRows]) {
  const QkTile& tile = tiles.of[0];
  QueriesOf<kTiles, kRows> queries(tiles);
  const std::byte* rows[kKeys];
  const bool in_turn = turns.Next();
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) {
    rows[k] = work.keys[j + k] + tile.key_shift;
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) sums[k][r] = hn::Zero(kF);
  }
  if constexpr (kMadeOf == Rows::kPieces) {
    AddDotsOfPieces<Elements>(rows, work, queries, prefetch, in_turn, sums);
    return;
  }
  const int64_t bytes = BytesOf<Elements>(work.key_channels);
  AddDots<Elements, kHow, kMadeOf>(
      rows, prefetch, in_turn, bytes, queries, sums,
      work.leaves_lines ? j / kKeys * bytes : kLeavesNone);
  if (kMadeOf == Rows::kAny && work.ropes != nullptr) {
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      rows[k] = work.ropes[j + k] + tile.rope_shift;
    }
    AddDots<Elements, Prefetches::kNone, Rows::kAny>(
        rows, prefetch, in_turn, BytesOf<Elements>(work.rope_channels), queries,
        sums);
  }
}

// Their scores, of the kRows rows of a micro-tile, of which sums[k][kFirst] is
// the first's; one row's go four keys at a time.
template <class Elements, int kRows, int kFirst = 0, int kKeys, int kSums>
HWY_INLINE void StoreScores(const QkArgs& work, const QkTile& tile, int64_t j,
                            const Vector (&sums)[kKeys][kSums]) {
  const QuadVector factor = hn::Set(kQ, work.factor);
  const Vector none = hn::Zero(kF);
  float* HWY_RESTRICT const scores = tile.scores + j * (kRows == 1 ? 1 : 4);
  const auto of_rows = [](const float* from) HWY_ATTR {
    if constexpr (kRows == 1) {
      return hn::Set(kQ, *from);
    } else {
      return hn::LoadU(kQ, from);
    }
  };
  const QuadVector offset = of_rows(tile.offset);
  const auto scores_of = [&](const Vector& a, const Vector& b, const Vector& c,
                             const Vector& d) HWY_ATTR {
    if constexpr (Elements::kIntegers) {
      const QuadVector dots = SumsOfWords(a, b, c, d);
      return hn::Mul(hn::MulAdd(dots, of_rows(tile.units), offset), factor);
    } else {
      return hn::Mul(hn::Add(SumsOfLanes(a, b, c, d), offset), factor);
    }
  };
  if constexpr (kRows > 1) {
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      const QuadVector of_key =
          scores_of(sums[k][kFirst], sums[k][kFirst + 1],
                    kRows > 2 ? sums[k][kFirst + 2 % kRows] : none,
                    kRows > 3 ? sums[k][kFirst + 3 % kRows] : none);
      hn::StoreU(of_key, kQ, scores + k * 4);
    }
  } else {
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; k += 4) {
      const auto at = [&](int n) HWY_ATTR {
        return k + n < kKeys ? sums[(k + n) % kKeys][kFirst] : none;
      };
      const QuadVector of_keys = scores_of(at(0), at(1), at(2), at(3));
      // Of fewer keys it passes their end, where the next ones' go.
      hn::StoreU(of_keys, kQ, scores + k);
    }
  }
}

#if FLASHACL_HAS_SHARED_CONVERSIONS
// The same of three keys and two rows or more, which go at once; passes the end
// of the last key by one.
template <int kRows, int kFirst, int kSums>
HWY_INLINE void StoreScoresOfThree(const QkArgs& work, const QkTile& tile,
                                   int64_t j, const Vector (&sums)[3][kSums]) {
  const Vector none = hn::Zero(kF);
  const auto of_key = [&](const Vector(&of)[kSums]) HWY_ATTR {
    return SumsInBlocks(of[kFirst], of[kFirst + 1],
                        kRows > 2 ? of[kFirst + 2 % kRows] : none,
                        kRows > 3 ? of[kFirst + 3 % kRows] : none);
  };
  const Vector dots =
      SumsOfBlocks(of_key(sums[0]), of_key(sums[1]), of_key(sums[2]));
  const Vector offset{_mm512_broadcast_f32x4(_mm_loadu_ps(tile.offset))};
  hn::StoreU(hn::Mul(hn::Add(dots, offset), hn::Set(kF, work.factor)), kF,
             tile.scores + j * 4);
}
#endif

// Of all micro-tiles.
template <class Elements, int kTiles, int kKeys, int kRows>
HWY_INLINE void StoreScoresOf(const QkArgs& work,
                              const ScoredTiles<kTiles>& tiles, int64_t j,
                              const Vector (&sums)[kKeys][kRows]) {
#if FLASHACL_HAS_SHARED_CONVERSIONS
  if constexpr (kTiles == 2 && kKeys == 3) {
    StoreScoresOfThree<4, 0>(work, tiles.of[0], j, sums);
    if constexpr (kRows > 5) {
      return StoreScoresOfThree<kRows - 4, 4>(work, tiles.of[1], j, sums);
    } else {
      return StoreScores<Elements, 1, 4>(work, tiles.of[1], j, sums);
    }
  }
#endif
  StoreScores<Elements, std::min(kRows, 4)>(work, tiles.of[0], j, sums);
  if constexpr (kTiles == 2) {
    StoreScores<Elements, kRows - 4, 4>(work, tiles.of[1], j, sums);
  }
}

// Whether the lanes of some keys are summed after the products of the next
// ones. AVX2 has too few registers, and ARM would have too few sums under way;
// two micro-tiles leave none.
template <int kTiles>
inline constexpr bool kSumsLanesLater = kTiles == 1 &&
                                        (HWY_TARGET == HWY_AVX3 &&
                                         HWY_ARCH_X86_64);

// Keys that are computed at a time, for as many sums as there are registers
// besides keys and a query, and besides sums whose lanes are left. Six keys of
// four rows take 31 of 32 registers: where keys are converted, or meet a query
// twice, GCC then keeps sums in memory.
template <class Elements, int kTiles>
constexpr int KeysOf(int rows) {
  constexpr bool kConverts =
      Elements::kVectorBytes < 4 * Lanes() || Elements::kProducts > 1;
  if (kTiles == 2) return 3;
  if (kSumsLanesLater<kTiles>) return rows == 4 ? 3 : rows == 1 ? 8 : 4;
  if (kVectorRegisters == 32) {
    if (rows == 4) return kConverts ? 4 : 6;
    return rows == 3 ? 6 : 8;
  }
  return rows == 4 ? 3 : rows == 1 ? 8 : 4;
}

// Scores of the keys `which`, kKeys at a time; returns the first key that is
// left.
template <class Elements, int kKeys, int kRows, Prefetches kHow, Rows kMadeOf,
          int kTiles>
HWY_INLINE int64_t DotSome(const QkArgs& work, const ScoredTiles<kTiles>& tiles,
                           Range which, LinePrefetcher& prefetch,
                           PrefetchTurns& turns) {
  constexpr bool kLater = kSumsLanesLater<kTiles>;
  int64_t j = which.first;
  if (j + kKeys > which.last) return j;
  Vector done[kKeys][kRows];
  DotKeys<Elements, kHow, kMadeOf>(work, tiles, prefetch, turns, j, done);
  for (; j + 2 * kKeys <= which.last; j += kKeys) {
    if (!kLater) StoreScoresOf<Elements>(work, tiles, j, done);
    Vector next[kKeys][kRows];
    DotKeys<Elements, kHow, kMadeOf>(work, tiles, prefetch, turns, j + kKeys,
                                     next);
    if (kLater) StoreScoresOf<Elements>(work, tiles, j, done);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) done[k][r] = next[k][r];
    }
  }
  StoreScoresOf<Elements>(work, tiles, j, done);
  return j + kKeys;
}

// Scores of the keys `which` for some micro-tiles of so many rows.
template <class Elements, int kRows, Prefetches kHow, Rows kMadeOf, int kTiles>
HWY_INLINE void DotRange(const QkArgs& work, const ScoredTiles<kTiles>& tiles,
                         Range which, LinePrefetcher& prefetch,
                         PrefetchTurns turns) {
  constexpr int kKeys = KeysOf<Elements, kTiles>(kRows);
  int64_t j = DotSome<Elements, kKeys, kRows, kHow, kMadeOf>(work, tiles, which,
                                                             prefetch, turns);
  j = DotSome<Elements, 2, kRows, kHow, kMadeOf>(work, tiles, {j, which.last},
                                                 prefetch, turns);
  DotSome<Elements, 1, kRows, kHow, kMadeOf>(work, tiles, {j, which.last},
                                             prefetch, turns);
}

// The same for a micro-tile that is not its head's first, or for two of them.
template <class Elements, int kRows, Prefetches kHow, Rows kMadeOf,
          int kTiles = 1>
HWY_NOINLINE void DotAgain(const QkArgs& given, const QkTile* given_tiles,
                           Range which, PrefetchTurns turns) {
  const QkArgs work = given;
  ScoredTiles<kTiles> tiles;
  HWY_UNROLL_ALL
  for (int t = 0; t < kTiles; ++t) tiles.of[t] = given_tiles[t];
  LinePrefetcher prefetch = *given.prefetch;
  DotRange<Elements, kRows, kHow, kMadeOf>(work, tiles, which, prefetch, turns);
  *given.prefetch = prefetch;
}

using DotTile = void (*)(const QkArgs&, const QkTile*, Range, PrefetchTurns);

// By the number of rows less one.
template <class Elements, Prefetches kHow, Rows kMadeOf>
inline constexpr DotTile kDotOne[] = {
    DotAgain<Elements, 1, kHow, kMadeOf>, DotAgain<Elements, 2, kHow, kMadeOf>,
    DotAgain<Elements, 3, kHow, kMadeOf>, DotAgain<Elements, 4, kHow, kMadeOf>};

// Of two, by the number of rows of the second less one.
template <class Elements, Prefetches kHow, Rows kMadeOf>
inline constexpr DotTile kDotTwo[] = {DotAgain<Elements, 5, kHow, kMadeOf, 2>,
                                      DotAgain<Elements, 6, kHow, kMadeOf, 2>,
                                      DotAgain<Elements, 7, kHow, kMadeOf, 2>,
                                      DotAgain<Elements, 8, kHow, kMadeOf, 2>};

// Heads whose first micro-tile has so many rows. Those of a head prefetch about
// as many lines as the first reads; the others find its keys in a cache. A
// function of its own, or GCC keeps sums in memory.
template <class Elements, int kRows, Prefetches kHow, Rows kMadeOf>
HWY_NOINLINE void DotAllKeys(const QkArgs& given) {
  if constexpr (Elements::kInTwos) {
    if (given.all.of_head > 1) {
      return ForTwos(given, kDotOne<Elements, kHow, kMadeOf>,
                     kDotTwo<Elements, kHow, kMadeOf>);
    }
  }
  // Copies, which nothing that is stored can change.
  const QkArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const QkTile* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head) {
      const ScoredTiles<1> first{{*tiles++}};
      DotRange<Elements, kRows, kHow, kMadeOf>(
          work, first, which, prefetch, TurnsOf(work.all, work.all.of_head, 0));
      if (work.all.of_head == 1) continue;
      *given.prefetch = prefetch;
      for (int64_t n = 1; n < work.all.of_head; ++n, ++tiles) {
        kDotOne<Elements, kHow, kMadeOf>[tiles->rows - 1](
            given, tiles, which, TurnsOf(work.all, work.all.of_head, n));
      }
      prefetch = *given.prefetch;
    }
  }
  *given.prefetch = prefetch;
}

template <class Elements, int kRows>
HWY_NOINLINE void DotAll(const QkArgs& work) {
  constexpr int64_t kChannels = kVectorsOfLine<Elements> * Elements::kChannels;
  if (Elements::kHasPieces && work.piece_step != 0) {
    DotAllKeys<Elements, kRows, Prefetches::kAny,
               Elements::kHasPieces ? Rows::kPieces : Rows::kAny>(work);
  } else if (work.key_channels == 0 || work.key_channels % kChannels != 0 ||
             work.ropes != nullptr) {
    DotAllKeys<Elements, kRows, Prefetches::kAny, Rows::kAny>(work);
  } else {
    WithPrefetches<Elements::kBody>(*work.prefetch, [&](auto how) HWY_ATTR {
      DotAllKeys<Elements, kRows, how(), Rows::kLines>(work);
    });
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_SCORES_INL_H_
