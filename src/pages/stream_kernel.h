// SPDX-License-Identifier: Apache-2.0
// Copies past the caches, for the best instruction set that this processor has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flashacl::pages {

inline constexpr int64_t kLine = 64;
inline constexpr int64_t kHalfLine = kLine / 2;

// Where a row comes from and goes to.
struct RowPair {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

// Lines of each of some rows, or of each two of them, whose halves come from
// two places.
struct HalfLines {
  int64_t from = 0;  // from where a row begins
  int64_t from_step = 0;
  // The other half is the next row's, or so far from the first in the same row.
  bool two_rows = false;
  int64_t second = 0;
  int64_t to = 0;  // a line begins there, as where steps lead to
  int64_t to_step = 0;
  int64_t count = 0;
};

struct StreamKernels {
  // Whole lines, to the begin of one.
  void (*copy)(const std::byte* from, int64_t bytes, std::byte* to) = nullptr;
  // Prefetches what comes from the rows `next` meanwhile.
  void (*join)(std::span<const RowPair> rows, std::span<const RowPair> next,
               const HalfLines& lines) = nullptr;
  // A worker is done with its copies after this.
  void (*flush)() = nullptr;
};

StreamKernels Kernels();

}  // namespace flashacl::pages
