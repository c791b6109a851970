// SPDX-License-Identifier: Apache-2.0
// Floats as elements of any type, rounded once: whole rows, or a vector of a
// dense one.
//
// As in load-inl.h channels lie in lanes, the choice of type is outer and the
// loop over the vectors of a row inner; what fills no vector goes element by
// element, as do 8-bit elements and rows whose elements lie apart. Both ways
// round to nearest, ties to even, so a result does not depend on where in a row
// it is. NaN stays NaN; as 8 bits, which have none, it becomes 0.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "base/number.h"
#include "cpu/element_format.h"
#include "cpu/tile/attention_params.h"

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

// Floats as elements of other types, to nearest, ties to even; NaNs stay NaNs.
// In the upper halves of their lanes.
template <class D>
HWY_INLINE VectorOf<hn::RebindToUnsigned<D>> Bf16Bits(
    D /*d*/, const VectorOf<D>& value) {
  const hn::RebindToUnsigned<D> u;
  const auto bits = hn::BitCast(u, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(u, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(value)), quiet, rounded);
}

template <class D>
HWY_INLINE void StoreBf16(D d, const VectorOf<D>& value,
                          uint16_t* HWY_RESTRICT to) {
  const hn::Rebind<uint16_t, D> halves;
  const auto bits = hn::ShiftRight<16>(Bf16Bits(d, value));
  hn::StoreU(hn::TruncateTo(halves, bits), halves, to);
}

template <class D>
HWY_INLINE void StoreF16(D d, const VectorOf<D>& value,
                         uint16_t* HWY_RESTRICT to) {
#if FLASHACL_HAS_F16
  const hn::Rebind<hwy::float16_t, D> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves,
             reinterpret_cast<hwy::float16_t*>(to));
  (void)d;
#else
  HWY_ALIGN float lanes[LanesOf(d)];
  hn::Store(value, d, lanes);
  for (size_t n = 0; n < LanesOf(d); ++n) to[n] = F16FromF32(lanes[n]);
#endif
}

// Elements of a dense row from number `n` on; 8-bit ones are stored one by one.
template <DType kType, class D>
HWY_INLINE void StoreFloats(D d, const VectorOf<D>& value, std::byte* row,
                            int64_t n) {
  if constexpr (kType == DType::kF32) {
    hn::StoreU(value, d, reinterpret_cast<float*>(row) + n);
  } else if constexpr (kType == DType::kF16) {
    StoreF16(d, value, reinterpret_cast<uint16_t*>(row) + n);
  } else {
    static_assert(kType == DType::kBf16);
    StoreBf16(d, value, reinterpret_cast<uint16_t*>(row) + n);
  }
}

inline void StoreElement(DType dtype, float value, std::byte* at) {
  if (dtype != DType::kI8) return WriteNumber(dtype, at, double{value});
  // NaN becomes 0, for want of a better byte.
  const float rounded = std::isnan(value) ? 0.0f : std::nearbyint(value);
  *at = static_cast<std::byte>(
      static_cast<int8_t>(std::clamp(rounded, -128.0f, 127.0f)));
}

// The elements of a row from `to` on = from[0 .. count), rounded once.
inline void StoreRow(const ElementFormat& format,
                     const float* HWY_RESTRICT from, int64_t count,
                     std::byte* to) {
  const int64_t bytes = format.step * format.element_bytes;
  const DType dense = format.step == 1 ? format.dtype : DType::kNone;
  int64_t d = 0;
  WithVectorType(dense, [&](auto type) HWY_ATTR {
    if constexpr (type() != DType::kI8) {
      for (; d + Lanes() <= count; d += Lanes()) {
        StoreFloats<type()>(kF, hn::LoadU(kF, from + d), to, d);
      }
    }
  });
  for (; d < count; ++d) StoreElement(format.dtype, from[d], to + d * bytes);
}

// The row of a position and a head, where there is a tensor.
inline void StoreRow(const TensorRows& rows, int64_t position, int64_t head,
                     const float* HWY_RESTRICT from, int64_t count) {
  std::byte* const to = rows.At(position, head);
  if (to != nullptr) StoreRow(rows.format, from, count, to);
}

// A row's gradient of the query, its rope after the rest.
inline void StoreGradQuery(const GradRows& to, const QueryRow& row,
                           const ScoreParams& params, const float* from) {
  StoreRow(to.grad_query, row.position, row.head, from, params.qk_dim);
  StoreRow(to.grad_query_rope, row.position, row.head, from + params.qk_dim,
           params.rope_dim);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_STORE_INL_H_
