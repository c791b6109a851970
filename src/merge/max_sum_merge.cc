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

// Without branches, which nobody could foresee, and with one exponential: in
// units of the larger maximum the sum of its part is itself.
MergedRow Merge(const MaxAndSum& one, const MaxAndSum& other) {
  const bool no_one = one.saw_nothing();
  const bool no_other = other.saw_nothing();
  // Not max(), which could take a number for a NaN.
  const bool other_is_top = no_one | ((one.max < other.max) & !no_other);
  const float top = other_is_top ? other.max : one.max;
  const float bottom = other_is_top ? one.max : other.max;
  const float scale = std::exp(bottom == top ? 0.0f : bottom - top);
  const float first = no_one ? 0.0f : one.sum * (other_is_top ? scale : 1.0f);
  const float second =
      no_other ? 0.0f : other.sum * (other_is_top ? 1.0f : scale);
  const bool none = no_one & no_other;
  MergedRow row;
  row.whole.max = none ? row.whole.max : top;
  row.whole.sum = none ? row.whole.sum : first + second;
  const float unit = first + second == 0 ? 1.0f : first + second;
  row.weights[0] = first / unit;
  row.weights[1] = second / unit;
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

  // Whether the copies of a number lie together.
  bool dense() const { return bytes[3] == sizeof(float); }

  // To all copies of the number at `to`.
  void Write(std::byte* to, float value) const {
    for (int64_t n = 0; n < kCopies; ++n) Store(to + n * bytes[3], value);
  }
  static void WriteDense(std::byte* to, float value) {
    std::array<float, kCopies> copies;
    copies.fill(value);
    Store(to, copies);
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
  RowMerge rows;
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
  using Weights = float[2][kChunkRows];

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
    return of.first + number / merge_.heads * outer +
           number % merge_.heads * inner;
  }

  // Whether numbers of a segment that follow each other are bytes[2] apart.
  bool Even(const Tensors& tensors) const {
    if (merge_.order != StatisticOrder::kBlocks) return true;
    const StatisticHere* const all[] = {&tensors.max[0],  &tensors.max[1],
                                        &tensors.sum[0],  &tensors.sum[1],
                                        &tensors.max_out, &tensors.sum_out};
    return std::ranges::all_of(all, [&](const StatisticHere* of) {
      return of->bytes[1] == merge_.heads * of->bytes[2];
    });
  }

  // Where numbers that follow each other are.
  struct Numbers {
    std::byte* first;
    int64_t step;

    std::byte* At(int64_t n) const { return first + n * step; }
    float operator[](int64_t n) const { return Load<float>(At(n)); }
  };

  // Where the weights of the same rows go.
  struct WeightsOf {
    Weights& all;
    int64_t first;
    int64_t step;

    void Set(int64_t n, const MergedRow& row) const {
      all[0][first + n * step] = row.weights[0];
      all[1][first + n * step] = row.weights[1];
    }
  };

  // The statistics of `count` rows that follow each other, from `row` on.
  void MergeNumbers(const Tensors& tensors, const Segment& segment,
                    const RowNumber& row, int64_t count,
                    const WeightsOf& weights) const {
    const auto of = [&](const StatisticHere& statistic) -> Numbers {
      return {NumberOf(statistic, segment, row), statistic.bytes[2]};
    };
    const Numbers max[] = {of(tensors.max[0]), of(tensors.max[1])};
    const Numbers sum[] = {of(tensors.sum[0]), of(tensors.sum[1])};
    const Numbers max_out = of(tensors.max_out);
    const Numbers sum_out = of(tensors.sum_out);
    const bool dense = tensors.max_out.dense() && tensors.sum_out.dense();
    for (int64_t n = 0; n < count; ++n) {
      const MergedRow merged =
          Merge({max[0][n], sum[0][n]}, {max[1][n], sum[1][n]});
      if (dense) {
        StatisticHere::WriteDense(max_out.At(n), merged.whole.max);
        StatisticHere::WriteDense(sum_out.At(n), merged.whole.sum);
      } else {
        tensors.max_out.Write(max_out.At(n), merged.whole.max);
        tensors.sum_out.Write(sum_out.At(n), merged.whole.sum);
      }
      weights.Set(n, merged);
    }
  }

  void MergeStatistics(const Tensors& tensors, const Chunk& chunk,
                       const Segment& segment, Weights& weights) const {
    const bool tokens_outer = merge_.order == StatisticOrder::kTokens;
    const Range& tokens = segment.tokens;
    const Range& outer = tokens_outer ? tokens : chunk.heads;
    const Range& inner = tokens_outer ? chunk.heads : tokens;
    const int64_t step = tokens_outer ? 1 : chunk.heads.size();
    const int64_t together = Even(tensors) ? inner.size() : 1;
    for (int64_t o = outer.first; o < outer.last; ++o) {
      for (int64_t i = inner.first; i < inner.last; i += together) {
        const RowNumber row{chunk.sequence, tokens_outer ? o : i,
                            tokens_outer ? i : o};
        MergeNumbers(tensors, segment, row, together,
                     {weights, RowOf(chunk, row.token, row.head), step});
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
    if (tensors.rows.fused()) {
      MergeTogether(tensors, chunk, weights);
    } else {
      for (int64_t r = 0; r < chunk.tokens.size() * chunk.heads.size(); ++r) {
        const RowNumber row{chunk.sequence,
                            chunk.tokens.first + r / chunk.heads.size(),
                            chunk.heads.first + r % chunk.heads.size()};
        MergeOne(tensors, row, {weights[0][r], weights[1][r]});
      }
    }
    tensors.rows.Finish();
  }

  static void MergeTogether(const Tensors& tensors, const Chunk& chunk,
                            const Weights& weights) {
    const RowNumber first{chunk.sequence, chunk.tokens.first,
                          chunk.heads.first};
    RowsOfPart parts[2];
    for (size_t n = 0; n < 2; ++n) {
      const RowsHere& rows = tensors.parts[n];
      parts[n] = {rows.Row(first), rows.token_bytes, rows.head_bytes,
                  weights[n]};
    }
    MergedRows merged;
    merged.parts = parts;
    merged.count = 2;
    merged.outer = chunk.tokens.size();
    merged.inner = chunk.heads.size();
    merged.to = tensors.out.Row(first);
    merged.to_outer_bytes = tensors.out.token_bytes;
    merged.to_inner_bytes = tensors.out.head_bytes;
    tensors.rows.Merge(merged);
  }

  static void MergeOne(const Tensors& tensors, const RowNumber& row,
                       const std::array<float, 2>& weights) {
    const auto part = [&](size_t n) -> PartRow {
      const RowsHere& rows = tensors.parts[n];
      return {&rows.format, rows.Row(row), weights[n]};
    };
    tensors.rows.MergeRow(2, part, tensors.out.Row(row));
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
