// SPDX-License-Identifier: Apache-2.0
// Words of four bits in the products for few rows.
//
// Channels lie in lanes, in an order that costs the fewest instructions. Where
// a vector has as many lanes as two words have numbers, and as a table of all
// their values, one load broadcasts both words, so that lanes have them by
// turns; one shift brings every lane's number to its lowest bits, and one
// lookup makes it a float. Lane i then has number i / 2 of word i % 2: queries
// are packed and outputs read in that order ("by turns"). Elsewhere lanes have
// channels in their order.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/number.h"

#if defined(FLASHACL_CPU_DECODE_FOUR_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_FOUR_BITS_INL_H_
#undef FLASHACL_CPU_DECODE_FOUR_BITS_INL_H_
#else
#define FLASHACL_CPU_DECODE_FOUR_BITS_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

#undef FLASHACL_LOOKS_UP_FOUR_BITS
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define FLASHACL_LOOKS_UP_FOUR_BITS 1
#else
#define FLASHACL_LOOKS_UP_FOUR_BITS 0
#endif

// Whether the lanes of keys and values of the type have channels by turns.
constexpr bool TakesTurns(DType dtype) {
  return FLASHACL_LOOKS_UP_FOUR_BITS && dtype == DType::kI4x8;
}

#if FLASHACL_LOOKS_UP_FOUR_BITS
HWY_ALIGN inline constexpr uint32_t kTurnShifts[16] = {
    0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28};
HWY_ALIGN inline constexpr float kFourBitValues[16] = {
    0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
#endif

// A vector of channels, in the order of lanes.
HWY_INLINE Vector FourBitLanes(const std::byte* from) {
#if FLASHACL_LOOKS_UP_FOUR_BITS
  using U = hn::RebindToUnsigned<Floats>;
  const hn::Repartition<uint64_t, Floats> pairs;
  const auto words =
      hn::BitCast(U(), hn::Set(pairs, flashacl::Load<uint64_t>(from)));
  const auto shifted = hn::Shr(words, hn::Load(U(), kTurnShifts));
  // The lookup takes no notice of higher bits.
  return hn::TableLookupLanes(hn::Load(kF, kFourBitValues),
                              hn::Indices512<float>{shifted.raw});
#else
  return FloatsFromFourBits(from);
#endif
}

// Whole vectors of channels, from their order to that of lanes and back.
inline void ToTurns(int64_t count, float* row) {
  for (int64_t d = 0; d < count; d += 16) {
    float turns[16];
    for (int64_t i = 0; i < 16; ++i) turns[i] = row[d + i % 2 * 8 + i / 2];
    std::copy_n(turns, 16, row + d);
  }
}

inline void FromTurns(int64_t count, float* row) {
  for (int64_t d = 0; d < count; d += 16) {
    float channels[16];
    for (int64_t i = 0; i < 16; ++i) channels[i % 2 * 8 + i / 2] = row[d + i];
    std::copy_n(channels, 16, row + d);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_FOUR_BITS_INL_H_
