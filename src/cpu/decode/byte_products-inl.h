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

#include <algorithm>
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

using WordVector = VectorOf<Words>;

// Bytes without signs, which are 128 more.
template <bool kUnsigned>
HWY_INLINE Vector UnsignedIf(const Vector& bytes) {
  if constexpr (!kUnsigned) return bytes;
  const Vector signs =
      hn::BitCast(kF, hn::Set(kW, static_cast<int32_t>(0x80808080u)));
  return hn::Xor(bytes, signs);
}

// Each lane's four bytes meet the four of a row's digits, which are the same
// for all lanes: a word, beside those of three other rows (DigitsOfRows).
struct UnsignedKeys {
  static constexpr bool kUnsignedKeys = true;
  static constexpr bool kUnsignedValues = false;
  // Vectors of keys that meet a digit of so many rows at a time.
  static constexpr int KeyVectors(int /*rows*/) { return 1; }

  static HWY_INLINE const int32_t* DigitsOfRows(const int32_t* at) {
    return at;
  }
};

struct OfBytes : UnsignedKeys {
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
struct OfBytesAtOnce : UnsignedKeys {
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
// USDOT, which takes one operand with a sign and one without, came later.
struct OfBytesAtOnce {
  static constexpr bool kUnsignedKeys = false;
  static constexpr bool kUnsignedValues = true;
  // No more than a step has.
  static constexpr int KeyVectors(int rows) {
    constexpr int kMost = static_cast<int>(kDecodeKeys / Lanes());
    return std::min(rows > 2 ? 2 : 4, kMost);
  }

  // In each 128 bits of it.
  static HWY_INLINE WordVector DigitsOfRows(const int32_t* at) {
    return hn::LoadDup128(kW, at);
  }
  static HWY_INLINE WordVector AddKeys(const WordVector& keys,
                                       const WordVector& digits, int row,
                                       const WordVector& sum) {
    return Add<kSdot>(keys, digits, row, sum);
  }
  static HWY_INLINE WordVector AddValues(const WordVector& values,
                                         const WordVector& digits, int row,
                                         const WordVector& sum) {
    return Add<kUdot>(values, digits, row, sum);
  }

 private:
#if FLASHACL_SVE_BITS
  static constexpr int kSdot = 0x44A00000;  // %0.s, %1.b, %2.b[row]
  static constexpr int kUdot = 0x44A00400;  // %0.s, %1.b, %2.b[row]

  template <int kCode>
  static HWY_INLINE WordVector Add(const WordVector& bytes,
                                   const WordVector& digits, int row,
                                   const WordVector& sum) {
    // Bits 19 and 20 say which word of the last operand it is.
    switch (row) {
      case 0:
        return Instruction<kCode>(bytes, digits, sum);
      case 1:
        return Instruction<kCode | 1 << 19>(bytes, digits, sum);
      case 2:
        return Instruction<kCode | 2 << 19>(bytes, digits, sum);
      default:
        return Instruction<kCode | 3 << 19>(bytes, digits, sum);
    }
  }

  // Of the last operand's registers z0 to z7 can be named.
  template <int kCode>
  static HWY_INLINE WordVector Instruction(const WordVector& bytes,
                                           const WordVector& digits,
                                           WordVector sum) {
    asm(FLASHACL_ASM_VECTORS("%c3")
        : "+w"(sum)
        : "w"(bytes), "y"(digits), "i"(kCode));
    return sum;
  }
#else
  static constexpr int kSdot = 0x4F80E000;  // %0.4s, %1.16b, %2.4b[row]
  static constexpr int kUdot = 0x6F80E000;  // %0.4s, %1.16b, %2.4b[row]

  template <int kCode>
  static HWY_INLINE WordVector Add(const WordVector& bytes,
                                   const WordVector& digits, int row,
                                   const WordVector& sum) {
    // Bits 21 and 11 say which word of the last operand it is.
    switch (row) {
      case 0:
        return Instruction<kCode>(bytes, digits, sum);
      case 1:
        return Instruction<kCode | 1 << 21>(bytes, digits, sum);
      case 2:
        return Instruction<kCode | 1 << 11>(bytes, digits, sum);
      default:
        return Instruction<kCode | 1 << 21 | 1 << 11>(bytes, digits, sum);
    }
  }

  template <int kCode>
  static HWY_INLINE WordVector Instruction(const WordVector& bytes,
                                           const WordVector& digits,
                                           const WordVector& sum) {
    auto raw = sum.raw;
    asm(FLASHACL_ASM_VECTORS("%c3")
        : "+w"(raw)
        : "w"(bytes.raw), "w"(digits.raw), "i"(kCode));
    return WordVector{raw};
  }
#endif
};
#else
using OfBytesAtOnce = OfBytes;
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_BYTE_PRODUCTS_INL_H_
