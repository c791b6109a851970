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
#include "merge/merge_kernel.h"

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
      workers.ForEach(merge_.batch * by_token * by_head, [&](int64_t n) {
        const int64_t head = n % by_head * chunk_heads_;
        const int64_t token = n / by_head % by_token * chunk_tokens_;
        MergeChunk(at, bounds,
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

  // The place of a row in a statistic, in elements.
  int64_t PlaceOf(const Statistic& of, const Chunk& chunk,
                  const Segment& segment, int64_t token, int64_t head) const {
    const auto& strides = of.strides;
    if (merge_.order == StatisticOrder::kBatch) {
      return of.offset + chunk.sequence * strides[0] + head * strides[1] +
             token * strides[2];
    }
    if (merge_.order == StatisticOrder::kTokens) {
      return of.offset + token * strides[1] + head * strides[2];
    }
    const int64_t row = merge_.heads * segment.first + head * segment.length +
                        token - segment.first;
    if (strides[1] == merge_.heads * strides[2]) {
      return of.offset + row * strides[2];
    }
    return of.offset + row / merge_.heads * strides[1] +
           row % merge_.heads * strides[2];
  }

  void MergeStatistics(At at, const Chunk& chunk, const Segment& segment,
                       Weights& weights) const {
    const auto place = [&](const Statistic& of, int64_t token, int64_t head) {
      return at[of.argument] +
             PlaceOf(of, chunk, segment, token, head) * int64_t{sizeof(float)};
    };
    const auto merge_row = [&](int64_t token, int64_t head) {
      const auto part = [&](size_t n) -> MaxAndSum {
        return {Load<float>(place(merge_.max[n], token, head)),
                Load<float>(place(merge_.sum[n], token, head))};
      };
      const MergedRow row = Merge(part(0), part(1));
      WriteCopies(merge_.max_out, place(merge_.max_out, token, head),
                  row.whole.max);
      WriteCopies(merge_.sum_out, place(merge_.sum_out, token, head),
                  row.whole.sum);
      std::copy_n(row.weights, 2, weights[RowOf(chunk, token, head)]);
    };
    if (merge_.order == StatisticOrder::kTokens) {
      for (int64_t token = segment.tokens.first; token < segment.tokens.last;
           ++token) {
        for (int64_t head = chunk.heads.first; head < chunk.heads.last;
             ++head) {
          merge_row(token, head);
        }
      }
      return;
    }
    for (int64_t head = chunk.heads.first; head < chunk.heads.last; ++head) {
      for (int64_t token = segment.tokens.first; token < segment.tokens.last;
           ++token) {
        merge_row(token, head);
      }
    }
  }

  static void WriteCopies(const Statistic& of, std::byte* to, float value) {
    for (int64_t n = 0; n < kCopies; ++n) {
      Store(to + n * of.strides[3] * int64_t{sizeof(float)}, value);
    }
  }

  static int64_t RowOf(const Chunk& chunk, int64_t token, int64_t head) {
    return (token - chunk.tokens.first) * chunk.heads.size() + head -
           chunk.heads.first;
  }

  void MergeChunk(At at, const Bounds& bounds, const Chunk& chunk) const {
    Weights weights;
    auto end =
        std::upper_bound(bounds.begin(), bounds.end(), chunk.tokens.first);
    for (int64_t token = chunk.tokens.first; token < chunk.tokens.last; ++end) {
      const Segment segment{
          {token, std::min(*end, chunk.tokens.last)}, end[-1], *end - end[-1]};
      MergeStatistics(at, chunk, segment, weights);
      token = segment.tokens.last;
    }
    for (int64_t token = chunk.tokens.first; token < chunk.tokens.last;
         ++token) {
      for (int64_t head = chunk.heads.first; head < chunk.heads.last; ++head) {
        MergeRow(at, {chunk.sequence, token, head},
                 weights[RowOf(chunk, token, head)]);
      }
    }
  }

  struct RowNumber {
    int64_t sequence, token, head;
  };

  static std::byte* RowAt(At at, const HeadRows& of, const RowNumber& row) {
    const int64_t place = of.offset + row.sequence * of.sequence_stride +
                          row.token * of.token_stride +
                          row.head * of.head_stride;
    return at[of.argument] + place * SizeOf(of.dtype);
  }

  static cpu::ElementFormat FormatOf(const HeadRows& rows) {
    cpu::ElementFormat format;
    format.dtype = rows.dtype;
    format.step = rows.step;
    format.element_bytes = SizeOf(rows.dtype);
    return format;
  }

  // What has no weight may hold anything.
  void SumBlock(At at, const RowNumber& row, const float (&weights)[2],
                Range channels, float* sums) const {
    Term terms[2];
    WeightedSum sum;
    sum.terms = terms;
    for (size_t n = 0; n < 2; ++n) {
      if (weights[n] == 0) continue;
      const cpu::ElementFormat format = FormatOf(merge_.parts[n]);
      if (sum.count > 0 && format != sum.format) {
        Kernels().sum(sum, channels.size(), sums);
        sum.count = 0;
        sum.adds = true;
      }
      sum.format = format;
      terms[sum.count++] = {
          RowAt(at, merge_.parts[n], row) +
              channels.first * format.step * format.element_bytes,
          weights[n]};
    }
    if (sum.count > 0) return Kernels().sum(sum, channels.size(), sums);
    std::fill_n(sums, channels.size(), 0.0f);
  }

  void MergeRow(At at, const RowNumber& row, const float (&weights)[2]) const {
    const cpu::ElementFormat out = FormatOf(merge_.out);
    std::byte* const to = RowAt(at, merge_.out, row);
    for (int64_t d = 0; d < merge_.channels; d += kBlockChannels) {
      const int64_t channels = std::min(kBlockChannels, merge_.channels - d);
      alignas(64) float sums[kBlockChannels];
      SumBlock(at, row, weights, {d, d + channels}, sums);
      Kernels().store(out, sums, channels,
                      to + d * out.step * out.element_bytes);
    }
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
