// SPDX-License-Identifier: Apache-2.0
// Elements of any type as floats, whole rows at a time: the choice of type is
// made once per row, and nothing further in knows it.

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

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_LOAD_INL_H_
