// SPDX-License-Identifier: Apache-2.0
//
// op::bfloat16, the upper half of a float: one sign, 8 exponent and 7 mantissa
// bits. C++ only: C sees nothing of it. Source: CANN operator development API,
// "bfloat16".
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include "aclnn/opdev/small_float.h"

namespace op {

// Made from a number it is the nearest one it can hold; made from a uint16_t it
// has those bits, because tensors of it are filled that way. Assigning a number
// always means its value.
struct bfloat16 {
  uint16_t value;

  bfloat16() : value(0) {}
  bfloat16(const uint16_t& bits) : value(bits) {}
  template <typename T, typename std::enable_if<std::is_arithmetic<T>::value,
                                                int>::type = 0>
  bfloat16(const T& number)
      : value(small_float::Encode<8, 7>(static_cast<double>(number))) {}

  template <typename T>
  typename std::enable_if<std::is_arithmetic<T>::value, bfloat16&>::type
  operator=(const T& number) {
    value = small_float::Encode<8, 7>(static_cast<double>(number));
    return *this;
  }

  template <typename T, typename std::enable_if<std::is_arithmetic<T>::value,
                                                int>::type = 0>
  operator T() const {
    return small_float::To<T>(toFloat());
  }

  float toFloat() const { return small_float::Decode<8, 7>(value); }
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

  bfloat16 operator+() const { return *this; }
  bfloat16 operator-() const {
    return bfloat16(static_cast<uint16_t>(value ^ 0x8000u));
  }
};

namespace small_float {
template <>
struct IsSmallFloat<bfloat16> : std::true_type {};
}  // namespace small_float

}  // namespace op

// CANN's programs call these two by their std names.
namespace std {
inline bool isnan(const op::bfloat16& number) {
  return isnan(number.toFloat());
}
inline op::bfloat16 abs(const op::bfloat16& number) {
  return op::bfloat16(static_cast<uint16_t>(number.value & 0x7FFFu));
}
}  // namespace std

#endif  // __cplusplus
