// SPDX-License-Identifier: Apache-2.0
// Products of four bytes at a time, added to words: by multiplications of
// integers on any processor, by x86's vpdpbusd, by ARM's SDOT and UDOT. The
// same bits, as all of them are sums of integers.
//
// Digits of queries have a sign, digits of probs have none, rows have one. Of
// vpdpbusd's operands the first has no sign and the second has one; both of
// SDOT's have one, both of UDOT's have none. So either keys or values become
// unsigned: their sign bit is inverted, which adds 128, and sums start at what
// makes up for it.

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_
#undef FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_
#else
#define FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using WordVector = hn::Vec<Words>;

// Bytes without signs, which are 128 more.
template <bool kUnsigned>
HWY_INLINE Vector UnsignedIf(const Vector& bytes) {
  if constexpr (!kUnsigned) return bytes;
  return hn::Xor(
      bytes, hn::BitCast(kF, hn::Set(kW, static_cast<int32_t>(0x80808080u))));
}

// Each lane's four bytes meet the four of a row's digits, which are the same
// for all lanes: a word, beside those of three other rows (DigitsOfRows).
struct OfBytes {
  static constexpr bool kUnsignedKeys = true;
  static constexpr bool kUnsignedValues = false;
  // Vectors of keys that meet a digit of so many rows at a time.
  static constexpr int KeyVectors(int /*rows*/) { return 1; }

  static HWY_INLINE const int32_t* DigitsOfRows(const int32_t* at) {
    return at;
  }
  // sum + the four products of each lane.
  static HWY_INLINE WordVector AddKeys(const WordVector& keys,
                                       const int32_t* digits, int row,
                                       const WordVector& sum) {
    return Add(keys, hn::Set(kW, digits[row]), sum);
  }
  static HWY_INLINE WordVector AddValues(const WordVector& values,
                                         const int32_t* digits, int row,
                                         const WordVector& sum) {
    return Add(hn::Set(kW, digits[row]), values, sum);
  }

 private:
  // The bytes of `x` have no sign.
  static HWY_INLINE WordVector Add(const WordVector& x, const WordVector& y,
                                   WordVector sum) {
    const hn::RebindToUnsigned<Words> u;
    const auto bits = hn::BitCast(u, x);
    const auto low = hn::Set(u, 0xFFu);
    const auto part = [&](const auto& lowest,
                          const WordVector& highest) HWY_ATTR {
      return hn::Mul(hn::BitCast(kW, hn::And(lowest, low)),
                     hn::ShiftRight<24>(highest));
    };
    sum = hn::Add(sum, part(bits, hn::ShiftLeft<24>(y)));
    sum = hn::Add(sum, part(hn::ShiftRight<8>(bits), hn::ShiftLeft<16>(y)));
    sum = hn::Add(sum, part(hn::ShiftRight<16>(bits), hn::ShiftLeft<8>(y)));
    return hn::Add(sum, part(hn::ShiftRight<24>(bits), y));
  }
};

// Highway 1.0.3 knows the instruction of no target that is compiled here.
#if FLASHACL_HAS_BYTE_DOTS && HWY_ARCH_X86_64
struct OfBytesAtOnce {
  static constexpr bool kUnsignedKeys = true;
  static constexpr bool kUnsignedValues = false;
  static constexpr int KeyVectors(int /*rows*/) { return 1; }

  static HWY_INLINE const int32_t* DigitsOfRows(const int32_t* at) {
    return at;
  }
  static HWY_INLINE WordVector AddKeys(const WordVector& keys,
                                       const int32_t* digits, int row,
                                       const WordVector& sum) {
    auto raw = sum.raw;
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(raw)
        : "v"(keys.raw), "m"(digits[row]));
    return WordVector{raw};
  }
  static HWY_INLINE WordVector AddValues(const WordVector& values,
                                         const int32_t* digits, int row,
                                         const WordVector& sum) {
    auto raw = sum.raw;
    asm("vpdpbusd %2, %1, %0"
        : "+v"(raw)
        : "v"(hn::Set(kW, digits[row]).raw), "v"(values.raw));
    return WordVector{raw};
  }
};
#elif FLASHACL_HAS_BYTE_DOTS
// A vector has the digits of all four rows; the instruction says which of them
// it takes. Both are of FEAT_DotProd, which Kunpeng 920 and Neoverse N1 have;
// USDOT, which takes one with a sign and
// one without, came later.
struct OfBytesAtOnce {
  static constexpr bool kUnsignedKeys = false;
  static constexpr bool kUnsignedValues = true;
  static constexpr int KeyVectors(int rows) { return rows > 2 ? 2 : 4; }

  static HWY_INLINE WordVector DigitsOfRows(const int32_t* at) {
    return hn::LoadU(kW, at);
  }
  static HWY_INLINE WordVector AddKeys(const WordVector& keys,
                                       const WordVector& digits, int row,
                                       const WordVector& sum) {
    switch (row) {
      case 0:
        return AddKeys<0>(keys, digits, sum);
      case 1:
        return AddKeys<1>(keys, digits, sum);
      case 2:
        return AddKeys<2>(keys, digits, sum);
      default:
        return AddKeys<3>(keys, digits, sum);
    }
  }
  static HWY_INLINE WordVector AddValues(const WordVector& values,
                                         const WordVector& digits, int row,
                                         const WordVector& sum) {
    switch (row) {
      case 0:
        return AddValues<0>(values, digits, sum);
      case 1:
        return AddValues<1>(values, digits, sum);
      case 2:
        return AddValues<2>(values, digits, sum);
      default:
        return AddValues<3>(values, digits, sum);
    }
  }

 private:
  template <int kRow>
  static HWY_INLINE WordVector AddKeys(const WordVector& keys,
                                       const WordVector& digits,
                                       const WordVector& sum) {
    auto raw = sum.raw;
    // sdot %0.4s, %1.16b, %2.4b[kRow]
    asm(FLASHACL_ASM_VECTORS("0x4F80E000 | %c3")
        : "+w"(raw)
        : "w"(keys.raw), "w"(digits.raw), "i"(ByteLane(kRow)));
    return WordVector{raw};
  }
  template <int kRow>
  static HWY_INLINE WordVector AddValues(const WordVector& values,
                                         const WordVector& digits,
                                         const WordVector& sum) {
    auto raw = sum.raw;
    // udot %0.4s, %1.16b, %2.4b[kRow]
    asm(FLASHACL_ASM_VECTORS("0x6F80E000 | %c3")
        : "+w"(raw)
        : "w"(values.raw), "w"(digits.raw), "i"(ByteLane(kRow)));
    return WordVector{raw};
  }

  // Where both say which word of the last operand they take.
  static constexpr int ByteLane(int lane) {
    return (lane & 1) << 21 | (lane & 2) << 10;
  }
};
#else
using OfBytesAtOnce = OfBytes;
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_
