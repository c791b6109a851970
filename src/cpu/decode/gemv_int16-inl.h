// SPDX-License-Identifier: Apache-2.0
// Outputs of few rows from values of 8 bits, whose probs become integers of 16
// bits, two keys at a time (int16_products-inl.h). A prob is such a number
// times what is its row's and step's: it errs by half a unit, 2^-16 of the
// greatest of these. So a call has all keys of a step, and where one key has
// nearly all of a row's probs, whose value may be 0, the micro-tile is floats.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_INT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_INT16_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_INT16_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_INT16_INL_H_
#endif

#include "cpu/decode/gemv-inl.h"
#include "cpu/decode/int16_products-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The probs of a step as integers. Of a NaN they are anything: the sum of its
// row is one, too.
struct Int16Probs {
  // Two keys make a pair that are so many apart, a vector of probs.
  static constexpr int64_t kApart = Lanes() / 4;
  static_assert(kDecodeKeys % (2 * kApart) == 0);

  // [pair][row]: the probs of its first key, with the second's in the upper
  // half.
  HWY_ALIGN int32_t pairs[kDecodeKeys / 2][4];
  HWY_ALIGN int32_t starts[4];  // of sums of values that are 128 more
  HWY_ALIGN float units[4];
  HWY_ALIGN float sums[4];      // of the probs' magnitudes
  HWY_ALIGN float greatest[4];  // of these

  // Of four rows and `count` keys; those of keys after the last become 0.
  HWY_INLINE Int16Probs(float* HWY_RESTRICT probs, int64_t count) {
    const int64_t padded = RoundUp(4 * count, 2 * Lanes());
    std::fill(probs + 4 * count, probs + padded, 0.0f);
    const Vector scale = Scales(probs, padded);
    auto sum = hn::Zero(kW);
    for (int64_t j = 0; j < padded; j += 2 * Lanes()) {
      const auto first = Integers(probs + j, scale);
      const auto second = Integers(probs + j + Lanes(), scale);
      sum = hn::Add(sum, hn::Add(first, second));
      hn::Store(hn::Or(hn::And(first, hn::Set(kW, 0xFFFF)),
                       hn::ShiftLeft<16>(second)),
                kW, pairs[0] + j / 2);
    }
    const hn::RebindToSigned<Quad> w;
    const auto words =
        hn::BitCast(w, CombineBlocks(kF, hn::BitCast(kF, sum), AddWords));
    hn::Store(hn::Neg(hn::ShiftLeft<7>(words)), w, starts);
  }

  // How many pairs have a key, and the keys of one: for a second that there is
  // not, whose probs are 0, the last.
  static constexpr int64_t PairsOf(int64_t count) {
    return count / (2 * kApart) * kApart +
           std::min(count % (2 * kApart), kApart);
  }
  static constexpr int64_t FirstOf(int64_t pair) {
    return pair / kApart * kApart + pair;
  }
  static constexpr int64_t SecondOf(int64_t pair, int64_t count) {
    return std::min(FirstOf(pair) + kApart, count - 1);
  }

  // Whether the probs of each row, but for the greatest, are an eighth of it or
  // more, so that half a unit of each is little beside them.
  HWY_INLINE bool AreForInt16(int rows) const {
    for (int r = 0; r < rows; ++r) {
      if (sums[r] > 0 && sums[r] < 1.125f * greatest[r]) return false;
    }
    return true;
  }

 private:
  static HWY_INLINE VectorOf<Words> Integers(const float* HWY_RESTRICT probs,
                                             const Vector& scale) {
    return hn::NearestInt(hn::Mul(hn::Load(kF, probs), scale));
  }

  // 1 / unit. Below 2^-100 probs keep fewer bits, as the reciprocals of such
  // numbers leave fp32.
  HWY_INLINE Vector Scales(const float* HWY_RESTRICT probs, int64_t padded) {
    constexpr float kMost = 32767;
    // Of every second vector, or each would wait for the one before.
    Vector most[2], all[2];
    most[0] = most[1] = hn::Set(kF, 0x1p-100f);
    all[0] = all[1] = hn::Zero(kF);
    for (int64_t j = 0; j < padded; j += 2 * Lanes()) {
      HWY_UNROLL_ALL
      for (int n = 0; n < 2; ++n) {
        const Vector x = hn::Abs(hn::Load(kF, probs + j + n * Lanes()));
        most[n] = hn::Max(most[n], x);
        all[n] = hn::Add(all[n], x);
      }
    }
    hn::Store(SumOfBlocks(hn::Add(all[0], all[1])), kQ, sums);
    const QuadVector of_rows = CombineBlocks(
        kF, hn::Max(most[0], most[1]),
        [](const auto& a, const auto& b) HWY_ATTR { return hn::Max(a, b); });
    hn::Store(of_rows, kQ, greatest);
    hn::Store(hn::Mul(of_rows, hn::Set(kQ, 1 / kMost)), kQ, units);
    HWY_ALIGN float scales[4];
    hn::Store(hn::Div(hn::Set(kQ, kMost), of_rows), kQ, scales);
    return hn::LoadDup128(kF, scales);
  }
};

// Where a vector of bytes of values is, and where their outputs go.
struct Int16Channels {
  const std::byte* const* values;
  int64_t count;
  int64_t from;        // bytes after where each begins
  int64_t piece_step;  // as of PvArgs
  float* out;
};

