// SPDX-License-Identifier: Apache-2.0
// What gradients of scores are summed to besides those of queries and keys: the
// gradients of a bias and of sinks. Of answer.cc alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "verify/answer/row_math.h"

namespace flashacl::answer {

// Which scores share an element of the gradient of the bias, and which row and
// column of what is stored that is.
class BiasAxes {
 public:
  explicit BiasAxes(const AttentionProblem& problem);

  bool present() const { return spec_.present(); }
  bool shares_sequences() const;
  bool shares_heads() const { return Shares(1); }

  // Of the first that is stored.
  int64_t FirstRow() const;
  int64_t Rows(const Sequence& sequence) const;
  int64_t Columns(const Sequence& sequence) const;

  // Of score (i, j), from the first; see GridPlane::At.
  std::pair<int64_t, int64_t> Place(int64_t i, int64_t j) const;

 private:
  bool diagonal() const { return spec_.placement == Placement::kDiagonal; }
  bool Shares(size_t axis) const;

  TensorSpec spec_;
  bool slopes_;
};

// Of the rows of one unit. With e = 1 + s + |max|, by which an error of a score
// or of the maximum is one of an exponential (as answer.cc has it of a row's
// sum), and the sizes of dp and delta the roots of the sums of the squares that
// they are summed of, the terms' magnitudes are
//   ds = p (dp - delta):     p (|dp - delta| e + size of dp + size of delta)
//   psink sum_j p_j dp_j:    psink (|sum| e + size of delta + root of sum_j of
//                            (p_j (|dp_j| e + size of dp_j))^2)
// and that of a sum the root of the sum of their squares, or the sum itself if
// that is greater, as where all have one sign. Others sum psink delta, of
// outputs that were rounded: so the size of delta is in both.
template <typename T>
class ScoreSums {
 public:
  ScoreSums(const RowMath<T>& math, const Unit& unit)
      : math_(math),
        problem_(math.operands().problem),
        unit_(unit),
        axes_(problem_) {
    const Sequence& sequence = math.operands().sequence(unit.sequence);
    if (axes_.present()) {
      rows_ = axes_.Rows(sequence);
      columns_ = axes_.Columns(sequence);
      planes_ = axes_.shares_heads() ? 1 : problem_.group();
      bias_.resize(static_cast<size_t>(planes_ * rows_ * columns_));
      bias_squares_.resize(bias_.size());
    }
    if (!problem_.has(Slot::kGradSink)) return;
    sinks_.resize(static_cast<size_t>(problem_.group()));
    sink_squares_.resize(sinks_.size());
  }

  // `softmax` and `out` are the row's, as backward takes them.
  void BeginRow(const Row& row, std::span<const T> query,
                std::span<const T> grad_out, std::span<const T> out,
                const Softmax<T>& softmax) {
    if (!axes_.present() && sinks_.empty()) return;
    row_ = row;
    exponent_ = 1 + math_.ScoreSize(query, softmax) +
                std::fabs(static_cast<double>(softmax.max));
    grad_square_ =
        MeanSquare<T>(grad_out) * static_cast<double>(grad_out.size());
    double squares = 0;
    for (size_t d = 0; d < out.size(); ++d) {
      const auto x = static_cast<double>(grad_out[d] * out[d]);
      squares += x * x;
    }
    delta_size_ = std::sqrt(squares);
    p_dp_ = 0;
    p_dp_squares_ = 0;
  }

  // A score of the row that was begun.
  struct Term {
    int64_t column;
    T prob;   // before dropout
    T kept;   // what dropout makes of a prob of 1
    T dp;     // after dropout
    T delta;  // what is subtracted from it
    T grad;   // prob (dp - delta), as the recipe rounds it
  };

  void Add(const Term& term) {
    if (!axes_.present() && sinks_.empty()) return;
    const auto at = static_cast<size_t>(term.column);
    const double size_of_dp =
        std::sqrt(grad_square_ * math_.columns().value_squares[at]) *
        static_cast<double>(term.kept);
    const auto p = static_cast<double>(term.prob);
    if (axes_.present()) {
      const auto difference = static_cast<double>(term.dp - term.delta);
      AddToBias(term, p * (std::fabs(difference) * exponent_ + size_of_dp +
                           delta_size_));
    }
    if (sinks_.empty()) return;
    p_dp_ += term.prob * term.dp;
    const double magnitude =
        p * (std::fabs(static_cast<double>(term.dp)) * exponent_ + size_of_dp);
    p_dp_squares_ += magnitude * magnitude;
  }

