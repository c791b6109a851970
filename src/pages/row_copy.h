// SPDX-License-Identifier: Apache-2.0
// Copying rows whose elements lie alike in all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pages/pages.h"
#include "pages/stream_kernel.h"

namespace flashacl::pages {

// What there is to do for one row: pieces of bytes that lie together on both
// sides.
class RowCopy {
 public:
  // One that `streams` writes past the caches what are whole lines.
  RowCopy(int64_t element_bytes, const RowAxes& dims, const RowAxes& from,
          const RowAxes& to, bool streams = false);

  // Rows must not overlap.
  void operator()(std::span<const RowPair> rows) const;

  // A worker is done with its rows.
  void Finish() const {
    if (lines_ != Lines::kNone) kernels_.flush();
  }

  int64_t piece_bytes() const { return piece_; }
  int axes() const { return axes_; }

 private:
  struct Axis {
    int64_t count = 1;
    int64_t from = 0;
    int64_t to = 0;
  };

  // What makes a line: pieces that are lines; two pieces of half a line that
  // are neighbours in a row, or in two rows that are neighbours.
  enum class Lines : uint8_t { kNone, kPieces, kTwoPieces, kTwoRows };

  Lines LinesOf() const;
  size_t RowsInLines(std::span<const RowPair> rows) const;
  void StreamRows(std::span<const RowPair> rows) const;
  void StreamTile(std::span<const RowPair> rows,
                  std::span<const RowPair> next) const;
  void StreamRow(const RowPair& row) const;

  void CopyApart(std::span<const RowPair> rows) const;
  void CopyWhole(std::span<const RowPair> rows) const;
  template <int64_t kPiece>
  void CopyPieces(std::span<const RowPair> rows) const;
  template <int64_t kPiece>
  void CopyTile(std::span<const RowPair> rows,
                std::span<const RowPair> next) const;

  int64_t piece_;
  int axes_ = 0;                // over pieces; 0: a row is one
  std::array<Axis, 3> axis_{};  // the innermost first
  Lines lines_ = Lines::kNone;
  int64_t dense_bytes_ = 0;  // of a row where it comes from; 0: it has gaps
  StreamKernels kernels_;
};

// Takes rows one by one and copies some together.
class RowCollector {
 public:
  explicit RowCollector(const RowCopy& copy) : copy_(copy) {}
  ~RowCollector() {
    Flush();
    copy_.Finish();
  }
  RowCollector(const RowCollector&) = delete;
  RowCollector& operator=(const RowCollector&) = delete;

  void Add(const std::byte* from, std::byte* to) {
    rows_[count_++] = {from, to};
    if (count_ == kRows) Flush();
  }

 private:
  static constexpr size_t kRows = 256;

  void Flush() {
    copy_(std::span(rows_).first(count_));
    count_ = 0;
  }

  const RowCopy& copy_;
  std::array<RowPair, kRows> rows_;
  size_t count_ = 0;
};

// Of all parts together.
int64_t BytesOfRow(std::span<const PagedRows> parts);

// Rows of a chunk: enough to be worth handing out, few enough that all workers
// have some (docs/notes/0028).
int64_t RowsOfChunk(std::span<const PagedRows> parts, int64_t rows,
                    int64_t workers);

}  // namespace flashacl::pages
