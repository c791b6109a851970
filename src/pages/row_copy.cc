// SPDX-License-Identifier: Apache-2.0
// Loops over the pieces of rows.
#include "pages/row_copy.h"

#include <algorithm>
#include <cstring>

namespace flashacl::pages {
namespace {

void Prefetch(const std::byte* at) { __builtin_prefetch(at); }
void PrefetchToWrite(std::byte* at) { __builtin_prefetch(at, 1); }

constexpr int64_t kLine = 64;

// After so much hardware foresees the rest.
void PrefetchBegin(const RowPair& row, int64_t bytes) {
  constexpr int64_t kBegin = 1024;
  for (int64_t b = 0; b < std::min(bytes, kBegin); b += kLine) {
    Prefetch(row.from + b);
    PrefetchToWrite(row.to + b);
  }
}

}  // namespace

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
    if (n < rows.size()) PrefetchBegin(rows[n], piece_);
    std::memcpy(first.to, first.from, static_cast<size_t>(bytes));
  }
}

// Pieces of four rows are copied before the next pieces of the same rows: in a
// cache they lie together, whole lines of them where pieces are half a line.
// Hardware does not foresee where the next four go.
template <int64_t kPiece>
void RowCopy::CopyPieces(std::span<const RowPair> rows) const {
  constexpr size_t kTile = 4;
  while (!rows.empty()) {
    const auto tile = rows.first(std::min(kTile, rows.size()));
    rows = rows.subspan(tile.size());
    CopyTile<kPiece>(tile, rows.first(std::min(kTile, rows.size())));
  }
}

template <int64_t kPiece>
void RowCopy::CopyTile(std::span<const RowPair> rows,
                       std::span<const RowPair> next) const {
  // Of one row, before the next row has its turn: what lies together in rows.
  constexpr int64_t kTogetherBytes = 256;
  const int64_t bytes = kPiece == 0 ? piece_ : kPiece;
  const int64_t together = std::max<int64_t>(1, kTogetherBytes / bytes);
  const auto& [inner, middle, outer] = axis_;
  for (int64_t i = 0; i < outer.count * middle.count; ++i) {
    const int64_t from =
        i / middle.count * outer.from + i % middle.count * middle.from;
    const int64_t to =
        i / middle.count * outer.to + i % middle.count * middle.to;
    for (int64_t n = 0; n < inner.count; n += together) {
      const int64_t last = std::min(n + together, inner.count);
      for (size_t r = 0; r < rows.size(); ++r) {
        if (bytes >= kLine / 2 && r < next.size()) {
          for (int64_t piece = n; piece < last; ++piece) {
            for (int64_t b = 0; b < bytes; b += kLine) {
              Prefetch(next[r].from + from + piece * inner.from + b);
              PrefetchToWrite(next[r].to + to + piece * inner.to + b);
            }
          }
        }
        for (int64_t piece = n; piece < last; ++piece) {
          std::memcpy(rows[r].to + to + piece * inner.to,
                      rows[r].from + from + piece * inner.from,
                      static_cast<size_t>(bytes));
        }
      }
    }
  }
}

int64_t RowsOfChunk(std::span<const PagedRows> parts) {
  constexpr int64_t kChunkBytes = 1 << 17;
  int64_t bytes = 0;
  for (const PagedRows& part : parts) bytes += part.row_bytes();
  return std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(bytes, 1));
}

}  // namespace flashacl::pages
