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

// Rows that will be read next, prefetched in the order of memory, whatever the
// order of the copies meanwhile: memory gives lines of a row faster than those
// of many rows (docs/notes/0028).
class NextRows {
 public:
  NextRows() = default;
  // `row_bytes` of each.
  NextRows(std::span<const RowPair> rows, int64_t row_bytes)
      : rows_(rows), row_bytes_(row_bytes) {}

  void PrefetchLines(int64_t count) {
    for (; count > 0; --count) {
      if (at_ >= end_) {
        if (rows_.empty()) return;
        at_ = rows_.front().from;
        end_ = at_ + row_bytes_;
        rows_ = rows_.subspan(1);
      }
      __builtin_prefetch(at_);
      at_ += kLine;
    }
  }

 private:
  std::span<const RowPair> rows_;  // after the one that is being prefetched
  int64_t row_bytes_ = 0;
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

struct StreamKernels {
  // Whole lines, to the begin of one.
  void (*copy)(const std::byte* from, int64_t bytes, std::byte* to) = nullptr;
  // Prefetches a line of `next` for each.
  void (*join)(std::span<const RowPair> rows, NextRows& next,
               const HalfLines& lines) = nullptr;
  // A worker is done with its copies after this.
  void (*flush)() = nullptr;
};

StreamKernels Kernels();

}  // namespace flashacl::pages
