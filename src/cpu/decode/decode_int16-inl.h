// SPDX-License-Identifier: Apache-2.0
// Tiles of few rows whose keys have 8 bits and which may compute in integers of
// 16 bits (int16_dots.h): whether they do, and how queries become such. A
// number of a query, key scales included, is an integer times what is its
// row's: it errs by half a unit, 2^-16 of the greatest of its row.
//
// As with bytes the problem and a tile's queries decide, not threads, pages or
// bundles.

#include <algorithm>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_DECODE_INT16_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_INT16_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_INT16_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_INT16_INL_H_
#endif

#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/int16_products-inl.h"
#include "cpu/decode/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The queries of a micro-tile as integers, in the scratch memory of its digits,
// which take as many words for every four channels as these for eight.
struct Int16Query {
  float* units;     // [row], four of them
  int32_t* starts;  // [row], the same: of sums in twos
  // [vector of 2 * Lanes() channels, row, lane]; in twos the even channels of a
  // vector are first.
  float* words;

  HWY_INLINE Int16Query(const DecodeTile& decode, int64_t n) {
    int32_t* const at =
        decode.scratch.query_digits + n * ByteQueryWords(decode.channels);
    units = reinterpret_cast<float*>(at);
    starts = at + 4;
    words = reinterpret_cast<float*>(at + 16);
  }
};

static_assert(ByteQueryWords(64) >= 16 + 2 * 64);

// The greatest magnitude of a row, and their sum: this is infinite or NaN where
// a number is, the former may miss a NaN.
struct Magnitudes {
  float greatest, sum;

  // `row` has every vector, those of the micro-tile's other rows in between.
  HWY_INLINE Magnitudes(const float* HWY_RESTRICT row, int64_t channels,
                        int rows) {
    Vector most = hn::Zero(kF), all = hn::Zero(kF);
    for (int64_t d = 0; d < channels; d += Lanes()) {
      const Vector x = hn::Abs(hn::Load(kF, row + d * rows));
      most = hn::Max(most, x);
      all = hn::Add(all, x);
    }
    greatest = hn::GetLane(hn::MaxOfLanes(kF, most));
    sum = hn::GetLane(hn::SumOfLanes(kF, all));
  }

  // Whether integers lose no more than scores of fp16 would, whatever the keys:
  // half a unit of every channel, 2^-16 of the greatest, beside 2^-11 of what
  // the greatest keys make of all. Also whether units and products of them stay
  // within fp32. False where the sum is NaN.
  HWY_INLINE bool AreForInt16(int64_t channels) const {
    if (sum == 0) return true;
    return greatest >= 0x1p-90f && greatest <= 0x1p90f &&
           greatest * static_cast<float>(channels) <= 32 * sum;
  }
};

#if FLASHACL_HAS_INT16_TWOS
// Row `r` as it is in twos, and where its sums start.
inline void OrderInTwos(const Int16Query& query, int64_t channels, int rows,
                        int r) {
  const hn::Repartition<int16_t, Floats> h;
  const hn::Half<decltype(h)> half;
  auto sum = hn::Zero(kW);
  for (int64_t v = 0; v < channels / (2 * Lanes()); ++v) {
    float* const at = query.words + (v * rows + r) * Lanes();
    const auto words = hn::BitCast(kW, hn::Load(kF, at));
    const auto even = hn::ShiftRight<16>(hn::ShiftLeft<16>(words));
    sum = hn::Add(sum, even);
    const auto of_half = [&](const auto& x)
                             HWY_ATTR { return hn::DemoteTo(half, x); };
    hn::Store(hn::Combine(h, of_half(hn::ShiftRight<16>(words)), of_half(even)),
              h, reinterpret_cast<int16_t*>(at));
  }
  query.starts[r] = -128 * hn::GetLane(hn::SumOfLanes(kW, sum));
}
#endif

