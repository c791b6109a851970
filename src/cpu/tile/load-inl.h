// SPDX-License-Identifier: Apache-2.0
// Elements of any type as floats, and floats as elements: whole rows at a time.
// The choice of type is made once per row; nothing further in knows it.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/half.h"
#include "cpu/element_format.h"

#if defined(FLASHACL_CPU_TILE_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_LOAD_INL_H_
#undef FLASHACL_CPU_TILE_LOAD_INL_H_
#else
#define FLASHACL_CPU_TILE_LOAD_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Whether Highway's conversions from and to float16 are the processor's, which
// keep subnormals, infinities and NaNs and round to even.
#undef FLASHACL_HAS_F16
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86 || HWY_ARCH_ARM_A64
#define FLASHACL_HAS_F16 1
#else
#define FLASHACL_HAS_F16 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> FloatsFromBf16(D d, const uint16_t* HWY_RESTRICT from) {
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<uint16_t, D> halves;
  const auto bits = hn::PromoteTo(u, hn::LoadU(halves, from));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE hn::Vec<D> FloatsFromF16(D d, const uint16_t* HWY_RESTRICT from) {
#if FLASHACL_HAS_F16
  const hn::Rebind<hwy::float16_t, D> halves;
  return hn::PromoteTo(
      d, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<uint16_t, D> halves;
  const auto bits = hn::PromoteTo(u, hn::LoadU(halves, from));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000u)));
  const auto rest = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u, 0x7FFFu)));
  // The exponent's bias grows by 112; as a product it also mends subnormals.
  const auto scaled = hn::Mul(hn::BitCast(d, rest), hn::Set(d, 0x1p112f));
  const auto special =
      hn::Ge(hn::BitCast(d, rest), hn::BitCast(d, hn::Set(u, 0x0F800000u)));
  const auto infinite =
      hn::Or(hn::BitCast(d, rest), hn::BitCast(d, hn::Set(u, 0x7F800000u)));
  return hn::Or(hn::IfThenElse(special, infinite, scaled),
                hn::BitCast(d, sign));
#endif
}

HWY_INLINE Vector FloatsFromI8(const int8_t* HWY_RESTRICT from) {
  const hn::Rebind<int8_t, Floats> bytes;
  return hn::ConvertTo(kF, hn::PromoteTo(kW, hn::LoadU(bytes, from)));
}

inline float FloatOf(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32: {
      float value;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    case DType::kF16:
    case DType::kBf16: {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof(bits));
      return dtype == DType::kF16 ? F32FromF16(bits) : F32FromBf16(bits);
    }
    case DType::kF64: {
      double value;
      std::memcpy(&value, at, sizeof(value));
      return static_cast<float>(value);
    }
    default:
      return static_cast<float>(static_cast<int8_t>(*at));
  }
}

template <typename T, typename Convert>
HWY_INLINE int64_t LoadVectors(const std::byte* from, int64_t count,
                               float* HWY_RESTRICT to, Convert convert) {
  const T* HWY_RESTRICT elements = reinterpret_cast<const T*>(from);
  int64_t d = 0;
  for (; d + Lanes() <= count; d += Lanes()) {
    hn::StoreU(convert(elements + d), kF, to + d);
  }
  return d;
}

// to[0 .. count) = the elements of a row from `from` on.
inline void LoadRow(const ElementFormat& format, const std::byte* from,
                    int64_t count, float* HWY_RESTRICT to) {
  int64_t d = 0;
  if (format.step == 1) {
    switch (format.dtype) {
      case DType::kF32:
        d = LoadVectors<float>(from, count, to, [](const float* at) HWY_ATTR {
          return hn::LoadU(kF, at);
        });
        break;
      case DType::kF16:
        d = LoadVectors<uint16_t>(
            from, count, to,
            [](const uint16_t* at) HWY_ATTR { return FloatsFromF16(kF, at); });
        break;
      case DType::kBf16:
        d = LoadVectors<uint16_t>(
            from, count, to,
            [](const uint16_t* at) HWY_ATTR { return FloatsFromBf16(kF, at); });
        break;
      case DType::kI8:
        d = LoadVectors<int8_t>(from, count, to, [](const int8_t* at) HWY_ATTR {
          return FloatsFromI8(at);
        });
        break;
      default:
        break;
    }
  }
  const int64_t bytes = format.step * format.element_bytes;
  for (; d < count; ++d) to[d] = FloatOf(format.dtype, from + d * bytes);
}

