// SPDX-License-Identifier: Apache-2.0
// Elements by arithmetic on exact numbers.
#include "tests/testing/element.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

namespace flashacl::testing {
namespace {

// Of a binary format: significant digits, exponent of its least number, and its
// greatest.
struct Format {
  int digits;
  int least;
  double greatest;
};

Format FormatOf(aclDataType type) {
  switch (type) {
    case ACL_FLOAT16:
      return {11, -24, 65504};
    case ACL_BF16:
      return {8, -133, 0x1.FEp127};
    case ACL_FLOAT:
      return {24, -149, FLT_MAX};
    default:
      return {53, -1074, DBL_MAX};
  }
}

struct Range {
  int bits;
  bool has_sign;
};

Range RangeOf(aclDataType type) {
  switch (type) {
    case ACL_INT8:
      return {8, true};
    case ACL_INT16:
      return {16, true};
    case ACL_INT32:
      return {32, true};
    case ACL_INT64:
      return {64, true};
    case ACL_UINT8:
    case ACL_BOOL:
      return {8, false};
    case ACL_UINT16:
      return {16, false};
    case ACL_UINT32:
      return {32, false};
    default:
      return {64, false};
  }
}

// To a multiple of the format's unit at this size, halves to even.
double Rounded(double value, const Format& format) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - format.digits, format.least);
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) > format.greatest
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : rounded;
}

double RoundedWhole(Whole integer, const Format& format) {
  const bool negative = integer < 0;
  Whole magnitude = negative ? -integer : integer;
  int shift = 0;
  while ((magnitude >> shift) >> format.digits != 0) ++shift;
  Whole kept = magnitude >> shift;
  const Whole rest = magnitude - (kept << shift);
  const Whole half = shift == 0 ? 1 : Whole{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  const double value = std::ldexp(static_cast<double>(kept), shift);
  const double finite =
      value > format.greatest ? std::numeric_limits<double>::infinity() : value;
  return negative ? -finite : finite;
}

Whole Wrapped(Whole integer, const Range& range) {
  const Whole modulus = Whole{1} << range.bits;
  Whole rest = integer % modulus;
  if (rest < 0) rest += modulus;
  return range.has_sign && rest >= modulus / 2 ? rest - modulus : rest;
}

Whole Truncated(double value, const Range& range) {
  const Whole count = Whole{1} << range.bits;
  const Whole least = range.has_sign ? -(count / 2) : Whole{0};
  const Whole most = least + count - 1;
  if (std::isnan(value)) return 0;
  if (value >= static_cast<double>(most)) return most;
  if (value <= static_cast<double>(least)) return least;
  return static_cast<Whole>(value);
}

double DecodeF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t EncodeF16(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  int bits = 0;
  if (std::isnan(value)) {
    bits = 0x7E00;
  } else if (std::isinf(value)) {
    bits = 0x7C00;
  } else if (magnitude < 0x1p-14) {
    bits = static_cast<int>(std::ldexp(magnitude, 24));
  } else {
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent);
    bits = ((exponent + 14) << 10) + static_cast<int>(fraction * 2048) - 1024;
  }
  return static_cast<uint16_t>(bits | sign);
}

template <typename T>
T Get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename T>
void Put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

Element Combined(const Element& one, const Element& other, const Element& alpha,
                 bool adds, aclDataType type) {
  const aclDataType in =
      type == ACL_FLOAT16 || type == ACL_BF16 ? ACL_FLOAT : type;
  const Element a = ConvertElement(one, in);
  const Element b = ConvertElement(other, in);
  const Element factor = ConvertElement(alpha, in);
  if (type == ACL_BOOL) {
    return WholeElement(adds ? (a.integer | (factor.integer & b.integer))
                             : (a.integer & b.integer));
  }
  if (a.whole) {
    const Range range = RangeOf(in);
    if (!adds) return WholeElement(Wrapped(a.integer * b.integer, range));
    const Whole product = Wrapped(factor.integer * b.integer, range);
    return WholeElement(Wrapped(a.integer + product, range));
  }
  // Products of two fp32 numbers are exact in a double, and a sum of them that
  // was rounded to a double rounds to the same fp32 number.
  const Format format = FormatOf(in);
  const double result =
      adds ? Rounded(a.real + Rounded(factor.real * b.real, format), format)
           : Rounded(a.real * b.real, format);
  return ConvertElement(RealElement(result), type);
}

}  // namespace

int64_t BytesOfType(aclDataType type) {
  return static_cast<int64_t>(aclDataTypeSize(type));
}

bool IsRealType(aclDataType type) {
  return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16 ||
         type == ACL_DOUBLE;
}

Element ReadElement(aclDataType type, const std::byte* at) {
  switch (type) {
    case ACL_FLOAT16:
      return RealElement(DecodeF16(Get<uint16_t>(at)));
    case ACL_BF16: {
      std::byte wide[4] = {std::byte{0}, std::byte{0}, at[0], at[1]};
      return RealElement(Get<float>(wide));
    }
    case ACL_FLOAT:
      return RealElement(Get<float>(at));
    case ACL_DOUBLE:
      return RealElement(Get<double>(at));
    case ACL_BOOL:
      return WholeElement(Get<uint8_t>(at) != 0);
    default:
      break;
  }
  const Range range = RangeOf(type);
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(range.bits / 8));
  return WholeElement(Wrapped(bits, range));
}

void WriteElement(aclDataType type, std::byte* at, const Element& element) {
  switch (type) {
    case ACL_FLOAT16:
      return Put(at, EncodeF16(element.real));
    case ACL_BF16: {
      std::byte wide[4];
      Put(wide, static_cast<float>(element.real));
      std::memcpy(at, wide + 2, 2);
      return;
    }
    case ACL_FLOAT:
      return Put(at, static_cast<float>(element.real));
    case ACL_DOUBLE:
      return Put(at, element.real);
    default: {
      const auto bits = static_cast<uint64_t>(element.integer);
      std::memcpy(at, &bits, static_cast<size_t>(RangeOf(type).bits / 8));
    }
  }
}

Element ConvertElement(const Element& element, aclDataType type) {
  if (type == ACL_BOOL) {
    return WholeElement(element.whole ? element.integer != 0
                                      : element.real != 0);
  }
  if (IsRealType(type)) {
    return RealElement(element.whole
                           ? RoundedWhole(element.integer, FormatOf(type))
                           : Rounded(element.real, FormatOf(type)));
  }
  return WholeElement(element.whole ? Wrapped(element.integer, RangeOf(type))
                                    : Truncated(element.real, RangeOf(type)));
}

Element AddElements(const Element& one, const Element& other,
                    const Element& alpha, aclDataType type) {
  return Combined(one, other, alpha, true, type);
}

Element MultiplyElements(const Element& one, const Element& other,
                         aclDataType type) {
  return Combined(one, other, WholeElement(1), false, type);
}

bool IsElement(aclDataType type, const std::byte* at, const Element& element) {
  if (!element.whole && std::isnan(element.real)) {
    return std::isnan(ReadElement(type, at).real);
  }
  std::byte expected[8];
  WriteElement(type, expected, element);
  return std::memcmp(at, expected, static_cast<size_t>(BytesOfType(type))) == 0;
}

}  // namespace flashacl::testing
