// SPDX-License-Identifier: Apache-2.0
// One element of any type, as a number.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/half.h"

namespace flashacl {

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename T>
void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

// Number `n` of a kI4x8 element: -8 to 7.
inline int32_t ReadFourBits(const std::byte* word, int64_t n) {
  const uint32_t raised = Load<uint32_t>(word) << (28 - 4 * n);
  return static_cast<int32_t>(raised) >> 28;
}

inline void WriteFourBits(std::byte* word, int64_t n, int32_t value) {
  const uint32_t mask = uint32_t{15} << (4 * n);
  const uint32_t bits = (static_cast<uint32_t>(value) << (4 * n)) & mask;
  Store(word, (Load<uint32_t>(word) & ~mask) | bits);
}

// Exact for every type but the 64-bit integers; not of kI4x8, whose elements
// are several.
inline double ReadNumber(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(Load<float>(at));
    case DType::kF16:
      return static_cast<double>(F32FromF16(Load<uint16_t>(at)));
    case DType::kBf16:
      return static_cast<double>(F32FromBf16(Load<uint16_t>(at)));
    case DType::kI8:
      return Load<int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return Load<uint8_t>(at);
    case DType::kI32:
      return Load<int32_t>(at);
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(at));
    case DType::kU64:
      return static_cast<double>(Load<uint64_t>(at));
    case DType::kF64:
      return Load<double>(at);
    case DType::kI4x8:
    case DType::kNone:
      break;
  }
  return 0;
}

// A length, page or column: kI32, or else kI64, exactly.
inline int64_t ReadIndex(DType dtype, const std::byte* at) {
  return dtype == DType::kI32 ? Load<int32_t>(at) : Load<int64_t>(at);
}

// Rounds once, to nearest even; integers must be within their type.
inline void WriteNumber(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF32:
      return Store(at, static_cast<float>(value));
    case DType::kF16:
      return Store(at, F16FromF64(value));
    case DType::kBf16:
      return Store(at, Bf16FromF64(value));
    case DType::kI8:
      return Store(at, static_cast<int8_t>(std::nearbyint(value)));
    case DType::kU8:
    case DType::kBool:
      return Store(at, static_cast<uint8_t>(std::nearbyint(value)));
    case DType::kI32:
      return Store(at, static_cast<int32_t>(std::nearbyint(value)));
    case DType::kI64:
      return Store(at, static_cast<int64_t>(std::nearbyint(value)));
    case DType::kU64:
      return Store(at, static_cast<uint64_t>(std::nearbyint(value)));
    case DType::kF64:
      return Store(at, value);
    case DType::kI4x8:
    case DType::kNone:
      break;
  }
}

}  // namespace flashacl
