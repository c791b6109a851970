// SPDX-License-Identifier: Apache-2.0
// Rows of floats to where the caller has them, whole vectors at a time.

#include <cstddef>
#include <cstdint>

#include "cpu/element_format.h"

#if defined(FLASHACL_CPU_TILE_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_STORE_INL_H_
#undef FLASHACL_CPU_TILE_STORE_INL_H_
#else
#define FLASHACL_CPU_TILE_STORE_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

template <typename T, typename Store>
HWY_INLINE int64_t StoreVectors(const float* HWY_RESTRICT from, int64_t count,
                                std::byte* to, Store store) {
  T* HWY_RESTRICT elements = reinterpret_cast<T*>(to);
  int64_t d = 0;
  for (; d + Lanes() <= count; d += Lanes()) {
    store(hn::LoadU(kF, from + d), elements + d);
  }
  return d;
}

// The elements of a row from `to` on = from[0 .. count), rounded once, to
// nearest even.
inline void StoreChannels(const ElementFormat& format,
                          const float* HWY_RESTRICT from, int64_t count,
                          std::byte* to) {
  int64_t d = 0;
  if (format.step == 1) {
    switch (format.dtype) {
      case DType::kF32:
        d = StoreVectors<float>(from, count, to,
                                [](const Vector& x, float* at)
                                    HWY_ATTR { hn::StoreU(x, kF, at); });
        break;
      case DType::kF16:
        d = StoreVectors<uint16_t>(from, count, to,
                                   [](const Vector& x, uint16_t* at)
                                       HWY_ATTR { StoreF16(kF, x, at); });
        break;
      case DType::kBf16:
        d = StoreVectors<uint16_t>(from, count, to,
                                   [](const Vector& x, uint16_t* at)
                                       HWY_ATTR { StoreBf16(kF, x, at); });
        break;
      default:
        break;
    }
  }
  const int64_t bytes = format.step * format.element_bytes;
  StoreRow(format, from + d, count - d, to + d * bytes);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_STORE_INL_H_
