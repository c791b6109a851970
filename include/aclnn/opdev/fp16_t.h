// SPDX-License-Identifier: Apache-2.0
//
// op::fp16_t, an IEEE half precision number: one sign, 5 exponent and 10
// mantissa bits. C++ only: C sees nothing of it. Source: CANN operator
// development API, "fp16_t".
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include "aclnn/opdev/small_float.h"

namespace op {

// Made from a number it is the nearest one it can hold; made from a uint16_t it
// has those bits, because tensors of it are filled that way. Assigning a number
// always means its value.
struct tagFp16 {
  uint16_t val;

  tagFp16() : val(0) {}
  tagFp16(const uint16_t& bits) : val(bits) {}
  template <typename T, typename std::enable_if<std::is_arithmetic<T>::value,
                                                int>::type = 0>
  tagFp16(const T& number)
      : val(small_float::Encode<5, 10>(static_cast<double>(number))) {}

  template <typename T>
  typename std::enable_if<std::is_arithmetic<T>::value, tagFp16&>::type
  operator=(const T& number) {
    val = small_float::Encode<5, 10>(static_cast<double>(number));
    return *this;
  }

  template <typename T, typename std::enable_if<std::is_arithmetic<T>::value,
                                                int>::type = 0>
  operator T() const {
    return small_float::To<T>(toFloat());
  }

  float toFloat() const { return small_float::Decode<5, 10>(val); }
  double toDouble() const { return toFloat(); }
  int8_t toInt8() const { return small_float::To<int8_t>(toFloat()); }
  uint8_t toUInt8() const { return small_float::To<uint8_t>(toFloat()); }
  int16_t toInt16() const { return small_float::To<int16_t>(toFloat()); }
  uint16_t toUInt16() const { return small_float::To<uint16_t>(toFloat()); }
  int32_t toInt32() const { return small_float::To<int32_t>(toFloat()); }
  uint32_t toUInt32() const { return small_float::To<uint32_t>(toFloat()); }

  // 1 for +infinity, -1 for -infinity, else 0.
  int IsInf() const {
    return !std::isinf(toFloat()) ? 0 : std::signbit(toFloat()) ? -1 : 1;
  }

  tagFp16 operator+() const { return *this; }
  tagFp16 operator-() const {
    return tagFp16(static_cast<uint16_t>(val ^ 0x8000u));
  }
};

using fp16_t = tagFp16;

namespace small_float {
template <>
struct IsSmallFloat<tagFp16> : std::true_type {};
}  // namespace small_float

}  // namespace op

// CANN's programs call these two by their std names.
namespace std {
inline bool isnan(const op::fp16_t& number) { return isnan(number.toFloat()); }
inline op::fp16_t abs(const op::fp16_t& number) {
  return op::fp16_t(static_cast<uint16_t>(number.val & 0x7FFFu));
}
}  // namespace std

#endif  // __cplusplus
