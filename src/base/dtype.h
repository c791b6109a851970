// SPDX-License-Identifier: Apache-2.0
// The element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

namespace flashacl {

enum class DType : uint8_t {
  kNone,  // no tensor, or a type we do not compute with
  kF32,
  kF16,
  kBf16,
  kI8,
  kU8,
  kBool,
  kI32,
  kI64,
  kU64,
  kF64,
  kI4x8,  // a word of eight 4-bit integers, the first in its lowest bits
};

// Bytes of one element; 0 for kNone.
int64_t SizeOf(DType dtype);

// "f32", "bf16", ...; "none" for kNone. ParseDType is its inverse and answers
// kNone for anything else.
std::string_view Name(DType dtype);
DType ParseDType(std::string_view name);

// Numbers in one element.
constexpr int64_t NumbersOf(DType dtype) {
  return dtype == DType::kI4x8 ? 8 : 1;
}

// Integers that a scale makes numbers of.
constexpr bool IsQuantised(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI4x8;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

}  // namespace flashacl
