// SPDX-License-Identifier: Apache-2.0
// The order of channels in lanes, where it is not their own because conversions
// take fewer instructions so. Queries are packed in it and outputs read.

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

#if defined(FLASHACL_CPU_DECODE_CHANNEL_ORDER_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_CHANNEL_ORDER_INL_H_
#undef FLASHACL_CPU_DECODE_CHANNEL_ORDER_INL_H_
#else
#define FLASHACL_CPU_DECODE_CHANNEL_ORDER_INL_H_
#endif

#include "cpu/decode/four_bits-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

enum class ChannelOrder : uint8_t {
  kTheirOwn,
  kTurns,  // of numbers of four bits (four_bits-inl.h)
  kParts,  // of two vectors: odd channels, then even ones (PartedPairs)
};

// The order that the kernels of a type have.
constexpr ChannelOrder OrderOf(DType dtype) {
  return TakesTurns(dtype) ? ChannelOrder::kTurns : ChannelOrder::kTheirOwn;
}

// Whole vectors of channels, of kParts two at a time, from their own order to
// that of lanes.
inline void ToLanes(ChannelOrder order, int64_t count, float* row) {
  if (order == ChannelOrder::kTurns) return ToTurns(count, row);
#if FLASHACL_HAS_SHARED_CONVERSIONS
  if (order != ChannelOrder::kParts) return;
  for (int64_t d = 0; d < count; d += 2 * Lanes()) {
    Vector even, odd;
    hn::LoadInterleaved2(kF, row + d, even, odd);
    hn::StoreU(odd, kF, row + d);
    hn::StoreU(even, kF, row + d + Lanes());
  }
#endif
}

// The way back.
inline void FromLanes(ChannelOrder order, int64_t count, float* row) {
  if (order == ChannelOrder::kTurns) return FromTurns(count, row);
#if FLASHACL_HAS_SHARED_CONVERSIONS
  if (order != ChannelOrder::kParts) return;
  for (int64_t d = 0; d < count; d += 2 * Lanes()) {
    const Vector odd = hn::LoadU(kF, row + d);
    const Vector even = hn::LoadU(kF, row + d + Lanes());
    hn::StoreInterleaved2(even, odd, kF, row + d);
  }
#endif
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_CHANNEL_ORDER_INL_H_
