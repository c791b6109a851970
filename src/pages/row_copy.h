// SPDX-License-Identifier: Apache-2.0
// Copying rows whose elements lie alike in all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pages/pages.h"

namespace flashacl::pages {

// Where a row comes from and goes to.
struct RowPair {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

// What there is to do for one row: pieces of bytes that lie together on both
// sides.
class RowCopy {
 public:
  RowCopy(int64_t element_bytes, const RowAxes& dims, const RowAxes& from,
          const RowAxes& to);

  // Rows must not overlap.
  void operator()(std::span<const RowPair> rows) const;

  int64_t piece_bytes() const { return piece_; }
  int axes() const { return axes_; }

 private:
  struct Axis {
    int64_t count = 1;
    int64_t from = 0;
    int64_t to = 0;
  };

  void CopyWhole(std::span<const RowPair> rows) const;
  template <int64_t kPiece>
  void CopyPieces(std::span<const RowPair> rows) const;
  template <int64_t kPiece>
  void CopyTile(std::span<const RowPair> rows,
                std::span<const RowPair> next) const;

  int64_t piece_;
  int axes_ = 0;                // over pieces; 0: a row is one
  std::array<Axis, 3> axis_{};  // the innermost first
};

// Takes rows one by one and copies some together.
class RowCollector {
 public:
  explicit RowCollector(const RowCopy& copy) : copy_(copy) {}
  ~RowCollector() { Flush(); }
  RowCollector(const RowCollector&) = delete;
  RowCollector& operator=(const RowCollector&) = delete;

  void Add(const std::byte* from, std::byte* to) {
    rows_[count_++] = {from, to};
    if (count_ == kRows) Flush();
  }

 private:
  static constexpr size_t kRows = 64;

  void Flush() {
    copy_(std::span(rows_).first(count_));
    count_ = 0;
  }

  const RowCopy& copy_;
  std::array<RowPair, kRows> rows_;
  size_t count_ = 0;
};

// So many rows take a worker longer than to be handed out.
int64_t RowsOfChunk(std::span<const PagedRows> parts);

}  // namespace flashacl::pages
