// SPDX-License-Identifier: Apache-2.0
// The element types of elementwise operations, which are more than attention
// has (base/dtype.h), and what C++ holds them in.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace flashacl::elementwise {

enum class Type : uint8_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,  // a byte; all but 0 are true, 1 is written
  kC64,   // complex numbers are copied only
  kC128,
};
inline constexpr int kTypes = 15;

int64_t SizeOf(Type type);          // bytes of one element
std::string_view Name(Type type);   // "f32", "bf16", ...
constexpr bool IsHalf(Type type) {  // computed with as fp32
  return type == Type::kF16 || type == Type::kBf16;
}
constexpr bool IsFloat(Type type) {
  return type == Type::kF32 || type == Type::kF64 || IsHalf(type);
}
constexpr bool IsComplex(Type type) {
  return type == Type::kC64 || type == Type::kC128;
}

// Elements that C++ has no type for, as they lie in memory.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};
struct C64 {
  uint64_t bits;
};
struct C128 {
  uint64_t bits[2];
};

// Calls body(T()) with the C++ type T of an element.
template <typename Body>
constexpr auto WithElement(Type type, Body&& body) {
  switch (type) {
    case Type::kF32:
      return body(float());
    case Type::kF16:
      return body(F16());
    case Type::kBf16:
      return body(Bf16());
    case Type::kF64:
      return body(double());
    case Type::kI8:
      return body(int8_t());
    case Type::kI16:
      return body(int16_t());
    case Type::kI32:
      return body(int32_t());
    case Type::kI64:
      return body(int64_t());
    case Type::kU8:
      return body(uint8_t());
    case Type::kU16:
      return body(uint16_t());
    case Type::kU32:
      return body(uint32_t());
    case Type::kU64:
      return body(uint64_t());
    case Type::kBool:
      return body(Bool());
    case Type::kC64:
      return body(C64());
    default:
      return body(C128());
  }
}

}  // namespace flashacl::elementwise
