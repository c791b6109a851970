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
#include "merge/merge_row.h"

namespace flashacl::merge {
namespace {

using At = std::span<std::byte* const>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Elements of all parts that a worker takes at a time: long runs of each, as
// workers side by side disturb each other's prefetching.
constexpr int64_t kChunkElements = 1 << 17;

// Where a tensor's rows are in this run.
struct RowsHere {
  RowsHere(const Rows& rows, At at)
      : first(at[rows.argument] + rows.offset * SizeOf(rows.dtype)),
        row_bytes(rows.stride * SizeOf(rows.dtype)) {
    format.dtype = rows.dtype;
    format.step = rows.step;
    format.element_bytes = SizeOf(rows.dtype);
  }

  std::byte* Row(int64_t row) const { return first + row * row_bytes; }
  float Number(int64_t row) const { return Load<float>(Row(row)); }

  std::byte* first;
  int64_t row_bytes;
  cpu::ElementFormat format;
};

// One run.
struct Tensors {
  Tensors(const LseMerge& merge, At at)
      : out(merge.out, at),
        rows(merge.rows, merge.channels, out.format, out.first) {
    lse.reserve(merge.lse.size());
    parts.reserve(merge.parts.size());
    for (const Rows& one : merge.lse) lse.emplace_back(one, at);
    for (const Rows& one : merge.parts) parts.emplace_back(one, at);
    if (merge.lse_out) lse_out.emplace(*merge.lse_out, at);
    for (const RowsHere& part : parts) rows.Add(part.format, part.first);
  }

  RunVector<RowsHere> lse, parts;
  RowsHere out;
  std::optional<RowsHere> lse_out;
  RowMerge rows;
};

// Rows that are weighed together: what all parts weigh in them takes 4 KiB.
constexpr int64_t kBlockRows = 64;

// The share of a part in units of the largest, `top`.
float Share(float lse, float top) {
  return std::isinf(lse) ? 0.0f : std::exp(lse - top);
}

// What parts weigh in the rows of a block.
struct Weights {
  float top[kBlockRows];            // the largest log-sum-exp
  float sum[kBlockRows];            // of shares; 0: no part saw a key
  float of[kMaxTerms][kBlockRows];  // of the first parts

  // The others' are computed one by one.
  float Of(float lse, int64_t row) const {
    const float share = Share(lse, top[row]);
    return share == 0 ? 0.0f : share / sum[row];
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
        for (int64_t row = n * rows; row < end; row += kBlockRows) {
          MergeBlock(tensors, {row, std::min(row + kBlockRows, end)});
        }
        tensors.rows.Finish();
      });
      return {};
    });
  }

 private:
  static void Weigh(const Tensors& tensors, Range rows, Weights& weights) {
    std::fill_n(weights.top, rows.size(), -kInfinity);
    std::fill_n(weights.sum, rows.size(), 0.0f);
    for (const RowsHere& lse : tensors.lse) {
      for (int64_t r = 0; r < rows.size(); ++r) {
        const float number = lse.Number(rows.first + r);
        const bool larger = !std::isinf(number) && number > weights.top[r];
        weights.top[r] = larger ? number : weights.top[r];
      }
    }
    for (size_t n = 0; n < tensors.lse.size(); ++n) {
      for (int64_t r = 0; r < rows.size(); ++r) {
        const float share =
            Share(tensors.lse[n].Number(rows.first + r), weights.top[r]);
        weights.sum[r] += share;
        if (n < kMaxTerms) weights.of[n][r] = share;
      }
    }
    const size_t kept = std::min<size_t>(tensors.lse.size(), kMaxTerms);
    for (size_t n = 0; n < kept; ++n) {
      for (int64_t r = 0; r < rows.size(); ++r) {
        const float sum = weights.sum[r];
        weights.of[n][r] /= sum == 0 ? 1.0f : sum;
      }
    }
  }

  static void MergeBlock(const Tensors& tensors, Range rows) {
    Weights weights;
    Weigh(tensors, rows, weights);
    if (tensors.rows.fused()) {
      MergeTogether(tensors, rows, weights);
    } else {
      for (int64_t row = rows.first; row < rows.last; ++row) {
        MergeOne(tensors, row, weights, row - rows.first);
      }
    }
    if (!tensors.lse_out) return;
    for (int64_t r = 0; r < rows.size(); ++r) {
      const bool seen = weights.sum[r] != 0;
      Store(tensors.lse_out->Row(rows.first + r),
            seen ? weights.top[r] + std::log(weights.sum[r]) : kInfinity);
    }
  }

  static void MergeTogether(const Tensors& tensors, Range rows,
                            const Weights& weights) {
    RowsOfPart parts[kMaxTerms];
    MergedRows merged;
    merged.parts = parts;
    for (const RowsHere& part : tensors.parts) {
      parts[merged.count] = {part.Row(rows.first), 0, part.row_bytes,
                             weights.of[merged.count]};
      ++merged.count;
    }
    merged.inner = rows.size();
    merged.to = tensors.out.Row(rows.first);
    merged.to_inner_bytes = tensors.out.row_bytes;
    tensors.rows.Merge(merged);
  }

  static void MergeOne(const Tensors& tensors, int64_t row,
                       const Weights& weights, int64_t in_block) {
    const auto part = [&](size_t n) -> PartRow {
      const RowsHere& rows = tensors.parts[n];
      return {&rows.format, rows.Row(row),
              weights.Of(tensors.lse[n].Number(row), in_block)};
    };
    tensors.rows.MergeRow(tensors.parts.size(), part, tensors.out.Row(row));
  }

  const LseMerge merge_;
};

}  // namespace

std::shared_ptr<const Computation> MakeLseMerge(LseMerge merge) {
  return std::make_shared<const LseMerging>(std::move(merge));
}

}  // namespace flashacl::merge
