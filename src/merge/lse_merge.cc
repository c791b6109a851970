// SPDX-License-Identifier: Apache-2.0
// Parts by log-sum-exp: chunks of rows for the workers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Elements of all parts that a worker takes at a time, which take longer than
// to hand them out.
constexpr int64_t kChunkElements = 1 << 15;

// Where a tensor's rows are in this run.
struct RowsHere {
  RowsHere(const Rows& rows, At at)
      : first(at[rows.argument] + rows.offset * SizeOf(rows.dtype)),
        row_bytes(rows.stride * SizeOf(rows.dtype)),
        channel_bytes(rows.step * SizeOf(rows.dtype)) {
    format.dtype = rows.dtype;
    format.step = rows.step;
    format.element_bytes = SizeOf(rows.dtype);
  }

  std::byte* Row(int64_t row) const { return first + row * row_bytes; }
  float Number(int64_t row) const { return Load<float>(Row(row)); }

  std::byte* first;
  int64_t row_bytes;
  int64_t channel_bytes;
  cpu::ElementFormat format;
};

// One run.
struct Tensors {
  Tensors(const LseMerge& merge, At at) : out(merge.out, at) {
    lse.reserve(merge.lse.size());
    parts.reserve(merge.parts.size());
    for (const Rows& rows : merge.lse) lse.emplace_back(rows, at);
    for (const Rows& rows : merge.parts) parts.emplace_back(rows, at);
    if (merge.lse_out) lse_out.emplace(*merge.lse_out, at);
    const int64_t bytes =
        merge.rows * merge.channels * out.format.element_bytes;
    fused = parts.size() <= kMaxTerms &&
            std::ranges::all_of(parts, [&](const RowsHere& part) {
              return part.format == out.format && part.format.step == 1;
            });
    // What is merged in place is in the cache when it is written.
    streams = Streams(bytes) &&
              std::ranges::none_of(parts, [&](const RowsHere& part) {
                return part.first == out.first;
              });
  }

  RunVector<RowsHere> lse, parts;
  RowsHere out;
  std::optional<RowsHere> lse_out;
  bool fused = false;    // one kernel does all of a row
  bool streams = false;  // past the caches
  const MergeKernels kernels = Kernels();
};

// What parts weigh in a row.
struct Weights {
  float top = -kInfinity;  // the largest log-sum-exp
  float sum = 0;           // of exp(lse - top); 0: no part saw a key

  Weights(const Tensors& tensors, int64_t row) {
    for (const RowsHere& lse : tensors.lse) {
      const float number = lse.Number(row);
      if (!std::isinf(number) && number > top) top = number;
    }
    for (const RowsHere& lse : tensors.lse) sum += Exp(lse.Number(row));
  }

  // In shares of the largest.
  float Exp(float lse) const {
    return std::isinf(lse) ? 0.0f : lse == top ? 1.0f : std::exp(lse - top);
  }
  float Of(float lse) const {
    const float part = Exp(lse);
    return part == 0 ? 0.0f : part / sum;
  }
};

class LseMerging final : public Computation {
 public:
  explicit LseMerging(LseMerge merge) : merge_(std::move(merge)) {}

  std::string_view name() const override { return "merge/lse"; }

  std::string Describe() const override {
    return Str("{} parts of {} to {}: [{}, {}]", merge_.parts.size(),
               Name(merge_.parts[0].dtype), Name(merge_.out.dtype), merge_.rows,
               merge_.channels);
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    const int64_t row_elements =
        (merge_.channels + 1) * static_cast<int64_t>(merge_.parts.size());
    const int64_t rows = std::max<int64_t>(1, kChunkElements / row_elements);
    return queue.OnHost([&](Workers& workers) -> Status {
      const RunMemoryScope memory;
      const Tensors tensors(merge_, at);
      workers.ForEach(CeilDiv(merge_.rows, rows), [&](int64_t n) {
        const int64_t end = std::min((n + 1) * rows, merge_.rows);
        for (int64_t row = n * rows; row < end; ++row) MergeRow(tensors, row);
        if (tensors.streams) tensors.kernels.flush();
      });
      return {};
    });
  }

 private:
  void MergeRow(const Tensors& tensors, int64_t row) const {
    const Weights weights(tensors, row);
    if (!tensors.fused || weights.sum == 0) {
      MergeBlocks(tensors, row, weights);
    } else {
      MergeFused(tensors, row, weights);
    }
    if (!tensors.lse_out) return;
    const bool seen = weights.sum != 0;
    Store(tensors.lse_out->Row(row),
          seen ? weights.top + std::log(weights.sum) : kInfinity);
  }

  void MergeFused(const Tensors& tensors, int64_t row,
                  const Weights& weights) const {
    Term terms[kMaxTerms];
    WeightedSum sum;
    sum.format = tensors.out.format;
    sum.terms = terms;
    for (size_t part = 0; part < tensors.parts.size(); ++part) {
      const float weight = weights.Of(tensors.lse[part].Number(row));
      // What has no weight may hold anything.
      if (weight == 0) continue;
      terms[sum.count++] = {tensors.parts[part].Row(row), weight};
    }
    tensors.kernels.merge(sum, merge_.channels, tensors.streams,
                          tensors.out.Row(row));
  }

  void MergeBlocks(const Tensors& tensors, int64_t row,
                   const Weights& weights) const {
    const RowsHere& out = tensors.out;
    for (int64_t d = 0; d < merge_.channels; d += kBlockChannels) {
      const int64_t channels = std::min(kBlockChannels, merge_.channels - d);
      alignas(64) float sums[kBlockChannels];
      SumBlock(tensors, row, weights, {d, d + channels}, sums);
      tensors.kernels.store(out.format, sums, channels,
                            out.Row(row) + d * out.channel_bytes);
    }
  }

  static void SumBlock(const Tensors& tensors, int64_t row,
                       const Weights& weights, Range channels, float* sums) {
    Term terms[kMaxTerms];
    WeightedSum sum;
    sum.terms = terms;
    const auto add = [&] {
      tensors.kernels.sum(sum, channels.size(), sums);
      sum.count = 0;
      sum.adds = true;
    };
    for (size_t part = 0; part < tensors.parts.size(); ++part) {
      const float weight = weights.Of(tensors.lse[part].Number(row));
      // What has no weight may hold anything.
      if (weight == 0) continue;
      const RowsHere& rows = tensors.parts[part];
      const bool full = sum.count == kMaxTerms;
      if (full || (sum.count > 0 && rows.format != sum.format)) add();
      sum.format = rows.format;
      terms[sum.count++] = {rows.Row(row) + channels.first * rows.channel_bytes,
                            weight};
    }
    if (sum.count > 0) add();
    if (!sum.adds) std::fill_n(sums, channels.size(), 0.0f);
  }

  const LseMerge merge_;
};

}  // namespace

std::shared_ptr<const Computation> MakeLseMerge(LseMerge merge) {
  return std::make_shared<const LseMerging>(std::move(merge));
}

}  // namespace flashacl::merge
