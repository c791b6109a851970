// SPDX-License-Identifier: Apache-2.0
// Every implementation, and the problems that it is tried on.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/forward/forward_kernel.h"
#include "cpu/implementations.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

namespace flashacl::testing {

struct Tried {
  const Implementation* implementation;
  int64_t right;   // problems that are compared with the reference
  int64_t fenced;  // and that run between fences
  Space space;
};

inline Space Forward(int64_t sequences, int64_t rows, int64_t columns,
                     int64_t heads, int64_t dim) {
  Space space;
  space.backward = false;
  space.most_sequences = sequences;
  space.most_rows = rows;
  space.most_columns = columns;
  space.most_heads = heads;
  space.most_dim = dim;
  return space;
}

inline Space Backward(Space space) {
  space.forward = false;
  space.backward = true;
  return space;
}

// What lists come with: no bias, dropout, gradient of a sink, or rows of keys
// as caches hold them.
inline Space Listed(Space space) {
  space.bias = space.dropout = space.caches = false;
  return space;
}

// Of each implementation small problems, of every combination of what a
// problem may have; then such as take several steps of keys, panels, tiles,
// splits, kv blocks or stages.
inline std::vector<Tried> AllTried() {
  return {
      {&kCpuForward, 2000, 500, Forward(4, 24, 40, 8, 200)},
      {&kCpuForward, 200, 50, Forward(2, 300, 700, 3, 70)},
      {&kCpuForward, 0, 20, Forward(2, 300, 2500, 3, 40)},
      {&kCpuDecode, 2000, 500, Forward(4, 6, 130, 8, 200)},
      {&kCpuDecode, 100, 50, Forward(3, 4, 4000, 4, 40)},
      {&kCpuMixed, 800, 200, Forward(5, 60, 130, 8, 100)},
      {&kCpuMixed, 60, 30, Forward(4, 70, 4000, 3, 24)},
      {&kCpuBackward, 1500, 300, Backward(Forward(4, 24, 40, 8, 200))},
      {&kCpuBackward, 100, 20, Backward(Forward(2, 300, 400, 4, 70))},
      {&kCpuTopKDecode, 1000, 800, Listed(Forward(4, 24, 40, 8, 200))},
      {&kCpuTopKDecode, 200, 100, Listed(Forward(2, 6, 1500, 40, 40))},
      {&kCpuTopKForward, 1500, 1200, Listed(Forward(4, 24, 40, 8, 200))},
      {&kCpuTopKForward, 200, 100, Listed(Forward(2, 6, 1500, 40, 40))},
      {&kCpuTopKBackward, 600, 400,
       Listed(Backward(Forward(4, 24, 40, 8, 200)))},
      {&kCpuTopKBackward, 60, 40,
       Listed(Backward(Forward(2, 30, 900, 40, 40)))},
  };
}

// One implementation on one target.
class EachKernel : public ::testing::TestWithParam<Setting> {
 protected:
  const OnTarget target_{GetParam().target};
  const Implementation& implementation_ = *GetParam().implementation;

  Direction direction() const {
    const bool backward = implementation_.name.starts_with("cpu/backward");
    return backward ? Direction::kBackward : Direction::kForward;
  }
};

inline auto EveryKernel() {
  return ::testing::ValuesIn(
      Settings({&kCpuForward, &kCpuDecode, &kCpuMixed, &kCpuBackward,
                &kCpuTopKDecode, &kCpuTopKForward, &kCpuTopKBackward}));
}

}  // namespace flashacl::testing
