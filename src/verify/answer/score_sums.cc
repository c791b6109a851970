// SPDX-License-Identifier: Apache-2.0
#include "verify/answer/score_sums.h"

namespace flashacl::answer {
namespace {

// Rows and columns of sequences that share a bias may be fewer.
void Enlarge(Part& part, const Part& other) {
  const size_t rows = std::max(part.rows.size(), other.rows.size());
  const int64_t width = std::max(part.width, other.width);
  if (rows == part.rows.size() && width == part.width) return;
  std::vector<double> values(rows * static_cast<size_t>(width));
  for (size_t n = 0; n < part.rows.size(); ++n) {
    std::ranges::copy(part.row(n),
                      values.begin() + static_cast<int64_t>(n) * width);
  }
  if (other.rows.size() == rows) part.rows = other.rows;
  part.magnitudes.resize(rows);
  part.values = std::move(values);
  part.width = width;
}

// In fp32 if `single`.
void AddTo(Part& sum, const Part& of_unit, bool single) {
  Enlarge(sum, of_unit);
  for (size_t n = 0; n < of_unit.rows.size(); ++n) {
    double* const row = sum.values.data() + n * static_cast<size_t>(sum.width);
    double& magnitude = sum.magnitudes[n];
    magnitude = std::hypot(magnitude, of_unit.magnitudes[n]);
    for (size_t d = 0; d < static_cast<size_t>(of_unit.width); ++d) {
      row[d] += of_unit.row(n)[d];
      if (single) row[d] = static_cast<double>(static_cast<float>(row[d]));
      magnitude = std::max(magnitude, std::fabs(row[d]));
    }
  }
}

// How many units add to one gradient.
int64_t UnitsOf(const AttentionProblem& problem, Slot slot) {
  if (slot == Slot::kGradSink) return problem.lengths.count();
  const BiasAxes axes(problem);
  return (axes.shares_sequences() ? problem.lengths.count() : 1) *
         (axes.shares_heads() ? problem.kv_heads : 1);
}

}  // namespace

BiasAxes::BiasAxes(const AttentionProblem& problem)
    : spec_(BiasSpec(problem, Slot::kGradBias)),
      slopes_(IsAlibi(problem.score.bias)) {}

bool BiasAxes::Shares(size_t axis) const {
  if (!IsBlocks(spec_.placement)) return spec_.strides[axis] == 0;
  return (axis == 1 || axis == 2) && spec_.dims[axis] == 1;
}

bool BiasAxes::shares_sequences() const {
  switch (spec_.placement) {
    case Placement::kTensorRows:
      return Shares(0) && Shares(2);
    case Placement::kTensorScores:
      return Shares(0) && Shares(2) && Shares(3);
    default:
      return Shares(0);
  }
}

int64_t BiasAxes::FirstRow() const {
  return diagonal() ? spec_.dims[3] - spec_.dims[2] : 0;
}

int64_t BiasAxes::Rows(const Sequence& sequence) const {
  if (diagonal()) return spec_.dims[2];
  return slopes_ || Shares(2) ? 1 : sequence.rows();
}

int64_t BiasAxes::Columns(const Sequence& sequence) const {
  if (diagonal()) return spec_.dims[3];
  return slopes_ || Shares(3) ? 1 : sequence.columns();
}

std::pair<int64_t, int64_t> BiasAxes::Place(int64_t i, int64_t j) const {
  if (slopes_) return {0, 0};
  if (!diagonal()) return {Shares(2) ? 0 : i, Shares(3) ? 0 : j};
  const int64_t missing = FirstRow();
  if (i >= missing) return {i - missing, j};
  const int64_t below = (i - j) - missing;
  return {std::max<int64_t>(below, 0), std::max<int64_t>(-below, 0)};
}

void UnitSums::Add(std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (!IsOfScores(part.slot)) continue;
    Sum& sum = sums_[{part.slot, part.sequence, part.head}];
    if (++sum.units == 1) {
      sum.part = std::move(part);
    } else {
      AddTo(sum.part, part, single_);
    }
  }
  std::erase_if(parts, [](const Part& part) { return IsOfScores(part.slot); });
}

void UnitSums::Take(std::vector<Part>& parts) {
  for (auto& [place, sum] : sums_) {
    if (sum.units != UnitsOf(problem_, sum.part.slot)) continue;
    parts.push_back(std::move(sum.part));
  }
}

}  // namespace flashacl::answer
