// SPDX-License-Identifier: Apache-2.0
// One row at a time, in T (float or double) and rounded as a recipe asks: its
// scores, what softmax makes of them, and its output. Of answer.cc alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/number.h"
#include "plan/implementation.h"
#include "reference/rows.h"
#include "reference/scores.h"
#include "verify/answer/answer.h"

namespace flashacl::answer {

using reference::KeyValues;
using reference::Operands;
using reference::Row;

inline double Rounded(DType dtype, double value) {
  if (dtype == DType::kNone) return value;
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

// Eight sums, which the compiler keeps in one register or two.
template <typename T>
T Dot(std::span<const T> a, std::span<const T> b) {
  constexpr size_t kSums = 8;
  T sums[kSums] = {};
  size_t d = 0;
  for (; d + kSums <= a.size(); d += kSums) {
    for (size_t n = 0; n < kSums; ++n) sums[n] += a[d + n] * b[d + n];
  }
  for (; d < a.size(); ++d) sums[0] += a[d] * b[d];
  return std::accumulate(std::begin(sums), std::end(sums), T{0});
}

template <typename T>
void Add(T factor, std::span<const T> row, std::span<T> sum) {
  for (size_t d = 0; d < sum.size(); ++d) sum[d] += factor * row[d];
}

template <typename T>
double MeanSquare(std::span<const T> row) {
  if (row.empty()) return 0;
  double sum = 0;
  for (const T x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return sum / static_cast<double>(row.size());
}

template <typename T>
std::vector<T> Converted(std::span<const double> row) {
  return {row.begin(), row.end()};
}

// Keys and values of a unit, in T.
template <typename T>
struct Columns {
  Columns(const Operands& operands, const Unit& unit)
      : key_values(operands.problem, layout),
        memory(static_cast<size_t>(layout.bytes())) {
    OneWorker alone;  // units are computed side by side
    key_values.Attach(memory.data());
    key_values.Load(operands, unit.sequence, unit.kv_head, alone);
    const int64_t count = operands.sequence(unit.sequence).columns();
    for (int64_t j = 0; j < count; ++j) {
      const bool exists = key_values.exists(j);
      keys.push_back(exists ? Converted<T>(key_values.key(j))
                            : std::vector<T>());
      values.push_back(exists ? Converted<T>(key_values.value(j))
                              : std::vector<T>());
      key_squares.push_back(MeanSquare<T>(keys.back()));
      value_squares.push_back(MeanSquare<T>(values.back()));
    }
  }

  std::span<const T> key(int64_t j) const {
    return keys[static_cast<size_t>(j)];
  }
  std::span<const T> value(int64_t j) const {
    return values[static_cast<size_t>(j)];
  }

  WorkspaceLayout layout;
  KeyValues key_values;
  std::vector<std::byte> memory;
  std::vector<std::vector<T>> keys;
  std::vector<std::vector<T>> values;
  std::vector<double> key_squares;  // means
  std::vector<double> value_squares;
};

// A row after softmax.
template <typename T>
struct Softmax {
  std::vector<int64_t> columns;  // that it sees
  std::vector<T> probs;          // before dropout
  std::vector<T> kept;           // what dropout makes of a prob of 1
  T max = 0;
  T sum = 0;
};

template <typename T>
class RowMath {
 public:
  RowMath(const TensorSet& tensors, const Unit& unit, const Recipe& recipe)
      : recipe_(recipe),
        operands_(tensors.problem, tensors.bindings),
        problem_(tensors.problem),
        columns_(operands_, unit) {}

  const Operands& operands() const { return operands_; }
  const Columns<T>& columns() const { return columns_; }

  std::vector<T> Query(const Row& row) const {
    std::vector<double> query(static_cast<size_t>(problem_.score_dim()));
    reference::LoadQuery(operands_, row, query);
    return Converted<T>(query);
  }

  std::vector<T> GradOut(const Row& row) const {
    std::vector<double> channels(static_cast<size_t>(problem_.v_dim));
    operands_.LoadRow(Slot::kGradOut, row, channels);
    return Converted<T>(channels);
  }

  // Scores of the columns the row sees.
  Softmax<T> Scores(const Row& row, std::span<const T> query) const {
    Softmax<T> softmax;
    softmax.columns.resize(
        static_cast<size_t>(reference::MostVisible(problem_)));
    const int64_t count = reference::VisibleColumns(
        operands_, row, columns_.key_values, softmax.columns);
    softmax.columns.resize(static_cast<size_t>(count));
    const T scale = static_cast<T>(problem_.score.scale);
    const bool before = problem_.score.bias == Score::Bias::kBeforeScale;
    const bool biased =
        operands_.bias.present() || problem_.score.bias != Score::Bias::kNone;
    const GridPlane keep = reference::PlaneOf(operands_.keep, row);
    for (const int64_t j : softmax.columns) {
      const T dot = Dot<T>(query, columns_.key(j));
      const T bias = biased ? static_cast<T>(BiasAt(operands_, row, j)) : T{0};
      const T score = before ? scale * (dot + bias) : scale * dot + bias;
      softmax.probs.push_back(static_cast<T>(Rounded(recipe_.scores, score)));
      softmax.kept.push_back(
          static_cast<T>(reference::Kept(operands_, keep, row.i, j)));
    }
    return softmax;
  }

  // Finds maximum and sum of the scores.
  void FindStats(const Row& row, Softmax<T>& softmax) const {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    const reference::Tensor sink = operands_.tensor(Slot::kSink);
    const T sunk = sink.present()
                       ? static_cast<T>(sink.Load(sink.spec.At(row.head)))
                       : kLowest;
    T max = sunk;
    for (const T score : softmax.probs) max = std::fmax(max, score);
    softmax.max = std::isinf(max) && max < 0 ? T{0} : max;
    softmax.sum = Exp(sunk - softmax.max);
    for (const T score : softmax.probs) {
      softmax.sum = InSoftmax(softmax.sum + Exp(score - softmax.max));
    }
  }

  // Takes maximum, sum and output that came with the gradients; false if they
  // did not.
  bool LoadForward(const Row& row, Softmax<T>& softmax,
                   std::span<T> out) const {
    const auto bound = [this](Slot slot) {
      return operands_.tensor(slot).base != nullptr;
    };
    if (!bound(Slot::kRowMax) || !bound(Slot::kRowSum) || !bound(Slot::kOut)) {
      return false;
    }
    const auto of_row = [&](Slot slot, const Grid& grid) {
      const int64_t at = reference::PlaneOf(grid, row).At(row.i, 0);
      return static_cast<T>(operands_.tensor(slot).Load(at));
    };
    softmax.max = of_row(Slot::kRowMax, operands_.row_max);
    softmax.sum = of_row(Slot::kRowSum, operands_.row_sum);
    std::vector<double> channels(out.size());
    operands_.LoadRow(Slot::kOut, row, channels);
    std::ranges::transform(channels, out.begin(),
                           [](double x) { return static_cast<T>(x); });
    return true;
  }

  // Scores become probs, by the maximum and sum that are there.
  void Normalise(Softmax<T>& softmax) const {
    for (T& prob : softmax.probs) {
      prob = softmax.sum == 0
                 ? T{0}
                 : InSoftmax(Exp(prob - softmax.max) / softmax.sum);
    }
  }

  // sum_j p_j v_j after dropout, and how large its terms are.
  double Output(const Softmax<T>& softmax, std::span<T> out) const {
    const reference::Tensor scale = operands_.tensor(Slot::kWeightScale);
    if (scale.present()) return OutputOfBytes(softmax, scale.Load(0), out);
    double squares = 0;
    for (size_t n = 0; n < softmax.columns.size(); ++n) {
      const int64_t j = softmax.columns[n];
      const T prob = InProbs(softmax.probs[n] * softmax.kept[n]);
      Add<T>(prob, columns_.value(j), out);
      const auto p = static_cast<double>(prob);
      squares += p * p * columns_.value_squares[static_cast<size_t>(j)];
    }
    return std::sqrt(squares);
  }

  // The scores' size: of the dots that are summed, the greatest's root of the
  // sum of squares.
  double ScoreSize(std::span<const T> query, const Softmax<T>& softmax) const {
    double greatest = 0;
    for (const int64_t j : softmax.columns) {
      greatest =
          std::fmax(greatest, columns_.key_squares[static_cast<size_t>(j)]);
    }
    return std::fabs(problem_.score.scale) *
           std::sqrt(MeanSquare<T>(query) * greatest *
                     static_cast<double>(query.size()));
  }

  T InProbs(T value) const {
    return static_cast<T>(Rounded(recipe_.probs, static_cast<double>(value)));
  }

 private:
  // Weights of 8 bits: exp(s - m) times `scale`, rounded where the recipe says
  // so. All steps are equal, so those of small weights count as much.
  double OutputOfBytes(const Softmax<T>& softmax, double scale,
                       std::span<T> out) const {
    double squares = 0;
    for (size_t n = 0; n < softmax.columns.size(); ++n) {
      const int64_t j = softmax.columns[n];
      T weight = softmax.probs[n] * softmax.sum * static_cast<T>(scale);
      if (recipe_.bytes) {
        weight = std::clamp(std::rint(weight), T{-128}, T{127});
      }
      Add<T>(weight * softmax.kept[n] / softmax.sum, columns_.value(j), out);
      squares += columns_.value_squares[static_cast<size_t>(j)];
    }
    return softmax.sum == 0
               ? 0
               : std::sqrt(squares) / static_cast<double>(softmax.sum);
  }

  T InSoftmax(T value) const {
    return static_cast<T>(Rounded(recipe_.softmax, static_cast<double>(value)));
  }
  T Exp(T value) const { return InSoftmax(std::exp(value)); }

  const Recipe& recipe_;
  const Operands operands_;
  const AttentionProblem& problem_;
  const Columns<T> columns_;
};

}  // namespace flashacl::answer
