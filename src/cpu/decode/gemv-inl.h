// SPDX-License-Identifier: Apache-2.0
// Both products for few rows: channels in lanes, elements converted in
// registers. A micro-tile is up to four packed rows, which share every element
// that is converted. Its queries and outputs lie as [vector of channels, row,
// lane]; its scores as [key, row] with four rows to a key, or with one where
// there is one row in all.
//
// Scores: some keys are outer, their channels inner; the lanes of a sum are
// combined after the last channel. Outputs: some vectors of channels are outer,
// keys inner, and nothing is combined. Keys and values are not packed. A call
// is for the micro-tiles of one head or several; the first of each head
// prefetches about as many lines as it reads, or with scores a quarter less,
// which the softmax prefetches.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_GEMV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// sums[k][r] += rows[k] . query[r] over one vector of channels, `from` bytes
// after where the rows begin.
template <class Elements, int kKeys, int kRows, bool kPieces = false>
HWY_INLINE void AddDotsOfVector(const std::byte* const (&rows)[kKeys],
                                int64_t from, const float* HWY_RESTRICT query,
                                Vector (&sums)[kKeys][kRows],
                                int64_t piece_step = 0) {
  const auto load = [&](int k) HWY_ATTR {
    if constexpr (kPieces) {
      return LoadPieces<Elements>(rows[k] + from, piece_step);
    } else {
      return Elements::Load(rows[k] + from);
    }
  };
  if constexpr (kRows == 1) {
    const Vector q = hn::Load(kF, query);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      sums[k][0] = Elements::AddDot(load(k), q, sums[k][0]);
    }
    return;
  }
  Vector key[kKeys];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) key[k] = load(k);
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector q = hn::Load(kF, query + r * Lanes());
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

// The same over rows of so many bytes; returns where the query's next are.
// Prefetches as many lines as it reads, if at all, but those that are left, of
// a call before which so many bytes of a row at a time were read, or
// kLeavesNone.
template <class Elements, int kKeys, int kRows, Prefetches kHow, Rows kMadeOf>
HWY_INLINE const float* AddDots(const std::byte* const (&rows)[kKeys],
                                LinePrefetcher& prefetch, int64_t bytes,
                                const float* HWY_RESTRICT query,
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
      if (!kMayLeave || (read_before + at) % kLeftEvery != 0) {
        PrefetchShare<kHow, kKeys, kOfLine>(v, taken, prefetch);
      }
      AddDotsOfVector<Elements, kKeys, kRows>(
          rows, at + v * kVectorBytes, query + v * kRows * Lanes(), sums);
    }
    query += kOfLine * kRows * Lanes();
    at += kBytes;
    if (kPlain && at >= bytes) return query;
  }
  if (HWY_LIKELY(at == bytes)) return query;
  PrefetchShare<kHow, kKeys, 1>(0, taken, prefetch);
  for (; at < bytes; at += kVectorBytes) {
    AddDotsOfVector<Elements, kKeys, kRows>(rows, at, query, sums);
    query += kRows * Lanes();
  }
  return query;
}

// The same over rows of pieces, two at a time, from the first of each on to the
// last of the keys' channels.
template <class Elements, int kKeys, int kRows>
HWY_INLINE void AddDotsOfPieces(const std::byte* const (&rows)[kKeys],
                                const QkArgs& work,
                                const float* HWY_RESTRICT query,
                                LinePrefetcher& prefetch,
                                Vector (&sums)[kKeys][kRows]) {
  constexpr int kOfLine = kVectorsOfLine<Elements>;
  const int64_t last =
      BytesOf<Elements>(work.key_channels) / kPieceBytes * work.piece_step;
  const std::byte* taken = nullptr;
  for (int64_t at = 0; at < last; at += 2 * work.piece_step) {
    HWY_UNROLL_ALL
    for (int v = 0; v < kOfLine; ++v) {
      PrefetchShare<Prefetches::kAny, kKeys, kOfLine>(v, taken, prefetch);
      AddDotsOfVector<Elements, kKeys, kRows, true>(
          rows, at + OffsetOf<Elements>(v, work.piece_step), query, sums,
          work.piece_step);
      query += kRows * Lanes();
    }
  }
}