  void EndRow(const Softmax<T>& softmax) {
    if (sinks_.empty() || softmax.columns.empty() || softmax.sum == 0) return;
    const reference::Tensor sink = math_.operands().tensor(Slot::kSink);
    const auto logit = static_cast<T>(sink.Load(sink.spec.At(row_.head)));
    const T prob = std::exp(logit - softmax.max) / softmax.sum;
    const double magnitude =
        static_cast<double>(prob) *
        (std::fabs(static_cast<double>(p_dp_)) * exponent_ + delta_size_ +
         std::sqrt(p_dp_squares_));
    const size_t at = HeadOfGroup();
    sinks_[at] -= prob * p_dp_;
    sink_squares_[at] += magnitude * magnitude;
  }

  // What this unit adds to gradients: of sequence 0 and head 0 where all share
  // one. A row's magnitude is its element's that has most.
  void Take(std::vector<Part>& parts) const {
    for (int64_t n = 0; axes_.present() && n < planes_; ++n) {
      Part part{Slot::kGradBias,
                unit_.sequence,
                FirstHead() + n,
                columns_,
                {},
                {},
                {}};
      if (axes_.shares_sequences()) part.sequence = 0;
      if (axes_.shares_heads()) part.head = 0;
      const auto count = static_cast<size_t>(rows_ * columns_);
      const size_t first = static_cast<size_t>(n) * count;
      for (int64_t i = 0; i < rows_; ++i) {
        part.rows.push_back(axes_.FirstRow() + i);
      }
      Fill(std::span(bias_).subspan(first, count),
           std::span(bias_squares_).subspan(first, count), part);
      parts.push_back(std::move(part));
    }
    for (size_t n = 0; n < sinks_.size(); ++n) {
      Part part{Slot::kGradSink,
                0,
                FirstHead() + static_cast<int64_t>(n),
                1,
                {0},
                {},
                {}};
      Fill(std::span(sinks_).subspan(n, 1),
           std::span(sink_squares_).subspan(n, 1), part);
      parts.push_back(std::move(part));
    }
  }

 private:
  int64_t FirstHead() const { return unit_.kv_head * problem_.group(); }
  size_t HeadOfGroup() const {
    return static_cast<size_t>(row_.head - FirstHead());
  }

  void AddToBias(const Term& term, double magnitude) {
    const Score& score = problem_.score;
    double factor = 1;
    if (score.bias == Score::Bias::kBeforeScale) factor = score.scale;
    if (IsAlibi(score.bias)) {
      factor = -score.AlibiFactor(row_.sequence, row_.i, term.column);
    }
    const auto [i, j] = axes_.Place(row_.i, term.column);
    const size_t plane = planes_ == 1 ? 0 : HeadOfGroup();
    const size_t at = plane * static_cast<size_t>(rows_ * columns_) +
                      static_cast<size_t>(i * columns_ + j);
    bias_[at] += static_cast<T>(factor) * term.grad;
    bias_squares_[at] += factor * factor * magnitude * magnitude;
  }

  static void Fill(std::span<const T> sums, std::span<const double> squares,
                   Part& part) {
    part.values.assign(sums.begin(), sums.end());
    part.magnitudes.resize(part.rows.size());
    const auto width = static_cast<size_t>(part.width);
    for (size_t n = 0; n < sums.size(); ++n) {
      double& magnitude = part.magnitudes[n / width];
      magnitude = std::max({magnitude, std::sqrt(squares[n]),
                            std::fabs(static_cast<double>(sums[n]))});
    }
  }

  const RowMath<T>& math_;
  const AttentionProblem& problem_;
  const Unit& unit_;
  const BiasAxes axes_;
  int64_t planes_ = 0;
  int64_t rows_ = 0;  // of a plane of the bias
  int64_t columns_ = 0;
  std::vector<T> bias_;  // [plane, row, column]
  std::vector<double> bias_squares_;
  std::vector<T> sinks_;  // [head of the group]
  std::vector<double> sink_squares_;
  // Of the row that was begun.
  Row row_{};
  double exponent_ = 1;
  double grad_square_ = 0;  // of dout, as a sum over channels
  double delta_size_ = 0;
  T p_dp_ = 0;
  double p_dp_squares_ = 0;
};

// Gradients that units add to, one after the other.
class UnitSums {
 public:
  // In fp32 if `single`.
  UnitSums(const AttentionProblem& problem, bool single)
      : problem_(problem), single_(single) {}

  // Takes those of a unit away from its parts.
  void Add(std::vector<Part>& parts);

  // Those to which all units have been added; of others nobody knows the sum.
  void Take(std::vector<Part>& parts);

 private:
  struct Sum {
    Part part;
    int64_t units = 0;
  };

  const AttentionProblem& problem_;
  bool single_;
  std::map<std::tuple<Slot, int64_t, int64_t>, Sum> sums_;
};

}  // namespace flashacl::answer
