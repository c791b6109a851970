// SPDX-License-Identifier: Apache-2.0
// Out of pages: where each sequence's rows are is found first, then chunks of
// rows are copied, page by page.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/range.h"
#include "base/run_memory.h"
#include "base/str.h"
#include "cpu/streams.h"
#include "pages/pages.h"
#include "pages/row_copy.h"

namespace flashacl::pages {
namespace {

using At = std::span<std::byte* const>;

// A tensor of integers in this run.
struct IntegersHere {
  IntegersHere(const Integers& of, At at)
      : dtype(of.dtype),
        first(at[of.argument] + of.offset * SizeOf(of.dtype)),
        bytes{of.strides[0] * SizeOf(of.dtype),
              of.strides[1] * SizeOf(of.dtype)} {}

  int64_t operator()(int64_t n, int64_t column = 0) const {
    return ReadIndex(dtype, first + n * bytes[0] + column * bytes[1]);
  }

  DType dtype;
  const std::byte* first;
  std::array<int64_t, 2> bytes;
};

// The rows of one sequence.
struct Sequence {
  Range rows;
  int64_t column = 0;  // of the table: the first block's
};
using Sequences = RunVector<Sequence>;

// Far outside of every table, and far from overflow.
constexpr int64_t kFar = int64_t{1} << 60;

int64_t FloorDiv(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -1 - (-1 - a) / b;
}

class Gathering final : public Computation {
 public:
  explicit Gathering(Gather gather) : gather_(std::move(gather)) {}

  std::string_view name() const override { return "pages/gather"; }

  std::string Describe() const override {
    std::string text =
        Str("up to {} rows of {} sequences from {} blocks of {}:", gather_.rows,
            gather_.sequences, gather_.blocks, gather_.block_rows);
    for (const PagedRows& part : gather_.parts) {
      text += Str(" {} bytes", part.row_bytes());
    }
    return text;
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    return queue.OnHost([&](Workers& workers) -> Status {
      const int64_t rows =
          RowsOfChunk(gather_.parts, gather_.rows, workers.count());
      const RunMemoryScope memory;
      const Sequences sequences = ReadSequences(at);
      const int64_t end = sequences.empty() ? 0 : sequences.back().rows.last;
      workers.ForEach(CeilDiv(end, rows), [&](int64_t n) {
        const Range chunk{n * rows, std::min((n + 1) * rows, end)};
        for (const PagedRows& part : gather_.parts) {
          CopyChunk(part, at, sequences, chunk);
        }
      });
      return {};
    });
  }

 private:
  // Each begins where the one before it ends, or later.
  Sequences ReadSequences(At at) const {
    const IntegersHere lengths(gather_.lengths, at);
    Sequences sequences(static_cast<size_t>(gather_.sequences));
    int64_t end = 0;
    if (gather_.lengths_are_ends) {
      end = std::clamp<int64_t>(lengths(0), 0, gather_.rows);
    }
    for (int64_t b = 0; b < gather_.sequences; ++b) {
      Sequence& sequence = sequences[static_cast<size_t>(b)];
      const int64_t begin = end;
      end = gather_.lengths_are_ends
                ? std::clamp(lengths(b + 1), begin, gather_.rows)
                : begin +
                      std::clamp<int64_t>(lengths(b), 0, gather_.rows - begin);
      sequence.rows = {begin, end};
      if (!gather_.offsets) continue;
      const int64_t offset = IntegersHere(*gather_.offsets, at)(b);
      sequence.column =
          FloorDiv(std::clamp(offset, -kFar, kFar), gather_.block_rows);
    }
    return sequences;
  }

  void CopyChunk(const PagedRows& part, At at, const Sequences& sequences,
                 Range chunk) const {
    const RowCopy copy(part.element_bytes, part.dims, part.cache.axes,
                       part.tokens.axes,
                       cpu::Streams(gather_.rows * BytesOfRow(gather_.parts)));
    const auto first = std::ranges::upper_bound(
        sequences, chunk.first, {},
        [](const Sequence& sequence) { return sequence.rows.last; });
    for (auto b = first; b != sequences.end(); ++b) {
      const Range rows{std::max(chunk.first, b->rows.first),
                       std::min(chunk.last, b->rows.last)};
      if (b->rows.first >= chunk.last) break;
      CopySequence(part, copy, at, {b - sequences.begin(), &*b}, rows);
    }
  }

  struct Numbered {
    int64_t number;
    const Sequence* sequence;
  };

  void CopySequence(const PagedRows& part, const RowCopy& copy, At at,
                    const Numbered& of, Range rows) const {
    const IntegersHere table(gather_.table, at);
    const CacheRows& cache = part.cache;
    const std::byte* const from = at[cache.argument] + cache.offset;
    std::byte* const to = at[part.tokens.argument] + part.tokens.offset;
    RowCollector collected(copy);
    for (int64_t row = rows.first; row < rows.last;) {
      const int64_t t = row - of.sequence->rows.first;
      const int64_t in_block = t % gather_.block_rows;
      const Range in_page{
          row, std::min(rows.last, row + gather_.block_rows - in_block)};
      row = in_page.last;
      const std::optional<int64_t> block = BlockOf(
          table, of.number, of.sequence->column + t / gather_.block_rows);
      if (!block) continue;
      const std::byte* const page =
          from + *block * cache.block_stride + in_block * cache.stride;
      for (int64_t n = 0; n < in_page.size(); ++n) {
        collected.Add(page + n * cache.stride,
                      to + (in_page.first + n) * part.tokens.stride);
      }
    }
  }

  // Nothing if there is none.
  std::optional<int64_t> BlockOf(const IntegersHere& table, int64_t b,
                                 int64_t column) const {
    if (column < 0 || column >= gather_.columns) return {};
    const int64_t block = table(b, column);
    if (block < 0 || block >= gather_.blocks) return {};
    return block;
  }

  const Gather gather_;
};

}  // namespace

std::shared_ptr<const Computation> MakeGather(Gather gather) {
  return std::make_shared<const Gathering>(std::move(gather));
}

}  // namespace flashacl::pages
