// SPDX-License-Identifier: Apache-2.0
// Elements of any type as floats: whole rows, or a vector of a dense one.
//
// Channels lie in lanes, and nothing is packed. The choice of type is outer,
// once per row or for several (WithVectorType), and nothing further in makes it
// again; the loop over the vectors of a row is inner. What fills no vector goes
// element by element, as do rows whose elements lie apart and f64. What vectors
// convert is exact, so a number does not depend on which of the two ways it
// went. Scales and offsets of 8-bit elements meet them in a pass of its own
// (Dequantise).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/number.h"
#include "base/range.h"
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
HWY_INLINE VectorOf<D> FloatsFromBf16(D d, const uint16_t* HWY_RESTRICT from) {
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<uint16_t, D> halves;
  const auto bits = hn::PromoteTo(u, hn::LoadU(halves, from));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE VectorOf<D> FloatsFromF16(D d, const uint16_t* HWY_RESTRICT from) {
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
  // The exponent's bias grows by 112; as a product it is right for subnormals.
  const auto scaled = hn::Mul(hn::BitCast(d, rest), hn::Set(d, 0x1p112f));
  const auto special =
      hn::Ge(hn::BitCast(d, rest), hn::BitCast(d, hn::Set(u, 0x0F800000u)));
  const auto infinite =
      hn::Or(hn::BitCast(d, rest), hn::BitCast(d, hn::Set(u, 0x7F800000u)));
  return hn::Or(hn::IfThenElse(special, infinite, scaled),
                hn::BitCast(d, sign));
#endif
}

template <class D>
HWY_INLINE VectorOf<D> FloatsFromI8(D d, const int8_t* HWY_RESTRICT from) {
  const hn::RebindToSigned<D> words;
  const hn::Rebind<int8_t, D> bytes;
  return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, from)));
}

// How far each lane's four bits of a word are from its sign.
HWY_ALIGN inline constexpr uint32_t kFourBitShifts[16] = {
    28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0};

// The word of each lane's element, of as many elements as there are lanes.
template <class U, size_t kLanes = LanesOf(U())>
HWY_INLINE VectorOf<U> FourBitWords(U u, const std::byte* from) {
  using flashacl::Load;
  if constexpr (kLanes == 16) {
    const hn::Half<U> half;
    return hn::Combine(u, hn::Set(half, Load<uint32_t>(from + 4)),
                       hn::Set(half, Load<uint32_t>(from)));
  } else if constexpr (kLanes == 8) {
    return hn::Set(u, Load<uint32_t>(from));
  } else {
    static_assert(kLanes == 4);
    return hn::Set(u, uint32_t{Load<uint16_t>(from)});
  }
}

// As many elements of four bits as there are lanes: every lane gets the word
// that its own are in, and shifts them up to the sign and down again.
HWY_INLINE Vector FloatsFromFourBits(const std::byte* from) {
  const hn::RebindToUnsigned<Floats> u;
  const auto raised =
      hn::Shl(FourBitWords(u, from), hn::Load(u, kFourBitShifts));
  return hn::ConvertTo(kF, hn::ShiftRight<28>(hn::BitCast(kW, raised)));
}

// Elements of a dense row from number `n` on.
template <DType kType, class D>
HWY_INLINE VectorOf<D> FloatsAt(D d, const std::byte* row, int64_t n) {
  if constexpr (kType == DType::kF32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(row) + n);
  } else if constexpr (kType == DType::kF16) {
    return FloatsFromF16(d, reinterpret_cast<const uint16_t*>(row) + n);
  } else if constexpr (kType == DType::kBf16) {
    return FloatsFromBf16(d, reinterpret_cast<const uint16_t*>(row) + n);
  } else {
    static_assert(kType == DType::kI8);
    return FloatsFromI8(d, reinterpret_cast<const int8_t*>(row) + n);
  }
}

// The numbers of all lanes, twice.
inline constexpr std::array<int32_t, 2 * Lanes()> kLanesTwice = [] {
  std::array<int32_t, 2 * Lanes()> lanes{};
  for (size_t n = 0; n < lanes.size(); ++n) {
    lanes[n] = static_cast<int32_t>(n % (lanes.size() / 2));
  }
  return lanes;
}();

// Elements of a dense row of `count` >= Lanes() from number `n` on; lanes that
// pass the last hold others of the row.
template <DType kType>
HWY_INLINE Vector FloatsWithin(const std::byte* row, int64_t n, int64_t count) {
  const int64_t last = count - Lanes();
  if (HWY_LIKELY(n <= last)) return FloatsAt<kType>(kF, row, n);
  const int64_t by = std::min<int64_t>(n - last, Lanes());
  const auto lanes = hn::LoadU(kW, kLanesTwice.data() + by);
  return hn::TableLookupLanes(FloatsAt<kType>(kF, row, last),
                              hn::IndicesFromVec(kF, lanes));
}

