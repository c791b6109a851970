// SPDX-License-Identifier: Apache-2.0
// The loops over elements of known types, chosen once per operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "elementwise/type.h"

namespace flashacl::elementwise {

// Asks for a loop in vectors: element i of a result depends on no element but
// the i-th of the inputs, even where both are the same memory.
#if defined(__clang__)
#define FLASHACL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FLASHACL_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Elements, or room for them, a step apart that is counted in elements.
struct Elements {
  const std::byte* at = nullptr;
  int64_t step = 1;
};
struct Room {
  std::byte* at = nullptr;
  int64_t step = 1;
};

// to[i] = from[i] as another type, for i in [0, count).
using ConvertLoop = void (*)(Elements from, Room to, int64_t count);

// Null for complex numbers and another type.
ConvertLoop ConvertLoopOf(Type from, Type to);

// What the sum's second operand is multiplied by: an element of the type that
// is computed in.
using Alpha = std::array<std::byte, 8>;

// c[i] = a[i] + alpha * b[i], or a[i] * b[i], of dense elements of one type;
// c may be a or b.
using ArithmeticLoop = void (*)(const std::byte* a, const std::byte* b,
                                const Alpha& alpha, std::byte* c,
                                int64_t count);

// For types that are computed in: fp32, fp64, integers but unsigned ones of
// more than a byte, bool. A sum that is not `scaled` has no alpha.
ArithmeticLoop AddLoopOf(Type type, bool scaled);
ArithmeticLoop MultiplyLoopOf(Type type);

}  // namespace flashacl::elementwise