// x becomes scale * (x + offset), channel by channel; `offset` may be null.
inline void Dequantise(const float* HWY_RESTRICT scale,
                       const float* HWY_RESTRICT offset, int64_t count,
                       float* HWY_RESTRICT row) {
  for (int64_t d = 0; d < count; ++d) {
    row[d] = scale[d] * (row[d] + (offset == nullptr ? 0.0f : offset[d]));
  }
}

// Floats as elements of other types, to nearest, ties to even; NaNs stay NaNs.
template <class D>
HWY_INLINE void StoreBf16(D d, const hn::Vec<D>& value,
                          uint16_t* HWY_RESTRICT to) {
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<uint16_t, D> halves;
  const auto bits = hn::BitCast(u, value);
  const auto has_nonfinite = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1u));
  const auto rounded =
      hn::Add(bits, hn::Add(has_nonfinite, hn::Set(u, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(u, 0x400000u));
  const auto result =
      hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(result)), halves, to);
  (void)d;
}

template <class D>
HWY_INLINE void StoreF16(D d, const hn::Vec<D>& value,
                         uint16_t* HWY_RESTRICT to) {
#if FLASHACL_HAS_F16
  const hn::Rebind<hwy::float16_t, D> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves,
             reinterpret_cast<hwy::float16_t*>(to));
  (void)d;
#else
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(value, d, lanes);
  for (size_t n = 0; n < hn::MaxLanes(d); ++n) to[n] = F16FromF32(lanes[n]);
#endif
}

inline void StoreElement(DType dtype, float value, std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(at, &value, sizeof(value));
      return;
    case DType::kF16:
    case DType::kBf16: {
      const uint16_t bits =
          dtype == DType::kF16 ? F16FromF32(value) : Bf16FromF32(value);
      std::memcpy(at, &bits, sizeof(bits));
      return;
    }
    case DType::kF64: {
      const double wide = value;
      std::memcpy(at, &wide, sizeof(wide));
      return;
    }
    default: {
      // NaN becomes 0, for want of a better byte.
      const float rounded = std::nearbyint(value);
      const float clamped = rounded < -128.0f  ? -128.0f
                            : rounded > 127.0f ? 127.0f
                                               : rounded;
      *at = static_cast<std::byte>(
          static_cast<int8_t>(std::isnan(value) ? 0.0f : clamped));
    }
  }
}

// The elements of a row from `to` on = from[0 .. count), rounded once.
inline void StoreRow(const ElementFormat& format,
                     const float* HWY_RESTRICT from, int64_t count,
                     std::byte* to) {
  const int64_t bytes = format.step * format.element_bytes;
  int64_t d = 0;
  const auto store = [&](auto each) HWY_ATTR {
    for (; d + Lanes() <= count; d += Lanes()) {
      each(hn::LoadU(kF, from + d), to + d * format.element_bytes);
    }
  };
  if (format.step == 1 && format.dtype == DType::kF32) {
    store([](const Vector& value, std::byte* at) HWY_ATTR {
      hn::StoreU(value, kF, reinterpret_cast<float*>(at));
    });
  } else if (format.step == 1 && format.dtype == DType::kF16) {
    store([](const Vector& value, std::byte* at) HWY_ATTR {
      StoreF16(kF, value, reinterpret_cast<uint16_t*>(at));
    });
  } else if (format.step == 1 && format.dtype == DType::kBf16) {
    store([](const Vector& value, std::byte* at) HWY_ATTR {
      StoreBf16(kF, value, reinterpret_cast<uint16_t*>(at));
    });
  }
  for (; d < count; ++d) StoreElement(format.dtype, from[d], to + d * bytes);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_LOAD_INL_H_
