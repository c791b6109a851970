// SPDX-License-Identifier: Apache-2.0
// Operations that make each element of a result of the elements at its place:
//   add   out = self + alpha * other
//   mul   out = self * other
//   copy  out = self
// in a type of its own, then as out's type. 16-bit floats are computed with in
// fp32, every operation of which rounds, and are rounded once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "elementwise/loops.h"
#include "elementwise/type.h"
#include "elementwise/walk.h"
#include "plan/computation.h"

namespace flashacl::elementwise {

enum class Kind : uint8_t { kAdd, kMul, kCopy };

// A tensor as the operation walks through it.
struct Operand {
  size_t argument = 0;  // whose data it is, of those that a run is given
  Type type = Type::kF32;
  Axes strides{};  // elements; 0 where it repeats
  int64_t offset = 0;
};

struct Operation {
  Kind kind = Kind::kCopy;
  // The result's before it is out's: what self and other promote to. A copy has
  // out's.
  Type type = Type::kF32;
  std::vector<int64_t> extents;  // out's: at most kMaxRank, none of them 0
  std::vector<Operand> inputs;   // self, and other if there is one
  Operand out;
  Alpha alpha{};        // of ArithmeticType(type), for add
  bool scaled = false;  // whether alpha is not 1
};

// What a type is computed with in.
constexpr Type ArithmeticType(Type type) {
  return IsHalf(type) ? Type::kF32 : type;
}

// Out may be an input, element for element. The same bits for any number of
// workers.
std::shared_ptr<const Computation> MakeElementwise(Operation operation);

}  // namespace flashacl::elementwise
