// SPDX-License-Identifier: Apache-2.0
// Parts by log-sum-exp: chunks of rows for the workers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/range.h"
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
      : bytes(SizeOf(rows.dtype)),
        first(at[rows.argument] + rows.offset * bytes),
        row_bytes(rows.stride * bytes),
        channel_bytes(rows.step * bytes) {}

  std::byte* Row(int64_t row) const { return first + row * row_bytes; }

  int64_t bytes;
  std::byte* first;
  int64_t row_bytes;
  int64_t channel_bytes;
};

cpu::ElementFormat FormatOf(const Rows& rows) {
  cpu::ElementFormat format;
  format.dtype = rows.dtype;
  format.step = rows.step;
  format.element_bytes = SizeOf(rows.dtype);
  return format;
}

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
      workers.ForEach(CeilDiv(merge_.rows, rows), [&](int64_t n) {
        const int64_t end = std::min((n + 1) * rows, merge_.rows);
        for (int64_t row = n * rows; row < end; ++row) MergeRow(at, row);
      });
      return {};
    });
  }

 private:
  float LseOf(At at, size_t part, int64_t row) const {
    return Load<float>(RowsHere(merge_.lse[part], at).Row(row));
  }

  // What parts weigh in a row.
  struct Weights {
    float top = -kInfinity;  // the largest log-sum-exp
    float sum = 0;           // of exp(lse - top); 0: no part saw a key

    float Of(float lse) const {
      return std::isinf(lse) ? 0.0f : std::exp(lse - top) / sum;
    }
  };

  Weights WeightsOf(At at, int64_t row) const {
    Weights weights;
    for (size_t part = 0; part < merge_.parts.size(); ++part) {
      const float lse = LseOf(at, part, row);
      if (!std::isinf(lse) && lse > weights.top) weights.top = lse;
    }
    for (size_t part = 0; part < merge_.parts.size(); ++part) {
      const float lse = LseOf(at, part, row);
      if (!std::isinf(lse)) weights.sum += std::exp(lse - weights.top);
    }
    return weights;
  }

  void MergeRow(At at, int64_t row) const {
    const Weights weights = WeightsOf(at, row);
    const RowsHere out(merge_.out, at);
    for (int64_t d = 0; d < merge_.channels; d += kBlockChannels) {
      const int64_t channels = std::min(kBlockChannels, merge_.channels - d);
      alignas(64) float sums[kBlockChannels];
      SumBlock(at, row, weights, {d, d + channels}, sums);
      Kernels().store(FormatOf(merge_.out), sums, channels,
                      out.Row(row) + d * out.channel_bytes);
    }
    if (!merge_.lse_out) return;
    const bool seen = weights.sum != 0;
    Store(RowsHere(*merge_.lse_out, at).Row(row),
          seen ? weights.top + std::log(weights.sum) : kInfinity);
  }

  void SumBlock(At at, int64_t row, const Weights& weights, Range channels,
                float* sums) const {
    Term terms[kMaxTerms];
    WeightedSum sum;
    sum.terms = terms;
    const auto add = [&] {
      Kernels().sum(sum, channels.size(), sums);
      sum.count = 0;
      sum.adds = true;
    };
    for (size_t part = 0; part < merge_.parts.size(); ++part) {
      const float weight = weights.Of(LseOf(at, part, row));
      // What has no weight may hold anything.
      if (weight == 0) continue;
      const cpu::ElementFormat format = FormatOf(merge_.parts[part]);
      const bool full = sum.count == kMaxTerms;
      if (full || (sum.count > 0 && format != sum.format)) add();
      const RowsHere rows(merge_.parts[part], at);
      sum.format = format;
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