// Calls body(type) with the type as an integral_constant; not for types of
// which vectors are not converted.
template <typename Body>
HWY_INLINE void WithVectorType(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32:
      return body(std::integral_constant<DType, DType::kF32>());
    case DType::kF16:
      return body(std::integral_constant<DType, DType::kF16>());
    case DType::kBf16:
      return body(std::integral_constant<DType, DType::kBf16>());
    case DType::kI8:
      return body(std::integral_constant<DType, DType::kI8>());
    default:
      return;
  }
}

inline float FloatOf(DType dtype, const std::byte* at) {
  return static_cast<float>(ReadNumber(dtype, at));
}

// The same of elements of four bits, eight to a word.
HWY_NOINLINE inline void LoadFourBits(const ElementFormat& format,
                                      const std::byte* from, int64_t count,
                                      float* HWY_RESTRICT to) {
  int64_t d = 0;
  if (format.step == 1) {
    for (; d + Lanes() <= count; d += Lanes()) {
      hn::StoreU(FloatsFromFourBits(from + d / 2), kF, to + d);
    }
  }
  const int64_t bytes = format.step * format.element_bytes;
  for (; d < count; ++d) {
    to[d] = static_cast<float>(ReadFourBits(from + d / 8 * bytes, d % 8));
  }
}

// to[0 .. count) = the elements of a row from `from` on.
HWY_INLINE void LoadRow(const ElementFormat& format, const std::byte* from,
                        int64_t count, float* HWY_RESTRICT to) {
  if (HWY_UNLIKELY(format.dtype == DType::kI4x8)) {
    return LoadFourBits(format, from, count, to);
  }
  int64_t d = 0;
  const DType dense = format.step == 1 ? format.dtype : DType::kNone;
  WithVectorType(dense, [&](auto type) HWY_ATTR {
    for (; d + Lanes() <= count; d += Lanes()) {
      hn::StoreU(FloatsAt<type()>(kF, from, d), kF, to + d);
    }
  });
  const int64_t bytes = format.step * format.element_bytes;
  for (; d < count; ++d) to[d] = FloatOf(format.dtype, from + d * bytes);
}

// The rows `some` of a step, which are dense and have Lanes() channels or more,
// as floats `stride` floats apart. The last vector of a row ends with it, and
// may have some of the one before.
template <DType kType>
HWY_NOINLINE void LoadDenseRows(const std::byte* const* rows, Range some,
                                int64_t channels, float* HWY_RESTRICT to,
                                ptrdiff_t stride) {
  const int64_t last = channels - Lanes();
  for (int64_t j = some.first; j < some.last; ++j) {
    const std::byte* const row = rows[j];
    float* const floats = to + j * stride;
    for (int64_t d = 0; d < last; d += Lanes()) {
      hn::StoreU(FloatsAt<kType>(kF, row, d), kF, floats + d);
    }
    hn::StoreU(FloatsAt<kType>(kF, row, last), kF, floats + last);
  }
}

// The same of channels in blocks.
HWY_NOINLINE inline void LoadBlocks(const ElementFormat& format,
                                    const std::byte* from, int64_t count,
                                    float* HWY_RESTRICT to) {
  const int64_t block = format.channel_block;
  const bool whole = format.step == 1 && block % Lanes() == 0;
  int64_t d = 0;
  WithVectorType(whole ? format.dtype : DType::kNone, [&](auto type) HWY_ATTR {
    for (; d + block <= count; d += block) {
      for (int64_t c = 0; c < block; c += Lanes()) {
        hn::StoreU(FloatsAt<type()>(kF, from, c), kF, to + d + c);
      }
      from += format.block_bytes;
    }
  });
  for (; d < count; d += block) {
    LoadRow(format, from, std::min(block, count - d), to + d);
    from += format.block_bytes;
  }
}

// Of a row of keys or values, whose channels may be in blocks.
HWY_INLINE void LoadChannels(const ElementFormat& format, const std::byte* from,
                             int64_t count, float* HWY_RESTRICT to) {
  if (format.channel_block != 0) {
    LoadBlocks(format, from, count, to);
  } else {
    LoadRow(format, from, count, to);
  }
}

// The same of the row of a position and a head.
inline void LoadRow(const TensorRows& rows, int64_t position, int64_t head,
                    int64_t count, float* HWY_RESTRICT to) {
  LoadRow(rows.format, rows.At(position, head), count, to);
}

// x becomes scale * (x + offset), channel by channel; `offset` may be null.
inline void Dequantise(const float* HWY_RESTRICT scale,
                       const float* HWY_RESTRICT offset, int64_t count,
                       float* HWY_RESTRICT row) {
  for (int64_t d = 0; d < count; ++d) {
    row[d] = scale[d] * (row[d] + (offset == nullptr ? 0.0f : offset[d]));
  }
}

// x becomes scale * (x + offset), for a whole row.
inline void DequantiseRow(float scale, float offset, int64_t count,
                          float* HWY_RESTRICT row) {
  for (int64_t d = 0; d < count; ++d) row[d] = scale * (row[d] + offset);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_LOAD_INL_H_
