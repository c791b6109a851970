// SPDX-License-Identifier: Apache-2.0
// Twice as many elements of a dense row as a vector has floats: two vectors of
// floats, and elements again, rounded as store-inl.h does.
//
// Elements of 16 bits fill a vector on either side. Floats of bf16 are those of
// even elements, then of odd ones, which takes shifts and masks where order
// would take shuffles: what is computed lane by lane is the same in any order.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

#if defined(FLASHACL_CPU_TILE_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_PAIR_INL_H_
#undef FLASHACL_CPU_TILE_PAIR_INL_H_
#else
#define FLASHACL_CPU_TILE_PAIR_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using Halves = hn::Repartition<uint16_t, Floats>;
inline constexpr Halves kH;

struct Pair {
  Vector first, second;
};

// Elements of a dense row from number `n` on.
template <DType kType>
HWY_INLINE Pair LoadPair(const std::byte* row, int64_t n) {
  if constexpr (kType != DType::kBf16) {
    return {FloatsAt<kType>(kF, row, n), FloatsAt<kType>(kF, row, n + Lanes())};
  } else {
    const hn::RebindToUnsigned<Floats> u;
    const auto both = hn::BitCast(
        u, hn::LoadU(kH, reinterpret_cast<const uint16_t*>(row) + n));
    return {hn::BitCast(kF, hn::ShiftLeft<16>(both)),
            hn::BitCast(kF, hn::And(both, hn::Set(u, 0xFFFF0000u)))};
  }
}

// As elements of 16 bits.
template <DType kType>
HWY_INLINE VectorOf<Halves> Pack(const Pair& pair) {
  if constexpr (kType == DType::kBf16) {
    const hn::RebindToUnsigned<Floats> u;
    const auto even = hn::ShiftRight<16>(Bf16Bits(kF, pair.first));
    const auto odd =
        hn::And(Bf16Bits(kF, pair.second), hn::Set(u, 0xFFFF0000u));
    return hn::BitCast(kH, hn::Or(even, odd));
  } else {
    static_assert(kType == DType::kF16);
#if FLASHACL_HAS_F16
    const hn::Rebind<hwy::float16_t, Floats> halves;
    const hn::Half<Halves> bits;
    return hn::Combine(kH, hn::BitCast(bits, hn::DemoteTo(halves, pair.second)),
                       hn::BitCast(bits, hn::DemoteTo(halves, pair.first)));
#else
    HWY_ALIGN uint16_t lanes[LanesOf(kH)];
    StoreF16(kF, pair.first, lanes);
    StoreF16(kF, pair.second, lanes + Lanes());
    return hn::Load(kH, lanes);
#endif
  }
}

// Past the caches, if it streams, to a multiple of the bytes of a vector.
template <bool kStreams, class D>
HWY_INLINE void StoreVector(D d, const VectorOf<D>& value, hn::TFromD<D>* to) {
  if constexpr (kStreams) {
    hn::Stream(value, d, to);
  } else {
    hn::StoreU(value, d, to);
  }
}

// Elements of a dense row from number `n` on.
template <DType kType, bool kStreams>
HWY_INLINE void StorePair(const Pair& pair, std::byte* row, int64_t n) {
  if constexpr (kType == DType::kF32) {
    float* const to = reinterpret_cast<float*>(row) + n;
    StoreVector<kStreams>(kF, pair.first, to);
    StoreVector<kStreams>(kF, pair.second, to + Lanes());
  } else {
    StoreVector<kStreams>(kH, Pack<kType>(pair),
                          reinterpret_cast<uint16_t*>(row) + n);
  }
}

// The same of floats in the order of their elements, also of bf16.
template <DType kType, bool kStreams>
HWY_INLINE void StoreInOrder(const Pair& pair, std::byte* row, int64_t n) {
  if constexpr (kType == DType::kBf16) {
    const hn::Half<Halves> half;
    const auto low = hn::ShiftRight<16>(Bf16Bits(kF, pair.first));
    const auto high = hn::ShiftRight<16>(Bf16Bits(kF, pair.second));
    const auto both =
        hn::Combine(kH, hn::TruncateTo(half, high), hn::TruncateTo(half, low));
    StoreVector<kStreams>(kH, both, reinterpret_cast<uint16_t*>(row) + n);
  } else {
    StorePair<kType, kStreams>(pair, row, n);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PAIR_INL_H_
