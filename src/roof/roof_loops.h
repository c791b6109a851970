// SPDX-License-Identifier: Apache-2.0
// The loops that roofs are measured by, of one instruction set (roof.cc).
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashacl::roof {

struct RoofLoops {
  int64_t (*multiply_add)(int64_t rounds, float seed, float* sum);
  void (*read_all)(const uint64_t* words, size_t count, uint64_t* sum);
};

}  // namespace flashacl::roof
