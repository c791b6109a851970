// SPDX-License-Identifier: Apache-2.0
// Loops over the pieces of rows.
#include "pages/row_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace flashacl::pages {
namespace {

// Rows whose half lines are joined together, and pieces of each of them before
// the next pieces (docs/notes/0028).
constexpr size_t kJoinedRows = 64;
constexpr int64_t kRowPieces = 2;    // of rows into a cache, a line
constexpr int64_t kCachePieces = 4;  // out of a cache into rows

void Prefetch(const std::byte* at) { __builtin_prefetch(at); }
void PrefetchToWrite(std::byte* at) { __builtin_prefetch(at, 1); }

// After so much hardware foresees the rest.
void PrefetchBegin(const RowPair& row, int64_t bytes) {
  constexpr int64_t kBegin = 1024;
  for (int64_t b = 0; b < std::min(bytes, kBegin); b += kLine) {
    Prefetch(row.from + b);
    PrefetchToWrite(row.to + b);
  }
}

bool BeginsLine(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) % kLine == 0;
}

// Calls body(from, to, count) for all pieces: so many of the inner axis, at
// most `together`, that begin there.
template <typename Axes, typename Body>
void ForPieces(const Axes& axes, int64_t together, Body body) {
  const auto& [inner, middle, outer] = axes;
  for (int64_t i = 0; i < outer.count * middle.count; ++i) {
    const int64_t from =
        i / middle.count * outer.from + i % middle.count * middle.from;
    const int64_t to =
        i / middle.count * outer.to + i % middle.count * middle.to;
    for (int64_t n = 0; n < inner.count; n += together) {
      const int64_t count = std::min(together, inner.count - n);
      body(from + n * inner.from, to + n * inner.to, count);
    }
  }
}

}  // namespace

RowCopy::RowCopy(int64_t element_bytes, const RowAxes& dims,
                 const RowAxes& from, const RowAxes& to, bool streams)
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
  if (!streams) return;
  lines_ = LinesOf();
  dense_bytes_ = piece_;
  for (const Axis& axis : axis_) {
    dense_bytes_ *=
        axis.count == 1 || axis.from == dense_bytes_ ? axis.count : 0;
  }
  kernels_ = Kernels();
}

RowCopy::Lines RowCopy::LinesOf() const {
  const auto leads_to_lines = [](const Axis& axis) {
    return axis.count == 1 || axis.to % kLine == 0;
  };
  const auto& [inner, middle, outer] = axis_;
  if (!leads_to_lines(middle) || !leads_to_lines(outer)) return Lines::kNone;
  if (piece_ == kHalfLine) {
    if (inner.to == kHalfLine && inner.count % 2 == 0) return Lines::kTwoPieces;
    return leads_to_lines(inner) ? Lines::kTwoRows : Lines::kNone;
  }
  const bool pieces = piece_ % kLine == 0 && leads_to_lines(inner);
  return pieces ? Lines::kPieces : Lines::kNone;
}

void RowCopy::operator()(std::span<const RowPair> rows) const {
  if (lines_ != Lines::kNone) return StreamRows(rows);
  CopyApart(rows);
}

// How many of the first rows are whole lines.
size_t RowCopy::RowsInLines(std::span<const RowPair> rows) const {
  size_t n = 0;
  if (lines_ != Lines::kTwoRows) {
    while (n < rows.size() && BeginsLine(rows[n].to)) ++n;
    return n;
  }
  while (n + 1 < rows.size() && BeginsLine(rows[n].to) &&
         rows[n + 1].to == rows[n].to + kHalfLine) {
    n += 2;
  }
  return n;
}

// Where rows are no lines, until they are.
void RowCopy::StreamRows(std::span<const RowPair> rows) const {
  while (!rows.empty()) {
    const size_t in_lines = RowsInLines(rows);
    if (in_lines > 0) {
      for (size_t n = 0; n < in_lines; n += kJoinedRows) {
        const size_t count = std::min(kJoinedRows, in_lines - n);
        const auto next = rows.subspan(n + count);
        StreamTile(rows.subspan(n, count),
                   next.first(std::min(kJoinedRows, next.size())));
      }
      rows = rows.subspan(in_lines);
      continue;
    }
    size_t apart = 1;
    while (apart < rows.size() && RowsInLines(rows.subspan(apart)) == 0) {
      ++apart;
    }
    CopyApart(rows.first(apart));
    rows = rows.subspan(apart);
  }
}