// out += probs * values of kRows of kOf rows, from row kFirst on. A function of
// its own, or GCC keeps sums in memory.
template <class Product, int kFirst, int kRows, int kOf, bool kPieces>
HWY_NOINLINE void AddInt16Channels(const Int16Channels& given,
                                   const Int16Probs& probs,
                                   LinePrefetcher& given_prefetch,
                                   PrefetchTurns& given_turns) {
  const Int16Channels at = given;
  LinePrefetcher prefetch = given_prefetch;
  PrefetchTurns turns = given_turns;
  constexpr int kLines =
      std::max<int>(2 * ByteRows::kVectorBytes / kLineBytes, 1);
  Vector sums[kRows][4];
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL_ALL
    for (int v = 0; v < 4; ++v) {
      sums[r][v] = hn::BitCast(kF, hn::Set(kW, probs.starts[kFirst + r]));
    }
  }
  const std::byte* taken = nullptr;
  const int64_t pairs = Int16Probs::PairsOf(at.count);
  for (int64_t n = 0; n < pairs; ++n) {
    if (kFirst == 0 && turns.Next()) {
      PrefetchShare<Prefetches::kAny, kLines, 1>(0, taken, prefetch);
    }
    const auto load = [&](int64_t key) HWY_ATTR {
      const std::byte* const value = at.values[key] + at.from;
      return kPieces ? LoadPieces<ByteRows>(value, at.piece_step)
                     : ByteRows::Load(value);
    };
    Vector value[4];
    InterleaveTwoKeys(load(Int16Probs::FirstOf(n)),
                      load(Int16Probs::SecondOf(n, at.count)), value);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const Vector prob =
          InRegister(hn::BitCast(kF, hn::Set(kW, probs.pairs[n][kFirst + r])));
      HWY_UNROLL_ALL
      for (int v = 0; v < 4; ++v) {
        sums[r][v] = Product::Add(value[v], prob, sums[r][v]);
      }
    }
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    Vector sum[4];
    HWY_UNROLL_ALL
    for (int v = 0; v < 4; ++v) {
      sum[v] = hn::ConvertTo(kF, hn::BitCast(kW, sums[r][v]));
    }
    OrderChannels(sum);
    const Vector unit = hn::Set(kF, probs.units[kFirst + r]);
    HWY_UNROLL_ALL
    for (int v = 0; v < 4; ++v) {
      float* const to = at.out + (v * kOf + kFirst + r) * Lanes();
      hn::Store(hn::MulAdd(sum[v], unit, hn::Load(kF, to)), kF, to);
    }
  }
  given_prefetch = prefetch;
  given_turns = turns;
}

// All channels for one micro-tile, with as many rows at a time as registers
// have sums of.
template <class Product, int kRows, bool kPieces>
HWY_NOINLINE void AddInt16Tile(const PvArgs& work, const PvTile& tile,
                               PrefetchTurns turns) {
  HWY_ALIGN float four[kRows == 1 ? 4 * kDecodeKeys + 2 * Lanes() : 1];
  if constexpr (kRows == 1) SpreadProbs(tile.probs, work.count, four);
  const Int16Probs probs(kRows == 1 ? four : tile.probs, work.count);
  if (!probs.AreForInt16(kRows)) {
    PvArgs as_floats = work;
    as_floats.all = {&tile, 1, 1, work.count};
    return kGemvI8.add[kRows - 1](as_floats);
  }
  constexpr int kAtOnce = kVectorRegisters == 32 ? kRows : std::min(kRows, 2);
  for (int64_t v = 0; v < work.vectors; v += 4) {
    using Bytes = ElementsOf<DType::kI8>;
    const Int16Channels at{
        work.values, work.count,
        tile.shift + OffsetOf<Bytes, kPieces>(v, work.piece_step),
        work.piece_step, tile.out + v * kRows * Lanes()};
    AddInt16Channels<Product, 0, kAtOnce, kRows, kPieces>(
        at, probs, *work.prefetch, turns);
    if constexpr (kAtOnce < kRows) {
      AddInt16Channels<Product, kAtOnce, kRows - kAtOnce, kRows, kPieces>(
          at, probs, *work.prefetch, turns);
    }
  }
}

// All micro-tiles of a call, which go through its keys one after the other.
template <class Product, bool kPieces>
HWY_INLINE void AddInt16Tiles(const PvArgs& work) {
  static constexpr void (*kTile[])(const PvArgs&, const PvTile&,
                                   PrefetchTurns) = {
      AddInt16Tile<Product, 1, kPieces>, AddInt16Tile<Product, 2, kPieces>,
      AddInt16Tile<Product, 3, kPieces>, AddInt16Tile<Product, 4, kPieces>};
  const PvTile* tile = work.all.tiles;
  for (int64_t head = 0; head < work.all.heads; ++head) {
    for (int64_t n = 0; n < work.all.of_head; ++n, ++tile) {
      kTile[tile->rows - 1](work, *tile,
                            TurnsOf(work.all, work.all.of_head, n));
    }
  }
}

template <class Product>
HWY_NOINLINE void AddInt16(const PvArgs& work) {
  work.piece_step != 0 ? AddInt16Tiles<Product, true>(work)
                       : AddInt16Tiles<Product, false>(work);
}

template <class Product>
constexpr GemvKernels MakeInt16Kernels() {
  constexpr auto kAdd = AddInt16<Product>;
  return {MakeDotKernels<Int16KeysOf<Product>>(), {kAdd, kAdd, kAdd, kAdd}};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_INT16_INL_H_
