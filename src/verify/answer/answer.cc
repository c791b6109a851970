// SPDX-License-Identifier: Apache-2.0
// The formulas of src/reference, of rows that are chosen and in types that are.
#include "verify/answer/answer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/number.h"
#include "base/str.h"
#include "plan/implementation.h"
#include "reference/rows.h"
#include "reference/scores.h"

namespace flashacl {
namespace {

using reference::KeyValues;
using reference::Operands;
using reference::Row;

double Rounded(DType dtype, double value) {
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

  T InProbs(T value) const {
    return static_cast<T>(Rounded(recipe_.probs, static_cast<double>(value)));
  }

 private:
  T InSoftmax(T value) const {
    return static_cast<T>(Rounded(recipe_.softmax, static_cast<double>(value)));
  }
  T Exp(T value) const { return InSoftmax(std::exp(value)); }

  const Recipe& recipe_;
  const Operands operands_;
  const AttentionProblem& problem_;
  const Columns<T> columns_;
};

Part MakePart(Slot slot, const Unit& unit, int64_t head, int64_t width) {
  Part part{slot, unit.sequence, head, width, {}, {}, {}};
  part.rows = unit.rows;
  part.values.resize(part.rows.size() * static_cast<size_t>(width));
  part.magnitudes.resize(part.rows.size());
  return part;
}

template <typename T>
void StoreRow(std::span<const T> from, double magnitude, size_t n, Part& part) {
  std::ranges::copy(
      from, part.values.begin() + static_cast<ptrdiff_t>(n * from.size()));
  part.magnitudes[n] = magnitude;
}

template <typename T>
std::vector<Part> Forward(const TensorSet& tensors, const Unit& unit,
                          const Recipe& recipe) {
  const AttentionProblem& problem = tensors.problem;
  const RowMath<T> math(tensors, unit, recipe);
  std::vector<Part> parts;
  std::vector<T> out(static_cast<size_t>(problem.v_dim));
  for (int64_t g = 0; g < problem.group(); ++g) {
    const int64_t head = unit.kv_head * problem.group() + g;
    Part part = MakePart(Slot::kOut, unit, head, problem.v_dim);
    for (size_t n = 0; n < unit.rows.size(); ++n) {
      const Row row{unit.sequence, unit.kv_head, head, unit.rows[n]};
      const std::vector<T> query = math.Query(row);
      Softmax<T> softmax = math.Scores(row, query);
      math.FindStats(row, softmax);
      math.Normalise(softmax);
      std::ranges::fill(out, T{0});
      const double magnitude = math.Output(softmax, out);
      StoreRow<T>(out, magnitude, n, part);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// Sums over rows, for every column.
template <typename T>
struct ColumnSums {
  ColumnSums(int64_t columns, int64_t width_of_row)
      : width(static_cast<size_t>(width_of_row)),
        sums(static_cast<size_t>(columns) * width),
        squares(static_cast<size_t>(columns)) {}

  void AddRow(int64_t j, T factor, std::span<const T> row, double magnitude) {
    Add<T>(factor, row,
           std::span(sums).subspan(static_cast<size_t>(j) * width, width));
    squares[static_cast<size_t>(j)] += magnitude * magnitude;
  }

  size_t width;
  std::vector<T> sums;
  std::vector<double> squares;
};

template <typename T>
class BackwardUnit {
 public:
  BackwardUnit(const TensorSet& tensors, const Unit& unit, const Recipe& recipe)
      : problem_(tensors.problem),
        unit_(unit),
        recipe_(recipe),
        math_(tensors, unit, recipe),
        stats_(recipe.stats == nullptr ? tensors : *recipe.stats, unit, recipe),
        key_sums_(Extent().columns(), problem_.score_dim()),
        value_sums_(Extent().columns(), problem_.v_dim) {}

  std::vector<Part> Run() {
    for (int64_t g = 0; g < problem_.group(); ++g) {
      const int64_t head = unit_.kv_head * problem_.group() + g;
      Part part = MakePart(Slot::kGradQuery, unit_, head, problem_.score_dim());
      for (size_t n = 0; n < unit_.rows.size(); ++n) {
        const Row row{unit_.sequence, unit_.kv_head, head, unit_.rows[n]};
        AddRow(row, n, part);
      }
      AddSplit(part, Slot::kGradQuery, Slot::kGradQueryRope);
    }
    Part keys = OfColumns(Slot::kGradKey, key_sums_);
    Part values = OfColumns(Slot::kGradValue, value_sums_);
    if (problem_.kv.value_is_key) AddValuesTo(values, keys);
    AddSplit(keys, Slot::kGradKey, Slot::kGradKeyRope);
    if (problem_.has(Slot::kGradValue)) parts_.push_back(std::move(values));
    return std::move(parts_);
  }

 private:
  const Sequence& Extent() const {
    return math_.operands().sequence(unit_.sequence);
  }

  void AddRow(const Row& row, size_t n, Part& part) {
    const std::vector<T> query = math_.Query(row);
    const std::vector<T> grad_out = math_.GradOut(row);
    Softmax<T> softmax = math_.Scores(row, query);
    std::vector<T> out(static_cast<size_t>(problem_.v_dim));
    TakeForward(row, softmax, out);
    math_.Normalise(softmax);
    const T delta = recipe_.without_delta
                        ? T{0}
                        : Dot<T>(std::span<const T>(grad_out), out);
    const T scale =
        recipe_.scale_once_less ? T{1} : static_cast<T>(problem_.score.scale);
    const double query_size = std::sqrt(MeanSquare<T>(query));
    const double grad_size = std::sqrt(MeanSquare<T>(grad_out));
    const int64_t only = recipe_.only_head_of_group;
    const bool adds = only < 0 || row.head % problem_.group() == only;
    std::vector<T> grad_query(query.size());
    double squares = 0;
    for (size_t m = 0; m < softmax.columns.size(); ++m) {
      const int64_t j = softmax.columns[m];
      const T prob = softmax.probs[m];
      const T dp = Dot<T>(grad_out, math_.columns().value(j)) * softmax.kept[m];
      const T ds = math_.InProbs(prob * (dp - delta));
      const T kept = math_.InProbs(prob * softmax.kept[m]);
      const double terms = static_cast<double>(
          std::fabs(scale * prob) * (std::fabs(dp) + std::fabs(delta)));
      Add<T>(scale * ds, math_.columns().key(j), grad_query);
      squares +=
          terms * terms * math_.columns().key_squares[static_cast<size_t>(j)];
      if (!adds) continue;
      key_sums_.AddRow(j, scale * ds, query, terms * query_size);
      value_sums_.AddRow(j, kept, grad_out,
                         static_cast<double>(kept) * grad_size);
    }
    StoreRow<T>(grad_query, std::sqrt(squares), n, part);
  }

  // Maximum, sum and output of a row in the forward direction: its own, or what
  // was stored.
  void TakeForward(const Row& row, Softmax<T>& softmax, std::span<T> out) {
    if (stats_.LoadForward(row, softmax, out)) return;
    Softmax<T> stats = stats_.Scores(row, stats_.Query(row));
    stats_.FindStats(row, stats);
    softmax.max = stats.max;
    softmax.sum = stats.sum;
    stats_.Normalise(stats);
    stats_.Output(stats, out);
    // As it was stored by the forward direction.
    for (T& x : out) x = math_.InProbs(x);
  }

  Part OfColumns(Slot slot, const ColumnSums<T>& sums) const {
    Unit all = unit_;
    all.rows.resize(static_cast<size_t>(Extent().columns()));
    std::iota(all.rows.begin(), all.rows.end(), int64_t{0});
    Part part =
        MakePart(slot, all, unit_.kv_head, static_cast<int64_t>(sums.width));
    std::ranges::copy(sums.sums, part.values.begin());
    for (size_t n = 0; n < sums.squares.size(); ++n) {
      part.magnitudes[n] = std::sqrt(sums.squares[n]);
    }
    return part;
  }

  static void AddValuesTo(const Part& values, Part& keys) {
    for (size_t n = 0; n < keys.rows.size(); ++n) {
      for (int64_t d = 0; d < values.width; ++d) {
        keys.values[n * static_cast<size_t>(keys.width) +
                    static_cast<size_t>(d)] +=
            values.row(n)[static_cast<size_t>(d)];
      }
      keys.magnitudes[n] = std::hypot(keys.magnitudes[n], values.magnitudes[n]);
    }
  }

  // Channels after the first qk_dim are the rope's.
  void AddSplit(const Part& whole, Slot first, Slot rope) {
    const auto add = [&](Slot slot, int64_t from, int64_t width) {
      if (!problem_.has(slot)) return;
      Part part{slot, whole.sequence, whole.head, width, whole.rows, {}, {}};
      for (size_t n = 0; n < whole.rows.size(); ++n) {
        const auto row = whole.row(n).subspan(static_cast<size_t>(from),
                                              static_cast<size_t>(width));
        part.values.insert(part.values.end(), row.begin(), row.end());
      }
      part.magnitudes = whole.magnitudes;
      parts_.push_back(std::move(part));
    };
    add(first, 0, problem_.qk_dim);
    add(rope, problem_.qk_dim, problem_.rope_dim);
  }

  const AttentionProblem& problem_;
  const Unit& unit_;
  const Recipe& recipe_;
  RowMath<T> math_;
  RowMath<T> stats_;
  ColumnSums<T> key_sums_;
  ColumnSums<T> value_sums_;
  std::vector<Part> parts_;
};

template <typename T>
std::vector<Part> ComputeUnit(const TensorSet& tensors, const Unit& unit,
                              const Recipe& recipe) {
  if (tensors.problem.direction == Direction::kForward) {
    return Forward<T>(tensors, unit, recipe);
  }
  return BackwardUnit<T>(tensors, unit, recipe).Run();
}

}  // namespace

Recipe PlainRecipe(const AttentionProblem& problem) {
  const DType dtype = problem[Slot::kQuery].dtype;
  const bool narrow = dtype == DType::kF16 || dtype == DType::kBf16;
  return {.single = true, .probs = narrow ? dtype : DType::kNone};
}

Status CheckAnswerable(const AttentionProblem& problem) {
  if (problem.has(Slot::kWeightScale) ||
      problem[Slot::kOut].dtype == DType::kI8) {
    return Unsupported(
        "8-bit queries with rounded weights, and results of 8 bits, are not "
        "checked");
  }
  if (!problem.lengths.known() || problem.has(Slot::kKeyPadding) ||
      problem.has(Slot::kQueryPadding)) {
    return Unsupported(
        "lengths that tensors say are not checked: say the lengths "
        "themselves, q= and k=");
  }
  return {};
}

std::vector<Part> ComputeParts(const TensorSet& tensors,
                               std::span<const Unit> units,
                               const Recipe& recipe, Workers& workers) {
  std::vector<std::vector<Part>> of_units(units.size());
  workers.ForEach(static_cast<int64_t>(units.size()), [&](int64_t n) {
    const auto at = static_cast<size_t>(n);
    of_units[at] = recipe.single
                       ? ComputeUnit<float>(tensors, units[at], recipe)
                       : ComputeUnit<double>(tensors, units[at], recipe);
  });
  std::vector<Part> parts;
  for (std::vector<Part>& of_unit : of_units) {
    std::ranges::move(of_unit, std::back_inserter(parts));
  }
  return parts;
}

}  // namespace flashacl
