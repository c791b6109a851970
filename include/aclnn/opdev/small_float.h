// SPDX-License-Identifier: Apache-2.0
//
// What fp16_t and bfloat16 share: converting between 16 bits and numbers, and
// arithmetic, which is done in double and rounded to 16 bits. C++ only: C sees
// nothing of it.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace op {
namespace small_float {

// The nearest number with a sign, kExponent and kMantissa bits, ties to even.
// Too large becomes infinite; NaN stays NaN, quiet, with its leading bits.
template <int kExponent, int kMantissa>
uint16_t Encode(double number) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr int kDropped = 52 - kMantissa;
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;

  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 15;
  const int exponent = static_cast<int>((bits >> 52) & 0x7FF) - 1023;
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);

  if (exponent == 1024 && mantissa != 0) {
    const uint32_t quiet = 1u << (kMantissa - 1);
    const uint32_t payload = static_cast<uint32_t>(mantissa >> kDropped);
    return static_cast<uint16_t>(sign | kInfinity | quiet | payload);
  }
  if (exponent > kBias) return static_cast<uint16_t>(sign | kInfinity);
  // Less than half of the least subnormal number.
  if (exponent < -kBias - kMantissa) return static_cast<uint16_t>(sign);

  int dropped = kDropped;
  uint32_t above = 0;  // the exponent field, in front of the mantissa
  if (exponent > -kBias) {
    above = static_cast<uint32_t>(exponent + kBias) << kMantissa;
  } else {
    mantissa |= uint64_t{1} << 52;
    dropped += 1 - kBias - exponent;
  }
  uint32_t kept = above + static_cast<uint32_t>(mantissa >> dropped);
  const uint64_t rest = mantissa & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  // A carry out of the mantissa is the next exponent, up to infinity.
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  return static_cast<uint16_t>(sign | kept);
}

// The number that the bits stand for; a float holds it exactly.
template <int kExponent, int kMantissa>
float Decode(uint16_t bits) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kMaxExponent = (1u << kExponent) - 1;

  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> kMantissa) & kMaxExponent;
  const uint32_t mantissa = bits & ((1u << kMantissa) - 1);
  if (exponent == 0) {
    const float size =
        std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa);
    return sign != 0 ? -size : size;
  }
  uint32_t wide = sign | (mantissa << (23 - kMantissa));
  wide |=
      exponent == kMaxExponent ? 0x7F800000u : (exponent + 127u - kBias) << 23;
  float number = 0;
  std::memcpy(&number, &wide, sizeof(number));
  return number;
}

// Conversion to T: towards zero for integers, the nearest one when out of
// range, 0 for NaN.
template <typename T>
typename std::enable_if<std::is_floating_point<T>::value, T>::type To(
    float number) {
  return static_cast<T>(number);
}

template <typename T>
typename std::enable_if<std::is_integral<T>::value, T>::type To(float number) {
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  // One above the greatest, which a double may not be able to hold.
  const double end =
      2.0 * (static_cast<double>(std::numeric_limits<T>::max() / 2) + 1.0);
  if (std::isnan(number)) return 0;
  if (number <= least) return std::numeric_limits<T>::min();
  if (number >= end) return std::numeric_limits<T>::max();
  return static_cast<T>(number);
}

template <>
inline bool To<bool>(float number) {
  return number != 0;
}

// True for the two types, so that the operators below are theirs alone.
template <typename F>
struct IsSmallFloat : std::false_type {};

template <typename F, typename Result = F>
using IfSmall = typename std::enable_if<IsSmallFloat<F>::value, Result>::type;

template <typename F, typename T, typename Result>
using IfMixed = typename std::enable_if<
    IsSmallFloat<F>::value && std::is_arithmetic<T>::value, Result>::type;

// An F and an integer give F; an F and a float or a double give that type.
template <typename F, typename T>
using Mixed = IfMixed<
    F, T,
    typename std::conditional<std::is_floating_point<T>::value, T, F>::type>;

// What mixed arithmetic is computed in.
template <typename T>
using Wide = typename std::conditional<std::is_same<T, float>::value, float,
                                       double>::type;

}  // namespace small_float

// The operators of F with F, of F with a number, and of a number with F.
#define FLASHACL_SMALL_FLOAT_ARITHMETIC(sign)                        \
  template <typename F>                                              \
  small_float::IfSmall<F> operator sign(F a, F b) {                  \
    return F(a.toDouble() sign b.toDouble());                        \
  }                                                                  \
  template <typename F, typename T>                                  \
  small_float::Mixed<F, T> operator sign(F a, T b) {                 \
    using Wide = small_float::Wide<T>;                               \
    return small_float::Mixed<F, T>(Wide(a.toFloat()) sign Wide(b)); \
  }                                                                  \
  template <typename F, typename T>                                  \
  small_float::Mixed<F, T> operator sign(T a, F b) {                 \
    using Wide = small_float::Wide<T>;                               \
    return small_float::Mixed<F, T>(Wide(a) sign Wide(b.toFloat())); \
  }                                                                  \
  template <typename F>                                              \
  small_float::IfSmall<F, F&> operator sign##=(F& a, F b) {          \
    return a = a sign b;                                             \
  }                                                                  \
  template <typename F, typename T>                                  \
  small_float::IfMixed<F, T, F&> operator sign##=(F& a, T b) {       \
    return a = F(a sign b);                                          \
  }                                                                  \
  template <typename F, typename T>                                  \
  small_float::IfMixed<F, T, T&> operator sign##=(T& a, F b) {       \
    return a = static_cast<T>(a sign b);                             \
  }

#define FLASHACL_SMALL_FLOAT_COMPARISON(sign)                \
  template <typename F>                                      \
  small_float::IfSmall<F, bool> operator sign(F a, F b) {    \
    return a.toFloat() sign b.toFloat();                     \
  }                                                          \
  template <typename F, typename T>                          \
  small_float::IfMixed<F, T, bool> operator sign(F a, T b) { \
    return double(a.toFloat()) sign double(b);               \
  }                                                          \
  template <typename F, typename T>                          \
  small_float::IfMixed<F, T, bool> operator sign(T a, F b) { \
    return double(a) sign double(b.toFloat());               \
  }

FLASHACL_SMALL_FLOAT_ARITHMETIC(+)
FLASHACL_SMALL_FLOAT_ARITHMETIC(-)
FLASHACL_SMALL_FLOAT_ARITHMETIC(*)
FLASHACL_SMALL_FLOAT_ARITHMETIC(/)
FLASHACL_SMALL_FLOAT_COMPARISON(==)
FLASHACL_SMALL_FLOAT_COMPARISON(!=)
FLASHACL_SMALL_FLOAT_COMPARISON(<)
FLASHACL_SMALL_FLOAT_COMPARISON(<=)
FLASHACL_SMALL_FLOAT_COMPARISON(>)
FLASHACL_SMALL_FLOAT_COMPARISON(>=)

#undef FLASHACL_SMALL_FLOAT_ARITHMETIC
#undef FLASHACL_SMALL_FLOAT_COMPARISON

}  // namespace op

#endif  // __cplusplus
