// SPDX-License-Identifier: Apache-2.0
// Stores that go past the caches, line by line: one that is written whole need
// not be fetched. Who stored so calls hwy::FlushStream before others read.

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_TILE_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_STREAM_INL_H_
#undef FLASHACL_CPU_TILE_STREAM_INL_H_
#else
#define FLASHACL_CPU_TILE_STREAM_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kLineBytes = 64;

// Multiples of kUnit bytes, which is a line or half of one, to a place that is
// one, too.
template <int64_t kUnit = kLineBytes>
HWY_INLINE void StreamBytes(const std::byte* HWY_RESTRICT from, int64_t bytes,
                            std::byte* HWY_RESTRICT to) {
  const hn::CappedTag<uint8_t, kUnit> d;
  for (int64_t n = 0; n < bytes; n += static_cast<int64_t>(hn::MaxLanes(d))) {
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + n), d,
               reinterpret_cast<uint8_t*>(to) + n);
  }
}

// A line of two halves, at once where a vector is one: half a line waits for
// the other.
HWY_INLINE void StreamHalves(const std::byte* first, const std::byte* second,
                             std::byte* HWY_RESTRICT to) {
  constexpr int64_t kHalf = kLineBytes / 2;
  const hn::ScalableTag<uint8_t> d;
  if constexpr (hn::MaxLanes(d) == kLineBytes) {
    const hn::Half<decltype(d)> half;
    const auto low = hn::LoadU(half, reinterpret_cast<const uint8_t*>(first));
    const auto high = hn::LoadU(half, reinterpret_cast<const uint8_t*>(second));
    hn::Stream(hn::Combine(d, high, low), d, reinterpret_cast<uint8_t*>(to));
  } else {
    StreamBytes<kHalf>(first, kHalf, to);
    StreamBytes<kHalf>(second, kHalf, to + kHalf);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_STREAM_INL_H_
