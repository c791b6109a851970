// SPDX-License-Identifier: Apache-2.0
// Visibility by definition, scores by formula.
#include "reference/scores.h"

#include <algorithm>
#include <limits>

namespace flashacl::reference {
namespace {

// Whether a row sees column j, for all j of one row.
class Visibility {
 public:
  Visibility(const Operands& operands, const Row& row, const KeyValues& keys)
      : keys_(keys), i_(row.i), mask_base_(operands.bindings[Slot::kMask]) {
    const Sequence& extent = operands.sequence(row.sequence);
    band_ = operands.problem.mask.BandOf(row.sequence, extent.rows(),
                                         extent.columns());
    mask_ = PlaneOf(operands.mask, row);
    if (operands.mask.present()) {
      first_masked_ = operands.mask.FirstColumn(row.sequence);
    }
  }

  bool Sees(int64_t j) const {
    return band_.Sees(i_, j) && keys_.exists(j) && !Hidden(j);
  }

 private:
  bool Hidden(int64_t j) const {
    return j >= first_masked_ && mask_base_[mask_.At(i_, j)] != std::byte{0};
  }

  const KeyValues& keys_;
  int64_t i_;
  Band band_;
  // The first column that the mask may hide.
  int64_t first_masked_ = std::numeric_limits<int64_t>::max();
  GridPlane mask_;
  const std::byte* mask_base_;
};

// The columns index `u` of a top-k list stands for; none if it points outside.
Range ListedColumns(int64_t u, int64_t gather_rows, int64_t columns) {
  if (u >= CeilDiv(columns, gather_rows)) return {};
  return {u * gather_rows, std::min(columns, (u + 1) * gather_rows)};
}

double Bias(const Operands& operands, const Row& row, const Tensor& bias,
            const GridPlane& plane, int64_t j) {
  if (!bias.present()) return 0;
  if (!IsAlibi(operands.problem.score.bias)) {
    return bias.Load(plane.At(row.i, j));
  }
  return -bias.Load(bias.spec.At(row.sequence, row.head)) *
         operands.problem.score.AlibiFactor(row.sequence, row.i, j);
}

}  // namespace

int64_t MostVisible(const AttentionProblem& problem) {
  if (problem.kv.gathers()) {
    return problem[Slot::kTopK].dims[3] *
           std::min(problem.kv.gather_rows, problem.lengths.max_columns());
  }
  return problem.lengths.max_columns();
}

int64_t VisibleColumns(const Operands& operands, const Row& row,
                       const KeyValues& keys, std::span<int64_t> columns) {
  const KvSource& kv = operands.problem.kv;
  const Sequence& extent = operands.sequence(row.sequence);
  const Visibility visibility(operands, row, keys);
  size_t count = 0;
  const auto list_seen = [&](Range range) {
    for (int64_t j = range.first; j < range.last; ++j) {
      if (visibility.Sees(j)) columns[count++] = j;
    }
  };
  if (!kv.gathers()) {
    list_seen({0, extent.columns()});
    return static_cast<int64_t>(count);
  }
  const Tensor list = operands.tensor(Slot::kTopK);
  for (int64_t place = 0; place < list.spec.dims[3]; ++place) {
    const int64_t u = list.LoadInteger(list.spec.At(
        row.sequence, extent.queries.first + row.i, row.kv_head, place));
    if (u < 0) break;
    list_seen(ListedColumns(u, kv.gather_rows, extent.columns()));
  }
  return static_cast<int64_t>(count);
}

double BiasAt(const Operands& operands, const Row& row, int64_t j) {
  return Bias(operands, row, operands.tensor(Slot::kBias),
              PlaneOf(operands.bias, row), j);
}

void Scores(const Operands& operands, const Row& row, const KeyValues& keys,
            std::span<const double> query, std::span<const int64_t> columns,
            std::span<double> scores) {
  const Score& score = operands.problem.score;
  const Tensor bias = operands.tensor(Slot::kBias);
  const GridPlane plane = PlaneOf(operands.bias, row);
  const double scale = score.scale;
  for (size_t n = 0; n < columns.size(); ++n) {
    const double dot = Dot(query, keys.key(columns[n]));
    const double added = Bias(operands, row, bias, plane, columns[n]);
    scores[n] = score.bias == Score::Bias::kBeforeScale ? scale * (dot + added)
                                                        : scale * dot + added;
  }
}

double Kept(const Operands& operands, const GridPlane& keep, int64_t i,
            int64_t j) {
  if (!operands.keep.present()) return 1;
  const int64_t bit = keep.At(i, j);
  const unsigned byte =
      std::to_integer<unsigned>(operands.bindings[Slot::kKeep][bit / 8]);
  const bool kept = ((byte >> (bit % 8)) & 1u) != 0;
  return kept ? 1 / double{operands.problem.score.keep_probability} : 0;
}

double Dot(std::span<const double> a, std::span<const double> b) {
  // Four sums: the additions to a single one would wait for each other.
  double sums[4] = {};
  size_t d = 0;
  for (; d + 4 <= a.size(); d += 4) {
    for (size_t n = 0; n < 4; ++n) sums[n] += a[d + n] * b[d + n];
  }
  for (; d < a.size(); ++d) sums[0] += a[d] * b[d];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void Add(double factor, std::span<const double> row, std::span<double> sum) {
  for (size_t d = 0; d < sum.size(); ++d) sum[d] += factor * row[d];
}

}  // namespace flashacl::reference
