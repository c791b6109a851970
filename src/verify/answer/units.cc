// SPDX-License-Identifier: Apache-2.0
#include "verify/answer/units.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "reference/scores.h"

namespace flashacl {

double FlopsOf(const AttentionProblem& problem, const Unit& unit) {
  const Sequence& sequence =
      problem.lengths.sequences[static_cast<size_t>(unit.sequence)];
  const auto columns = static_cast<double>(
      problem.kv.gathers()
          ? std::min(reference::MostVisible(problem), sequence.columns())
          : sequence.columns());
  const auto dims = static_cast<double>(problem.score_dim() + problem.v_dim);
  const auto rows = static_cast<double>(unit.rows.size()) *
                    static_cast<double>(problem.group());
  // A column is loaded once, which takes about as long as two rows' dots.
  const double passes = problem.direction == Direction::kForward ? 1 : 5;
  return 2 * dims * columns * (rows * passes + 2);
}

std::vector<Unit> ChooseUnits(const AttentionProblem& problem, double flops) {
  std::vector<Unit> units;
  double all = 0;
  double loads = 0;  // of it: keys and values, whatever rows are taken
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const int64_t rows =
        problem.lengths.sequences[static_cast<size_t>(b)].rows();
    const bool backward = problem.direction == Direction::kBackward;
    if (rows == 0 && !backward) continue;
    for (int64_t g = 0; g < problem.kv_heads; ++g) {
      loads += FlopsOf(problem, {b, g, {}});
      Unit unit{b, g, std::vector<int64_t>(static_cast<size_t>(rows))};
      std::iota(unit.rows.begin(), unit.rows.end(), int64_t{0});
      all += FlopsOf(problem, unit);
      units.push_back(std::move(unit));
    }
  }
  if (all <= flops || units.empty()) return units;
  constexpr size_t kMinRows = 16;
  double left = 0;
  for (Unit& unit : units) {
    const size_t rows = unit.rows.size();
    if (problem.direction == Direction::kForward && rows > kMinRows) {
      const double share = static_cast<double>(rows) *
                           std::max(flops - loads, 0.0) / (all - loads);
      const size_t some =
          std::clamp(static_cast<size_t>(share), kMinRows, rows);
      std::vector<int64_t> chosen;
      for (size_t n = 0; n < some; ++n) {
        chosen.push_back(static_cast<int64_t>(n * (rows - 1) / (some - 1)));
      }
      unit.rows = std::move(chosen);
    }
    left += FlopsOf(problem, unit);
  }
  if (left <= flops) return units;
  const auto step = static_cast<size_t>(std::ceil(left / flops));
  std::vector<Unit> some;
  for (size_t n = 0; n < units.size(); n += step) {
    some.push_back(std::move(units[n]));
  }
  return some;
}

}  // namespace flashacl
