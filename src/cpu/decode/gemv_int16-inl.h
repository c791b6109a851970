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
  // [key][row]: of every second key, with the next one's in the upper half.
  HWY_ALIGN int32_t pairs[kDecodeKeys + 4][4];
  HWY_ALIGN int32_t starts[4];  // of sums of values that are 128 more
  HWY_ALIGN float units[4];
  HWY_ALIGN float sums[4];      // of the probs' magnitudes
  HWY_ALIGN float greatest[4];  // of these

  // Of four rows and `count` keys; those of one more become 0 where it is odd.
  HWY_INLINE Int16Probs(float* HWY_RESTRICT probs, int64_t count) {
    constexpr int64_t kStep = std::max<int64_t>(Lanes(), 8);
    const int64_t padded = RoundUp(4 * count, kStep);
    std::fill(probs + 4 * count, probs + padded, 0.0f);
    const Vector scale = Scales(probs, padded);
    Vector sum = hn::Zero(kF);
    for (int64_t j = 0; j < padded; j += kStep) {
      const auto first = Integers(probs + j, scale);
      const auto second = NextKeys(first, probs + j, scale);
      sum = AddWords(sum, hn::BitCast(kF, first));
      if (Lanes() == 4) sum = AddWords(sum, hn::BitCast(kF, second));
      hn::Store(hn::Or(hn::And(first, hn::Set(kW, 0xFFFF)),
                       hn::ShiftLeft<16>(second)),
                kW, pairs[0] + j);
    }
    const hn::RebindToSigned<Quad> w;
    const auto words = hn::BitCast(w, CombineBlocks(kF, sum, AddWords));
    hn::Store(hn::Neg(hn::ShiftLeft<7>(words)), w, starts);
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

  // Where a key is, the next one's.
  static HWY_INLINE VectorOf<Words> NextKeys(const VectorOf<Words>& keys,
                                             const float* HWY_RESTRICT probs,
                                             const Vector& scale) {
    if constexpr (Lanes() == 4) {
      return Integers(probs + 4, scale);
    } else {
      return hn::SwapAdjacentBlocks(keys);
    }
  }

  // 1 / unit. Below 2^-100 probs keep fewer bits, as the reciprocals of such
  // numbers leave fp32.
  HWY_INLINE Vector Scales(const float* HWY_RESTRICT probs, int64_t padded) {
    constexpr float kMost = 32767;
    Vector most = hn::Set(kF, 0x1p-100f), all = hn::Zero(kF);
    for (int64_t j = 0; j < padded; j += Lanes()) {
      const Vector x = hn::Abs(hn::Load(kF, probs + j));
      most = hn::Max(most, x);
      all = hn::Add(all, x);
    }
    hn::Store(SumOfBlocks(all), kQ, sums);
    const QuadVector of_rows = CombineBlocks(
        kF, most,
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
  const int32_t* HWY_RESTRICT pair = probs.pairs[0] + kFirst;
  for (int64_t j = 0; j < at.count; j += 2) {
    if (kFirst == 0 && turns.Next()) {
      PrefetchShare<Prefetches::kAny, kLines, 1>(0, taken, prefetch);
    }
    const auto load = [&](int64_t n) HWY_ATTR {
      const std::byte* const value = at.values[n] + at.from;
      return kPieces ? LoadPieces<ByteRows>(value, at.piece_step)
                     : ByteRows::Load(value);
    };
    Vector value[4];
    // Of a last one alone the prob of the next is 0.
    InterleaveTwoKeys(load(j), load(std::min(j + 1, at.count - 1)), value);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const Vector prob = InRegister(hn::BitCast(kF, hn::Set(kW, pair[r])));
      HWY_UNROLL_ALL
      for (int v = 0; v < 4; ++v) {
        sums[r][v] = Product::Add(value[v], prob, sums[r][v]);
      }
    }
    pair += 8;
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