// Stores row `r` of a micro-tile, of which `row` is as above.
inline void StoreInt16Row(const Int16Query& query, const float* row,
                          float greatest, int64_t channels, int rows, int r) {
  constexpr float kMost = 32767;
  const hn::Rebind<int16_t, Floats> half;
  const float least = std::max(greatest, 0x1p-90f);
  query.units[r] = least * (1 / kMost);
  const Vector scale = hn::Set(kF, kMost / least);
  auto* const words = reinterpret_cast<int16_t*>(query.words + r * Lanes());
  for (int64_t d = 0; d < channels; d += Lanes()) {
    const auto integers =
        hn::NearestInt(hn::Mul(hn::Load(kF, row + d * rows), scale));
    const int64_t vector = d / (2 * Lanes()) * (2 * Lanes());
    hn::StoreU(hn::DemoteTo(half, integers), half,
               words + vector * rows + d % (2 * Lanes()));
  }
}

// Of fewer rows scores in twos took as long from memory, and of one 1.04 times
// as long (docs/notes/0075).
inline constexpr int64_t kMinRowsInTwos = 4;

// Whether outputs of so many rows gain, too. AVX2 has a multiply-add of floats,
// where one of integers is two instructions, and no registers to spare
// (docs/notes/0065).
HWY_INLINE bool GainsByInt16Outputs(int64_t rows) {
  return Lanes() != 8 || rows <= 2;
}

inline bool MayTakeInt16(const RowSource& source, const Reading& reading,
                         int64_t channels) {
  return source.format.dtype == DType::kI8 && !reading.staged &&
         channels % ByteLanes() == 0;
}

// Makes integers of queries that are there as floats, if all can be, and says
// whether scores, and then outputs, are of such.
inline void LoadInt16Queries(DecodeTile& decode, Int16Dots dots) {
  const ForwardTile& tile = *decode.tile;
  const int64_t channels = decode.channels;
  if (dots == Int16Dots::kNone || tile.params->rope_dim != 0 ||
      channels > kMostInt16Channels ||
      !MayTakeInt16(tile.keys.key, decode.keys, tile.keys.key.channels)) {
    return;
  }
  const bool in_twos = FLASHACL_HAS_INT16_TWOS && dots == Int16Dots::kInTwos &&
                       tile.rows >= kMinRowsInTwos;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    const MicroTile micro_tile = decode.At(n);
    const Int16Query query(decode, n);
    std::fill_n(query.units, 4, 0.0f);  // also of rows that do not exist
    std::fill_n(query.starts, 4, 0);
    for (int r = 0; r < micro_tile.rows; ++r) {
      const float* const row = micro_tile.query + r * Lanes();
      const Magnitudes magnitudes(row, channels, micro_tile.rows);
      if (!magnitudes.AreForInt16(channels)) return;
      StoreInt16Row(query, row, magnitudes.greatest, channels, micro_tile.rows,
                    r);
#if FLASHACL_HAS_INT16_TWOS
      if (in_twos) OrderInTwos(query, channels, micro_tile.rows, r);
#endif
    }
  }
  const GemvKernels& kernels = in_twos ? kGemvInt16InTwos
                               : dots == Int16Dots::kMultiplyAdds
                                   ? kGemvInt16
                                   : kGemvInt16AtOnce;
  decode.int16 = true;
  decode.keys.dot = &kernels.dot;
  decode.int16_values =
      GainsByInt16Outputs(tile.rows) &&
      MayTakeInt16(tile.keys.values(), decode.values, tile.params->v_dim);
  if (decode.int16_values) decode.values.kernels = &kernels;
}

// Whether a step's outputs are of integers, whose values' scales by row are
// `factors`, or null.
inline bool AddsInt16(const DecodeTile& decode, const StepFactors* factors) {
  return decode.int16_values && decode.row_sums == nullptr &&
         (factors == nullptr || factors->AreWithin(-0x1p99f, 0x1p99f));
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_INT16_INL_H_
