// SPDX-License-Identifier: Apache-2.0
// Copies past the caches, for the best instruction set that this processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashacl::pages {

inline constexpr int64_t kLine = 64;
inline constexpr int64_t kHalfLine = kLine / 2;

// Lines `to_step` apart, whose halves come from two places, each `from_step`
// after its last.
struct HalfLines {
  const std::byte* first = nullptr;
  const std::byte* second = nullptr;
  int64_t from_step = 0;
  std::byte* to = nullptr;  // a line's begin, as is what a step leads to
  int64_t to_step = 0;
  int64_t count = 0;
};

struct StreamKernels {
  // Whole lines, to the begin of one.
  void (*copy)(const std::byte* from, int64_t bytes, std::byte* to) = nullptr;
  void (*join)(const HalfLines& lines) = nullptr;
  // A worker is done with its copies after this.
  void (*flush)() = nullptr;
};

StreamKernels Kernels();

}  // namespace flashacl::pages