// Scores of kKeys keys from number `j` on; one row's go four keys at a time.
template <class Elements, int kKeys, int kRows, Prefetches kHow, Rows kMadeOf>
HWY_INLINE void DotKeys(const QkArgs& work, const QkTile& tile,
                        LinePrefetcher& prefetch, int64_t j) {
  Vector sums[kKeys][kRows];
  const std::byte* rows[kKeys];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) {
    rows[k] = work.keys[j + k] + tile.key_shift;
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) sums[k][r] = hn::Zero(kF);
  }
  if constexpr (kMadeOf == Rows::kPieces) {
    AddDotsOfPieces<Elements, kKeys, kRows>(rows, work, tile.query, prefetch,
                                            sums);
  } else {
    const int64_t bytes = BytesOf<Elements>(work.key_channels);
    const float* const rest = AddDots<Elements, kKeys, kRows, kHow, kMadeOf>(
        rows, prefetch, bytes, tile.query, sums,
        work.leaves_lines ? j / kKeys * bytes : kLeavesNone);
    if (kMadeOf == Rows::kAny && work.ropes != nullptr) {
      HWY_UNROLL_ALL
      for (int k = 0; k < kKeys; ++k) {
        rows[k] = work.ropes[j + k] + tile.rope_shift;
      }
      AddDots<Elements, kKeys, kRows, Prefetches::kNone, Rows::kAny>(
          rows, prefetch, BytesOf<Elements>(work.rope_channels), rest, sums);
    }
  }
  const QuadVector factor = hn::Set(kQ, work.factor);
  const Vector none = hn::Zero(kF);
  float* HWY_RESTRICT const scores = tile.scores + j * (kRows == 1 ? 1 : 4);
  const auto finish =
      [&](const QuadVector& dots, const QuadVector& offset)
          HWY_ATTR { return hn::Mul(hn::Add(dots, offset), factor); };
  if constexpr (kRows > 1) {
    const QuadVector offset = hn::LoadU(kQ, tile.offset);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      const QuadVector dots = SumsOfLanes(
          sums[k][0], sums[k][1], kRows > 2 ? sums[k][2 % kRows] : none,
          kRows > 3 ? sums[k][3 % kRows] : none);
      hn::StoreU(finish(dots, offset), kQ, scores + k * 4);
    }
  } else {
    const QuadVector offset = hn::Set(kQ, tile.offset[0]);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; k += 4) {
      const auto at = [&](int n) HWY_ATTR {
        return k + n < kKeys ? sums[(k + n) % kKeys][0] : none;
      };
      const QuadVector dots = SumsOfLanes(at(0), at(1), at(2), at(3));
      // Of fewer keys it passes their end, where the next ones' go.
      hn::StoreU(finish(dots, offset), kQ, scores + k);
    }
  }
}

// Keys that are computed at a time, for as many sums as there are registers
// besides keys and a query. Six keys of four rows take 31 of 32 registers:
// where keys are converted, or meet a query twice, GCC then keeps sums in
// memory.
template <class Elements>
constexpr int KeysOf(int rows) {
  constexpr bool kConverts =
      Elements::kVectorBytes < 4 * Lanes() || Elements::kProducts > 1;
  if (kVectorRegisters == 32) {
    if (rows == 4) return kConverts ? 4 : 6;
    return rows == 3 ? 6 : 8;
  }
  return rows == 4 ? 3 : rows == 1 ? 8 : 4;
}

// Some keys of a call, `j` and those after it, all of which a head goes through
// before the next.
template <typename Tile>
HWY_INLINE Range KeysFrom(int64_t j, const TilesOf<Tile>& all, int64_t count) {
  return {j, std::min(j + all.keys_at_a_time, count)};
}

// Scores of the keys `which` for one micro-tile.
template <class Elements, int kRows, Prefetches kHow, Rows kMadeOf>
HWY_INLINE void DotRange(const QkArgs& work, const QkTile& tile, Range which,
                         LinePrefetcher& prefetch) {
  constexpr int kKeys = KeysOf<Elements>(kRows);
  int64_t j = which.first;
  for (; j + kKeys <= which.last; j += kKeys) {
    DotKeys<Elements, kKeys, kRows, kHow, kMadeOf>(work, tile, prefetch, j);
  }
  for (; j + 2 <= which.last; j += 2) {
    DotKeys<Elements, 2, kRows, kHow, kMadeOf>(work, tile, prefetch, j);
  }
  if (j < which.last) {
    DotKeys<Elements, 1, kRows, kHow, kMadeOf>(work, tile, prefetch, j);
  }
}

// The same for one that has nothing to prefetch.
template <class Elements, int kRows, Rows kMadeOf>
HWY_NOINLINE void DotAgain(const QkArgs& given, const QkTile& given_tile,
                           Range which) {
  const QkArgs work = given;
  const QkTile tile = given_tile;
  LinePrefetcher nothing;
  DotRange<Elements, kRows, Prefetches::kNone, kMadeOf>(work, tile, which,
                                                        nothing);
}

