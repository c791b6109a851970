// SPDX-License-Identifier: Apache-2.0
#include "verify/answer/score_sums.h"

#include <map>
#include <tuple>

namespace flashacl::answer {
namespace {

bool IsShare(const Part& part) {
  return part.slot == Slot::kGradBias || part.slot == Slot::kGradSink;
}

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

void AddTo(Part& sum, const Part& share) {
  Enlarge(sum, share);
  for (size_t n = 0; n < share.rows.size(); ++n) {
    double* const row = sum.values.data() + n * static_cast<size_t>(sum.width);
    for (size_t d = 0; d < static_cast<size_t>(share.width); ++d) {
      row[d] += share.row(n)[d];
    }
    sum.magnitudes[n] = std::hypot(sum.magnitudes[n], share.magnitudes[n]);
  }
}

// Of how many units a gradient has shares.
int64_t SharesOf(const AttentionProblem& problem, Slot slot) {
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
  return spec_.placement != Placement::kTensorRows &&
         spec_.placement != Placement::kTensorScores && Shares(0);
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

void MergeShares(const AttentionProblem& problem, std::vector<Part>& parts) {
  std::map<std::tuple<Slot, int64_t, int64_t>, std::pair<Part, int64_t>> sums;
  for (Part& part : parts) {
    if (!IsShare(part)) continue;
    auto& [sum, shares] = sums[{part.slot, part.sequence, part.head}];
    if (++shares == 1) {
      sum = std::move(part);
    } else {
      AddTo(sum, part);
    }
  }
  std::erase_if(parts, IsShare);
  for (auto& [place, sum] : sums) {
    if (sum.second != SharesOf(problem, std::get<Slot>(place))) continue;
    parts.push_back(std::move(sum.first));
  }
}

}  // namespace flashacl::answer
