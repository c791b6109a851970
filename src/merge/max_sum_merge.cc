// SPDX-License-Identifier: Apache-2.0
// Two parts by max and sum: chunks of tokens and heads for the workers. Of a
// chunk the statistics come first, in the order in which they lie, then rows.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/range.h"
#include "base/run_memory.h"
#include "base/str.h"
#include "merge/merge.h"
#include "merge/merge_row.h"

namespace flashacl::merge {
namespace {

using At = std::span<std::byte* const>;

// Rows of a chunk, whose weights take 8 KiB. As many heads of them as there
// are, up to so many: statistics of a head lie together, and so do heads of a
// token.
constexpr int64_t kChunkRows = 1024;
constexpr int64_t kChunkHeads = 64;

// One part of a row, or the whole.
struct MaxAndSum {
  float max = -FLT_MAX;
  float sum = FLT_MAX;

  bool saw_nothing() const {
    return (max == -FLT_MAX && sum >= FLT_MAX) || max == -HUGE_VALF;
  }
};

// The merged row, and what its parts weigh in it.
struct MergedRow {
  MaxAndSum whole;
  float weights[2] = {0, 0};
};

MergedRow Merge(const MaxAndSum& one, const MaxAndSum& other) {
  MergedRow row;
  const bool none = one.saw_nothing() && other.saw_nothing();
  if (none) return row;
  // Not max(), which could take a number for a NaN.
  row.whole.max = one.saw_nothing()        ? other.max
                  : other.saw_nothing()    ? one.max
                  : !(one.max < other.max) ? one.max
                                           : other.max;
  const auto scaled = [&](const MaxAndSum& part) {
    return part.saw_nothing() ? 0.0f
           : part.max == row.whole.max
               ? part.sum
               : part.sum * std::exp(part.max - row.whole.max);
  };
  const float first = scaled(one);
  const float second = scaled(other);
  row.whole.sum = first + second;
  if (row.whole.sum == 0) return row;
  row.weights[0] = first / row.whole.sum;
  row.weights[1] = second / row.whole.sum;
  return row;
}

// The tokens of one chunk that one sequence of a packed batch has.
struct Segment {
  Range tokens;
  int64_t first = 0;   // token of the sequence
  int64_t length = 0;  // of the sequence
};

// A chunk of rows.
struct Chunk {
  int64_t sequence = 0;  // of a batch
  Range tokens;
  Range heads;
};

struct RowNumber {
  int64_t sequence, token, head;
};

// Where a tensor's rows are in this run.
struct RowsHere {
  RowsHere(const HeadRows& rows, At at) {
    const int64_t bytes = SizeOf(rows.dtype);
    first = at[rows.argument] + rows.offset * bytes;
    sequence_bytes = rows.sequence_stride * bytes;
    token_bytes = rows.token_stride * bytes;
    head_bytes = rows.head_stride * bytes;
    format.dtype = rows.dtype;
    format.step = rows.step;
    format.element_bytes = bytes;
  }

  std::byte* Row(const RowNumber& row) const {
    return first + row.sequence * sequence_bytes + row.token * token_bytes +
           row.head * head_bytes;
  }

  std::byte* first;
  int64_t sequence_bytes, token_bytes, head_bytes;
  cpu::ElementFormat format;
};

// Where a statistic's numbers are in this run.
struct StatisticHere {
  StatisticHere(const Statistic& of, At at)
      : first(at[of.argument] + of.offset * int64_t{sizeof(float)}) {
    for (size_t axis = 0; axis < bytes.size(); ++axis) {
      bytes[axis] = of.strides[axis] * int64_t{sizeof(float)};
    }
  }

  // To all copies of the number at `to`.
  void Write(std::byte* to, float value) const {
    if (bytes[3] == sizeof(float)) {
      std::array<float, kCopies> copies;
      copies.fill(value);
      return Store(to, copies);
    }
    for (int64_t n = 0; n < kCopies; ++n) Store(to + n * bytes[3], value);
  }

  std::byte* first;
  std::array<int64_t, 4> bytes;
};

// One run.
struct Tensors {
  Tensors(const MaxSumMerge& merge, At at)
      : parts{RowsHere(merge.parts[0], at), RowsHere(merge.parts[1], at)},
        out(merge.out, at),
        max{StatisticHere(merge.max[0], at), StatisticHere(merge.max[1], at)},
        sum{StatisticHere(merge.sum[0], at), StatisticHere(merge.sum[1], at)},
        max_out(merge.max_out, at),
        sum_out(merge.sum_out, at),
        rows(merge.batch * merge.tokens * merge.heads, merge.channels,
             out.format, out.first) {
    for (const RowsHere& part : parts) rows.Add(part.format, part.first);
  }

  std::array<RowsHere, 2> parts;
  RowsHere out;
  std::array<StatisticHere, 2> max, sum;
  StatisticHere max_out, sum_out;
  RowMerge<2> rows;
};

// Where sequences begin and end, in order, from 0 to all tokens, whatever the
// tensor holds: tokens that no sequence has are a sequence of their own.
using Bounds = RunVector<int64_t>;

class MaxSumMerging final : public Computation {
 public:
  explicit MaxSumMerging(MaxSumMerge merge) : merge_(std::move(merge)) {
    chunk_heads_ = std::min(merge_.heads, kChunkHeads);
    chunk_tokens_ = kChunkRows / chunk_heads_;
  }

  std::string_view name() const override { return "merge/max and sum"; }

