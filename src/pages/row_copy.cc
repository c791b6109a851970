// SPDX-License-Identifier: Apache-2.0
// Loops over the pieces of rows.
#include "pages/row_copy.h"

#include <algorithm>
#include <cstring>

namespace flashacl::pages {

RowCopy::RowCopy(int64_t element_bytes, const RowAxes& dims,
                 const RowAxes& from, const RowAxes& to)
    : piece_(element_bytes) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1) continue;
    const Axis next{dims[axis], from[axis], to[axis]};
    if (axes_ == 0 && next.from == piece_ && next.to == piece_) {
      piece_ *= next.count;
      continue;
    }
    if (axes_ > 0) {
      Axis& inner = axis_[static_cast<size_t>(axes_ - 1)];
      if (next.from == inner.count * inner.from &&
          next.to == inner.count * inner.to) {
        inner.count *= next.count;
        continue;
      }
    }
    axis_[static_cast<size_t>(axes_++)] = next;
  }
}

void RowCopy::operator()(std::span<const RowPair> rows) const {
  if (axes_ == 0) return CopyWhole(rows);
  // Known sizes are loads and stores instead of calls.
  switch (piece_) {
    case 1:
      return CopyPieces<1>(rows);
    case 2:
      return CopyPieces<2>(rows);
    case 32:
      return CopyPieces<32>(rows);
    default:
      return CopyPieces<0>(rows);
  }
}

// Rows that lie one after the other on both sides are one piece.
void RowCopy::CopyWhole(std::span<const RowPair> rows) const {
  for (size_t n = 0; n < rows.size();) {
    const RowPair first = rows[n];
    int64_t bytes = piece_;
    for (++n; n < rows.size(); ++n) {
      if (rows[n].from != first.from + bytes) break;
      if (rows[n].to != first.to + bytes) break;
      bytes += piece_;
    }
    std::memcpy(first.to, first.from, static_cast<size_t>(bytes));
  }
}

template <int64_t kPiece>
void RowCopy::CopyPieces(std::span<const RowPair> rows) const {
  const auto bytes = static_cast<size_t>(kPiece == 0 ? piece_ : kPiece);
  const auto& [inner, middle, outer] = axis_;
  // Two pieces of an NZ cache are one line of a row.
  constexpr int64_t kTogether = 2;
  for (int64_t i = 0; i < outer.count * middle.count; ++i) {
    const int64_t from =
        i / middle.count * outer.from + i % middle.count * middle.from;
    const int64_t to =
        i / middle.count * outer.to + i % middle.count * middle.to;
    for (int64_t n = 0; n < inner.count; n += kTogether) {
      const int64_t last = std::min(n + kTogether, inner.count);
      for (const RowPair& row : rows) {
        for (int64_t piece = n; piece < last; ++piece) {
          std::memcpy(row.to + to + piece * inner.to,
                      row.from + from + piece * inner.from, bytes);
        }
      }
    }
  }
}

int64_t RowsOfChunk(std::span<const PagedRows> parts) {
  constexpr int64_t kChunkBytes = 1 << 16;
  int64_t bytes = 0;
  for (const PagedRows& part : parts) bytes += part.row_bytes();
  return std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(bytes, 1));
}

}  // namespace flashacl::pages