// Pieces that are lines go row by row, as hardware foresees whole rows. Of half
// lines a few pieces of many rows go before the next pieces, so that what lies
// together in the cache is read, or written, in a row. Where it is read,
// hardware foresees it; where it is written, the next rows are prefetched.
void RowCopy::StreamTile(std::span<const RowPair> rows,
                         std::span<const RowPair> next) const {
  if (lines_ == Lines::kPieces) {
    for (const RowPair& row : rows) StreamRow(row);
    return;
  }
  const Axis& inner = axis_[0];
  const bool two_rows = lines_ == Lines::kTwoRows;
  const int64_t together = two_rows ? kRowPieces : kCachePieces;
  NextRows next_rows;
  if (two_rows && dense_bytes_ > 0) next_rows = {next, dense_bytes_};
  ForPieces(axis_, together, [&](int64_t from, int64_t to, int64_t count) {
    kernels_.join(rows, next_rows,
                  {.from = from,
                   .from_step = two_rows ? inner.from : 2 * inner.from,
                   .two_rows = two_rows,
                   .second = inner.from,
                   .to = to,
                   .to_step = two_rows ? inner.to : kLine,
                   .count = two_rows ? count : count / 2});
  });
}

void RowCopy::StreamRow(const RowPair& row) const {
  ForPieces(axis_, 1, [&](int64_t from, int64_t to, int64_t) {
    kernels_.copy(row.from + from, piece_, row.to + to);
  });
}

void RowCopy::CopyApart(std::span<const RowPair> rows) const {
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
  constexpr size_t kRowsApart = 4;
  while (!rows.empty()) {
    const auto tile = rows.first(std::min(kRowsApart, rows.size()));
    rows = rows.subspan(tile.size());
    CopyTile<kPiece>(tile, rows.first(std::min(kRowsApart, rows.size())));
  }
}

template <int64_t kPiece>
void RowCopy::CopyTile(std::span<const RowPair> rows,
                       std::span<const RowPair> next) const {
  // Of one row, before the next row has its turn: what lies together in rows.
  constexpr int64_t kTogetherBytes = 256;
  const int64_t bytes = kPiece == 0 ? piece_ : kPiece;
  const int64_t together = std::max<int64_t>(1, kTogetherBytes / bytes);
  const Axis& inner = axis_[0];
  ForPieces(axis_, together, [&](int64_t from, int64_t to, int64_t count) {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (bytes >= kLine / 2 && r < next.size()) {
        for (int64_t piece = 0; piece < count; ++piece) {
          for (int64_t b = 0; b < bytes; b += kLine) {
            Prefetch(next[r].from + from + piece * inner.from + b);
            PrefetchToWrite(next[r].to + to + piece * inner.to + b);
          }
        }
      }
      for (int64_t piece = 0; piece < count; ++piece) {
        std::memcpy(rows[r].to + to + piece * inner.to,
                    rows[r].from + from + piece * inner.from,
                    static_cast<size_t>(bytes));
      }
    }
  });
}

int64_t BytesOfRow(std::span<const PagedRows> parts) {
  int64_t bytes = 0;
  for (const PagedRows& part : parts) bytes += part.row_bytes();
  return bytes;
}

int64_t RowsOfChunk(std::span<const PagedRows> parts, int64_t rows,
                    int64_t workers) {
  constexpr int64_t kMinBytes = 1 << 17, kMaxBytes = 1 << 21;
  constexpr int64_t kChunksOfWorker = 8;
  const int64_t row_bytes = std::max<int64_t>(BytesOfRow(parts), 1);
  const int64_t bytes = std::clamp(
      rows * row_bytes / (workers * kChunksOfWorker), kMinBytes, kMaxBytes);
  return std::max<int64_t>(1, bytes / row_bytes);
}

}  // namespace flashacl::pages
