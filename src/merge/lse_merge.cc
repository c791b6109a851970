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
#include "base/run_memory.h"
#include "base/str.h"
#include "merge/merge.h"
#include "merge/merge_row.h"

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
  RowMerge<kMaxTerms> rows;
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
        tensors.rows.Finish();
      });
      return {};
    });
  }

 private:
  static void MergeRow(const Tensors& tensors, int64_t row) {
    const Weights weights(tensors, row);
    const auto part = [&](size_t n) -> PartRow {
      const RowsHere& rows = tensors.parts[n];
      return {&rows.format, rows.Row(row),
              weights.Of(tensors.lse[n].Number(row))};
    };
    // Where there are no channels there is no memory of rows.
    if (tensors.rows.channels() > 0) {
      tensors.rows.Merge(tensors.parts.size(), part, tensors.out.Row(row));
    }
    if (!tensors.lse_out) return;
    const bool seen = weights.sum != 0;
    Store(tensors.lse_out->Row(row),
          seen ? weights.top + std::log(weights.sum) : kInfinity);
  }

  const LseMerge merge_;
};

}  // namespace

std::shared_ptr<const Computation> MakeLseMerge(LseMerge merge) {
  return std::make_shared<const LseMerging>(std::move(merge));
}

}  // namespace flashacl::merge
