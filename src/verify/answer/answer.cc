// SPDX-License-Identifier: Apache-2.0
// The formulas of src/reference, of rows that are chosen and in types that are.
#include "verify/answer/answer.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "verify/answer/row_math.h"
#include "verify/answer/score_sums.h"

namespace flashacl {
namespace {

using answer::Add;
using answer::Dot;
using answer::MeanSquare;
using answer::RowMath;
using answer::ScoreSums;
using answer::Softmax;
using reference::Row;

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

constexpr Slot kRowResults[] = {Slot::kRowMax, Slot::kRowSum, Slot::kLse};

// What operators store of a row, and how large its terms are.
struct RowResult {
  double value = 0;
  double magnitude = 0;
};

// `size` is that of the scores, whose roundings are shares of it; those of the
// sum, relative to itself, are as large.
template <typename T>
RowResult ResultOfRow(const AttentionProblem& problem, Slot slot,
                      const Softmax<T>& softmax, double size) {
  const auto max = static_cast<double>(softmax.max);
  const auto sum = static_cast<double>(softmax.sum);
  const double terms = 1 + size + std::fabs(max);
  if (slot == Slot::kLse) {
    if (softmax.columns.empty()) return {HUGE_VAL, 0};
    return {max + std::log(sum), terms};
  }
  const bool is_max = slot == Slot::kRowMax;
  if (sum == 0) {
    // Who sees no key. A list may be empty; other rows say so by FLT_MAX.
    const double none = problem.kv.gathers() ? 0 : FLT_MAX;
    return {is_max ? -none : none, 0};
  }
  return is_max ? RowResult{max, size} : RowResult{sum, sum * terms};
}

// The output in steps of 8 bits, not rounded to whole ones; its magnitude then.
template <typename T>
double Quantise(const reference::Operands& operands, int64_t head,
                double magnitude, std::span<T> out) {
  const reference::Tensor scales = operands.tensor(Slot::kOutScale);
  const reference::Tensor offsets = operands.tensor(Slot::kOutOffset);
  const auto of = [&](const reference::Tensor& tensor, size_t d, double none) {
    const auto channel = static_cast<int64_t>(d);
    return tensor.present() ? tensor.Load(tensor.spec.At(head, channel)) : none;
  };
  double greatest = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    const double scale = of(scales, d, 1);
    const double x = static_cast<double>(out[d]) * scale + of(offsets, d, 0);
    greatest = std::fmax(greatest, std::fabs(scale));
    // Bytes have no NaN; operators store 0.
    out[d] = static_cast<T>(std::isnan(x) ? 0 : std::clamp(x, -128.0, 127.0));
  }
  return magnitude * greatest;
}

// The output of one head, and what softmax leaves of its rows.
template <typename T>
class ForwardHead {
 public:
  ForwardHead(const RowMath<T>& math, const Unit& unit, int64_t head)
      : math_(math), problem_(math.operands().problem) {
    parts_.push_back(MakePart(Slot::kOut, unit, head, problem_.v_dim));
    for (const Slot slot : kRowResults) {
      if (!problem_.has(slot)) continue;
      parts_.push_back(MakePart(slot, unit, head, 1));
    }
  }

  // The n-th row of the unit.
  void Add(const Row& row, size_t n) {
    const std::vector<T> query = math_.Query(row);
    Softmax<T> softmax = math_.Scores(row, query);
    math_.FindStats(row, softmax);
    const double size = math_.ScoreSize(query, softmax);
    const bool empty = math_.operands().sequence(row.sequence).columns() == 0;
    for (Part& part : std::span(parts_).subspan(1)) {
      RowResult one = ResultOfRow<T>(problem_, part.slot, softmax, size);
      if (empty && part.slot != Slot::kLse) one = {};
      StoreRow<double>(std::span(&one.value, 1), one.magnitude, n, part);
    }
    math_.Normalise(softmax);
    std::vector<T> out(static_cast<size_t>(problem_.v_dim));
    double magnitude = math_.Output(softmax, out);
    if (problem_[Slot::kOut].dtype == DType::kI8) {
      magnitude =
          Quantise<T>(math_.operands(), row.head, magnitude, std::span(out));
    }
    StoreRow<T>(out, magnitude, n, parts_[0]);
  }

  std::vector<Part>& parts() { return parts_; }

 private:
  const RowMath<T>& math_;
  const AttentionProblem& problem_;
  std::vector<Part> parts_;
};

template <typename T>
std::vector<Part> Forward(const TensorSet& tensors, const Unit& unit,
                          const Recipe& recipe) {
  const AttentionProblem& problem = tensors.problem;
  const RowMath<T> math(tensors, unit, recipe);
  std::vector<Part> parts;
  for (int64_t g = 0; g < problem.group(); ++g) {
    const int64_t head = unit.kv_head * problem.group() + g;
    ForwardHead<T> of_head(math, unit, head);
    for (size_t n = 0; n < unit.rows.size(); ++n) {
      of_head.Add({unit.sequence, unit.kv_head, head, unit.rows[n]}, n);
    }
    std::ranges::move(of_head.parts(), std::back_inserter(parts));
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
        value_sums_(Extent().columns(), problem_.v_dim),
        score_sums_(math_, unit) {}

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
    score_sums_.Take(parts_);
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
    score_sums_.BeginRow(row, query, grad_out, out, softmax);
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
      score_sums_.Add({j, prob, softmax.kept[m], dp, delta, ds});
      if (!adds) continue;
      key_sums_.AddRow(j, scale * ds, query, terms * query_size);
      value_sums_.AddRow(j, kept, grad_out,
                         static_cast<double>(kept) * grad_size);
    }
    score_sums_.EndRow(softmax);
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
  ScoreSums<T> score_sums_;
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
  return {.single = true,
          .probs = narrow ? dtype : DType::kNone,
          .bytes = problem.has(Slot::kWeightScale)};
}

Status CheckAnswerable(const AttentionProblem& problem) {
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
  std::vector<Part> parts;
  answer::UnitSums sums(tensors.problem, recipe.single);
  // Some at a time, as each has all of a bias until it is added to the others'.
  const auto some = static_cast<size_t>(8 * workers.count());
  for (size_t first = 0; first < units.size(); first += some) {
    const auto of = units.subspan(first, std::min(some, units.size() - first));
    std::vector<std::vector<Part>> of_units(of.size());
    workers.ForEach(static_cast<int64_t>(of.size()), [&](int64_t n) {
      const auto at = static_cast<size_t>(n);
      of_units[at] = recipe.single
                         ? ComputeUnit<float>(tensors, of[at], recipe)
                         : ComputeUnit<double>(tensors, of[at], recipe);
    });
    for (std::vector<Part>& of_unit : of_units) {
      sums.Add(of_unit);
      std::ranges::move(of_unit, std::back_inserter(parts));
    }
  }
  sums.Take(parts);
  return parts;
}

}  // namespace flashacl