// A head's first micro-tile, which has so many rows, prefetches as many lines
// as it reads; the others find its keys in a cache.
template <class Elements, int kRows, Prefetches kHow, Rows kMadeOf>
HWY_INLINE void DotAllKeys(const QkArgs& given) {
  static constexpr void (*kAgain[])(const QkArgs&, const QkTile&, Range) = {
      DotAgain<Elements, 1, kMadeOf>, DotAgain<Elements, 2, kMadeOf>,
      DotAgain<Elements, 3, kMadeOf>, DotAgain<Elements, 4, kMadeOf>};
  // Copies, which nothing that is stored can change.
  const QkArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const QkTile* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head) {
      const QkTile first = *tiles++;
      DotRange<Elements, kRows, kHow, kMadeOf>(work, first, which, prefetch);
      for (int64_t n = 1; n < work.all.of_head; ++n, ++tiles) {
        kAgain[tiles->rows - 1](given, *tiles, which);
      }
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

// sums[v][r] += values * probs of as many keys at a time as a line has vectors,
// from `from` bytes after where each begins on; returns the first key that is
// left. Prefetches as many lines as it reads.
template <class Elements, Prefetches kHow, int kVectors, int kRows>
HWY_INLINE int64_t AddLines(const PvArgs& work, const PvTile& tile, Range which,
                            int64_t from, const int64_t (&offset)[kVectors],
                            LinePrefetcher& prefetch,
                            Vector (&sums)[kVectors][kRows]) {
  constexpr int64_t kWidth = kRows == 1 ? 1 : 4;
  constexpr int kKeys = kVectorsOfLine<Elements>;
  const std::byte* taken = nullptr;
  const std::byte* const* values = work.values + which.first;
  const float* HWY_RESTRICT probs = tile.probs + which.first * kWidth;
  int64_t j = which.first;
  for (; j + kKeys <= which.last; j += kKeys) {
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      PrefetchShare<kHow, kVectors, kKeys>(k, taken, prefetch);
      const std::byte* value = values[k] + from;
      asm("" : "+r"(value));  // or GCC keeps an offset for every vector
      AddValue<Elements>(value, offset, probs + k * kWidth, sums);
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
                           int64_t vector, LinePrefetcher& prefetch) {
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
    j = AddLines<Elements, kHow>(work, tile, which, from, offset, prefetch,
                                 sums);
  }
  for (; j < which.last; ++j) {
    AddValue<Elements>(work.values[j] + from, offset, tile.probs + j * kWidth,
                       sums);
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
// products they wait for.
constexpr int VectorsOf(int rows) {
  if (kVectorRegisters == 32) return rows > 2 ? 4 : 8;
  return rows == 1 ? 8 : rows == 2 ? 4 : 3;
}

// All channels of the values `which` for one micro-tile.
template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_INLINE void AddRange(const PvArgs& work, const PvTile& tile, Range which,
                         LinePrefetcher& prefetch) {
  constexpr int kVectors = VectorsOf(kRows);
  int64_t v = 0;
  // Four are two times two, as a single one would wait for itself.
  for (;
       v + kVectors <= work.vectors && (kVectors != 3 || v + 4 != work.vectors);
       v += kVectors) {
    AddVectors<Elements, kVectors, kRows, kHow, kPieces>(work, tile, which, v,
                                                         prefetch);
  }
  for (; v + 2 <= work.vectors; v += 2) {
    AddVectors<Elements, 2, kRows, kHow, kPieces>(work, tile, which, v,
                                                  prefetch);
  }
  if (v < work.vectors) {
    AddVectors<Elements, 1, kRows, kHow, kPieces>(work, tile, which, v,
                                                  prefetch);
  }
}

// The same for one that has nothing to prefetch.
template <class Elements, int kRows, bool kPieces>
HWY_NOINLINE void AddAgain(const PvArgs& given, const PvTile& given_tile,
                           Range which) {
  const PvArgs work = given;
  const PvTile tile = given_tile;
  LinePrefetcher nothing;
  AddRange<Elements, kRows, Prefetches::kNone, kPieces>(work, tile, which,
                                                        nothing);
}

template <class Elements, int kRows, Prefetches kHow, bool kPieces>
HWY_INLINE void AddAllValues(const PvArgs& given) {
  static constexpr void (*kAgain[])(const PvArgs&, const PvTile&, Range) = {
      AddAgain<Elements, 1, kPieces>, AddAgain<Elements, 2, kPieces>,
      AddAgain<Elements, 3, kPieces>, AddAgain<Elements, 4, kPieces>};
  const PvArgs work = given;
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const PvTile* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head) {
      const PvTile first = *tiles++;
      AddRange<Elements, kRows, kHow, kPieces>(work, first, which, prefetch);
      for (int64_t n = 1; n < work.all.of_head; ++n, ++tiles) {
        kAgain[tiles->rows - 1](given, *tiles, which);
      }
    }
  }
  *given.prefetch = prefetch;
}

template <class Elements, int kRows>
HWY_NOINLINE void AddAll(const PvArgs& work) {
  if (Elements::kHasPieces && work.piece_step != 0) {
    AddAllValues<Elements, kRows, Prefetches::kAny, Elements::kHasPieces>(work);
  } else {
    WithPrefetches<Elements::kBody>(*work.prefetch, [&](auto how) HWY_ATTR {
      AddAllValues<Elements, kRows, how(), false>(work);
    });
  }
}

// Of scores, by the number of rows less one.
template <class Elements>
constexpr DotKernels MakeDotKernels() {
  return {DotAll<Elements, 1>, DotAll<Elements, 2>, DotAll<Elements, 3>,
          DotAll<Elements, 4>};
}

// Of elements of one type; defined once for each, in a source of its own.
template <DType kType>
constexpr GemvKernels MakeGemvKernels() {
  using Elements = ElementsOf<kType>;
  return {MakeDotKernels<Elements>(),
          {AddAll<Elements, 1>, AddAll<Elements, 2>, AddAll<Elements, 3>,
           AddAll<Elements, 4>}};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_INL_H_