  std::string Describe() const override {
    constexpr std::string_view kOrders[] = {"batch", "tokens", "blocks"};
    return Str("{}: [{}, {}, {}, {}], statistics by {}", Name(merge_.out.dtype),
               merge_.batch, merge_.tokens, merge_.heads, merge_.channels,
               kOrders[static_cast<size_t>(merge_.order)]);
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    const int64_t by_token = CeilDiv(merge_.tokens, chunk_tokens_);
    const int64_t by_head = CeilDiv(merge_.heads, chunk_heads_);
    return queue.OnHost([&](Workers& workers) -> Status {
      const RunMemoryScope memory;
      const Bounds bounds = ReadBounds(at);
      const Tensors tensors(merge_, at);
      workers.ForEach(merge_.batch * by_token * by_head, [&](int64_t n) {
        const int64_t head = n % by_head * chunk_heads_;
        const int64_t token = n / by_head % by_token * chunk_tokens_;
        MergeChunk(tensors, bounds,
                   {n / by_head / by_token,
                    {token, std::min(token + chunk_tokens_, merge_.tokens)},
                    {head, std::min(head + chunk_heads_, merge_.heads)}});
      });
      return {};
    });
  }

 private:
  using Weights = float[kChunkRows][2];

  Bounds ReadBounds(At at) const {
    Bounds bounds{0};
    if (merge_.order == StatisticOrder::kBlocks) {
      const Ends& ends = *merge_.ends;
      bounds.reserve(static_cast<size_t>(ends.count) + 2);
      for (int64_t n = 0; n < ends.count; ++n) {
        const int64_t end = Load<int64_t>(at[ends.argument] +
                                          (ends.offset + n * ends.stride) * 8);
        if (end <= bounds.back() || end > merge_.tokens) continue;
        bounds.push_back(end);
      }
    }
    if (bounds.back() < merge_.tokens) bounds.push_back(merge_.tokens);
    return bounds;
  }

  // The first number of a row.
  std::byte* NumberOf(const StatisticHere& of, const Segment& segment,
                      const RowNumber& row) const {
    const int64_t outer = of.bytes[1];
    const int64_t inner = of.bytes[2];
    if (merge_.order == StatisticOrder::kBatch) {
      return of.first + row.sequence * of.bytes[0] + row.head * outer +
             row.token * inner;
    }
    if (merge_.order == StatisticOrder::kTokens) {
      return of.first + row.token * outer + row.head * inner;
    }
    const int64_t number = merge_.heads * segment.first +
                           row.head * segment.length + row.token -
                           segment.first;
    if (outer == merge_.heads * inner) return of.first + number * inner;
    return of.first + number / merge_.heads * outer +
           number % merge_.heads * inner;
  }

  MergedRow MergeNumbers(const Tensors& tensors, const Segment& segment,
                         const RowNumber& row) const {
    const auto part = [&](size_t n) -> MaxAndSum {
      return {Load<float>(NumberOf(tensors.max[n], segment, row)),
              Load<float>(NumberOf(tensors.sum[n], segment, row))};
    };
    const MergedRow merged = Merge(part(0), part(1));
    tensors.max_out.Write(NumberOf(tensors.max_out, segment, row),
                          merged.whole.max);
    tensors.sum_out.Write(NumberOf(tensors.sum_out, segment, row),
                          merged.whole.sum);
    return merged;
  }

  void MergeStatistics(const Tensors& tensors, const Chunk& chunk,
                       const Segment& segment, Weights& weights) const {
    const bool tokens_outer = merge_.order == StatisticOrder::kTokens;
    const Range& tokens = segment.tokens;
    const Range& outer = tokens_outer ? tokens : chunk.heads;
    const Range& inner = tokens_outer ? chunk.heads : tokens;
    for (int64_t o = outer.first; o < outer.last; ++o) {
      for (int64_t i = inner.first; i < inner.last; ++i) {
        const RowNumber row{chunk.sequence, tokens_outer ? o : i,
                            tokens_outer ? i : o};
        const MergedRow merged = MergeNumbers(tensors, segment, row);
        std::copy_n(merged.weights, 2,
                    weights[RowOf(chunk, row.token, row.head)]);
      }
    }
  }

  static int64_t RowOf(const Chunk& chunk, int64_t token, int64_t head) {
    return (token - chunk.tokens.first) * chunk.heads.size() + head -
           chunk.heads.first;
  }

  void MergeChunk(const Tensors& tensors, const Bounds& bounds,
                  const Chunk& chunk) const {
    Weights weights;
    auto end =
        std::upper_bound(bounds.begin(), bounds.end(), chunk.tokens.first);
    for (int64_t token = chunk.tokens.first; token < chunk.tokens.last; ++end) {
      const Segment segment{
          {token, std::min(*end, chunk.tokens.last)}, end[-1], *end - end[-1]};
      MergeStatistics(tensors, chunk, segment, weights);
      token = segment.tokens.last;
    }
    for (int64_t token = chunk.tokens.first; token < chunk.tokens.last;
         ++token) {
      for (int64_t head = chunk.heads.first; head < chunk.heads.last; ++head) {
        MergeRow(tensors, {chunk.sequence, token, head},
                 weights[RowOf(chunk, token, head)]);
      }
    }
    tensors.rows.Finish();
  }

  static void MergeRow(const Tensors& tensors, const RowNumber& row,
                       const float (&weights)[2]) {
    const auto part = [&](size_t n) -> PartRow {
      const RowsHere& rows = tensors.parts[n];
      return {&rows.format, rows.Row(row), weights[n]};
    };
    tensors.rows.Merge(2, part, tensors.out.Row(row));
  }

  const MaxSumMerge merge_;
  int64_t chunk_heads_ = 1;
  int64_t chunk_tokens_ = 1;
};

}  // namespace

std::shared_ptr<const Computation> MakeMaxSumMerge(MaxSumMerge merge) {
  return std::make_shared<const MaxSumMerging>(std::move(merge));
}

}  // namespace flashacl::merge
