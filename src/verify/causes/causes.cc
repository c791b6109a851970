// SPDX-License-Identifier: Apache-2.0
// Tries every cause on some rows, wrong ones first.
#include "verify/causes/causes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/str.h"
#include "problem/tensor_checks.h"

namespace flashacl {
namespace {

constexpr double kFlopsOfTrial = 1e8;
constexpr size_t kRowsOfUnit = 24;

using Place = std::pair<Slot, int64_t>;  // offset of a row in its result

// Rows that trials are judged by, and which of them are wrong.
struct Sample {
  std::vector<Unit> units;
  std::map<Place, bool> wrong;
  int64_t wrong_rows = 0;
};

bool IsBackward(const TensorSet& tensors) {
  return tensors.problem.direction == Direction::kBackward;
}

// Some rows of a unit, the wrong ones first; all of them backward.
Unit SomeRows(const Unit& unit, const std::map<int64_t, bool>& wrong) {
  Unit some{unit.sequence, unit.kv_head, {}};
  for (const bool of_wrong : {true, false}) {
    std::vector<int64_t> rows;
    for (const auto& [row, is_wrong] : wrong) {
      if (is_wrong == of_wrong) rows.push_back(row);
    }
    const size_t most = of_wrong ? kRowsOfUnit * 2 / 3 : kRowsOfUnit / 3;
    const size_t step = std::max<size_t>(rows.size() / most, 1);
    for (size_t n = 0; n < rows.size(); n += step) {
      some.rows.push_back(rows[n]);
    }
  }
  std::ranges::sort(some.rows);
  return some;
}

struct UnitFacts {
  Unit unit;
  std::map<int64_t, bool> rows;  // wrong in any head
  int64_t wrong = 0;
};

std::vector<UnitFacts> FactsOf(const Judged& judged) {
  std::map<std::pair<int64_t, int64_t>, UnitFacts> by_unit;
  const AttentionProblem& problem = judged.tensors.problem;
  for (const HeadJudgement& head : judged.judgement.heads) {
    const bool of_keys = head.slot == Slot::kGradKey ||
                         head.slot == Slot::kGradKeyRope ||
                         head.slot == Slot::kGradValue;
    const int64_t kv_head = of_keys ? head.head : head.head / problem.group();
    UnitFacts& facts = by_unit[{head.sequence, kv_head}];
    facts.unit.sequence = head.sequence;
    facts.unit.kv_head = kv_head;
    facts.wrong += head.wrong_rows;
    if (of_keys) continue;
    for (const RowJudgement& row : head.rows) {
      bool& wrong = facts.rows[row.row];
      wrong = wrong || row.wrong();
    }
  }
  std::vector<UnitFacts> all;
  for (auto& [place, facts] : by_unit) {
    const auto rows = static_cast<size_t>(
        problem.lengths.sequences[static_cast<size_t>(facts.unit.sequence)]
            .rows());
    facts.unit.rows.resize(rows);
    std::iota(facts.unit.rows.begin(), facts.unit.rows.end(), int64_t{0});
    all.push_back(std::move(facts));
  }
  std::ranges::stable_sort(all, [](const UnitFacts& a, const UnitFacts& b) {
    return (a.wrong > 0) > (b.wrong > 0);
  });
  return all;
}

// Takes units with wrong rows and some without, all of them if that is cheap.
Sample MakeSample(const Judged& judged) {
  std::vector<UnitFacts> facts = FactsOf(judged);
  const AttentionProblem& problem = judged.tensors.problem;
  double flops = 0;
  bool complete = true;
  for (const UnitFacts& one : facts) {
    flops += FlopsOf(problem, one.unit);
    complete = complete && (IsBackward(judged.tensors) ||
                            one.rows.size() == one.unit.rows.size());
  }
  const bool all = complete && flops <= kFlopsOfTrial;
  const auto wrong_units = std::ranges::count_if(
      facts, [](const UnitFacts& one) { return one.wrong > 0; });
  Sample sample;
  double used = 0;
  const auto take = [&](const UnitFacts& one) {
    Unit unit = all || IsBackward(judged.tensors)
                    ? one.unit
                    : SomeRows(one.unit, one.rows);
    const double cost = FlopsOf(problem, unit);
    if (!all && !sample.units.empty() && used + cost > kFlopsOfTrial) return;
    used += cost;
    sample.units.push_back(std::move(unit));
  };
  // Every so many-th, so that all sequences and heads have a chance.
  constexpr size_t kStride = 7;
  const auto take_some = [&](size_t first, size_t last) {
    for (size_t start = 0; start < kStride; ++start) {
      for (size_t n = first + start; n < last; n += kStride) take(facts[n]);
    }
  };
  take_some(0, static_cast<size_t>(wrong_units));
  take_some(static_cast<size_t>(wrong_units), facts.size());
  return sample;
}

bool Contains(const Unit& unit, int64_t row) {
  return std::ranges::binary_search(unit.rows, row);
}

// Which of the sample's rows are wrong, by where they are.
void MarkWrong(const Judged& judged, Sample& sample) {
  const AttentionProblem& problem = judged.tensors.problem;
  std::map<std::pair<int64_t, int64_t>, const Unit*> units;
  for (const Unit& unit : sample.units) {
    units[{unit.sequence, unit.kv_head}] = &unit;
  }
  const Results results(judged.tensors);
  auto next_head = judged.judgement.heads.begin();
  for (const Part& part : judged.exact) {
    if (judged.tensors.bindings[part.slot] == nullptr) continue;
    const auto head = next_head++;
    const bool of_queries = part.slot == Slot::kOut ||
                            part.slot == Slot::kGradQuery ||
                            part.slot == Slot::kGradQueryRope;
    const int64_t kv_head =
        of_queries ? part.head / problem.group() : part.head;
    const auto unit = units.find({part.sequence, kv_head});
    if (unit == units.end()) continue;
    for (size_t row = 0; row < part.rows.size(); ++row) {
      if (of_queries && !Contains(*unit->second, part.rows[row])) continue;
      const bool wrong = head->rows[row].wrong();
      const Place place{part.slot, results.Offset(part, row)};
      sample.wrong[place] = wrong;
      sample.wrong_rows += wrong ? 1 : 0;
    }
  }
}

// The sample's units in a problem whose lengths may be others; where it has
// more kv heads, those of a unit's query heads.
std::vector<Unit> UnitsIn(const TensorSet& tensors, const Sample& sample,
                          int64_t kv_heads) {
  std::vector<Unit> units;
  const AttentionProblem& problem = tensors.problem;
  const int64_t ratio = problem.kv_heads / kv_heads;
  for (Unit unit : sample.units) {
    const Sequence& sequence =
        problem.lengths.sequences[static_cast<size_t>(unit.sequence)];
    if (IsBackward(tensors)) {
      unit.rows.resize(static_cast<size_t>(sequence.rows()));
      std::iota(unit.rows.begin(), unit.rows.end(), int64_t{0});
    } else {
      std::erase_if(unit.rows,
                    [&](int64_t row) { return row >= sequence.rows(); });
    }
    for (int64_t n = 0; n < ratio && !unit.rows.empty(); ++n) {
      units.push_back({unit.sequence, unit.kv_head * ratio + n, unit.rows});
    }
  }
  return units;
}

// Trials keep to memory: lengths within tensors, columns within tables.
bool IsInBounds(const TensorSet& tensors) {
  const AttentionProblem& problem = tensors.problem;
  const Needs needs = NeedsOf(problem);
  for (const Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep}) {
    const TensorSpec& spec = problem[slot];
    const bool plane = spec.present() && spec.placement == Placement::kStrided;
    if (!plane || (slot == Slot::kBias && IsAlibi(problem.score.bias))) {
      continue;
    }
    if (spec.strides[2] != 0 && spec.dims[2] < needs.rows) return false;
    if (spec.strides[3] != 0 && spec.dims[3] < needs.columns) return false;
  }
  const bool paged = problem.kv.rows == KvSource::Rows::kPaged;
  for (const Slot slot :
       {Slot::kQuery, Slot::kOut, Slot::kKey, Slot::kValue, Slot::kGradOut}) {
    if (!problem.has(slot) || tensors.bindings[slot] == nullptr) continue;
    const bool keys = slot == Slot::kKey || slot == Slot::kValue;
    if (keys && paged) continue;
    if (problem[slot].dims[1] < (keys ? needs.key_end : needs.row_end)) {
      return false;
    }
  }
  return !paged || problem[Slot::kBlockTable].dims[1] * problem.kv.page_rows >=
                       needs.columns;
}

class Court {
 public:
  Court(const Judged& judged, const Sample& sample, Workers& workers)
      : judged_(judged),
        sample_(sample),
        workers_(workers),
        results_(judged.tensors) {
    for (const Part& part : judged.exact) {
      for (size_t row = 0; row < part.rows.size(); ++row) {
        if (judged.tensors.bindings[part.slot] == nullptr) break;
        const Place place{part.slot, results_.Offset(part, row)};
        exact_[place] = part.row(row);
        if (IsZero(part, row)) zeros_.insert(place);
      }
    }
  }

  // Share of the wrong rows that the trial explains, less what it would break.
  double Explained(const Trial& trial) const {
    if (!IsInBounds(trial.tensors)) return 0;
    const std::vector<Unit> units =
        UnitsIn(trial.tensors, sample_, judged_.tensors.problem.kv_heads);
    if (units.empty()) return 0;
    const std::vector<Part> parts =
        ComputeParts(trial.tensors, units, trial.recipe, workers_);
    const Results results(trial.tensors);
    Tally tally;
    std::set<Place> covered;
    for (const Part& part : parts) {
      if (trial.tensors.bindings[part.slot] == nullptr) continue;
      for (size_t row = 0; row < part.rows.size(); ++row) {
        covered.insert(Count(trial, results, part, row, tally));
      }
    }
    if (tally.wrong_met > 0) tally.wrong_met += ZerosBesides(covered);
    return Share(tally);
  }

 private:
  // Rows that were judged, and those that the trial meets.
  struct Tally {
    double wrong = 0, wrong_met = 0;
    double right = 0, right_met = 0;
    double unknown = 0, unknown_met = 0;
  };

  double Share(const Tally& tally) const {
    const double met = tally.wrong_met + tally.unknown_met;
    const double all =
        tally.unknown + (tally.unknown > 0
                             ? tally.wrong
                             : static_cast<double>(sample_.wrong_rows));
    if (met == 0 || all == 0) return 0;
    const double kept = tally.right == 0 ? 1 : tally.right_met / tally.right;
    return met / all * kept;
  }

  bool IsZero(const Part& part, size_t row) const {
    for (int64_t d = 0; d < part.width; ++d) {
      if (results_.At(part, row, d) != 0) return false;
    }
    return true;
  }

  // Wrong rows that the trial does not write, and that nobody wrote.
  double ZerosBesides(const std::set<Place>& covered) const {
    double count = 0;
    for (const auto& [place, wrong] : sample_.wrong) {
      const bool besides = wrong && !covered.contains(place);
      if (besides && zeros_.contains(place)) ++count;
    }
    return count;
  }

  Place Count(const Trial& trial, const Results& results, const Part& part,
              size_t row, Tally& tally) const {
    const Place place{part.slot, results.Offset(part, row)};
    const auto known = sample_.wrong.find(place);
    const bool met = Meets(trial, results, part, row, place);
    const double one = met ? 1 : 0;
    if (known == sample_.wrong.end()) {
      ++tally.unknown;
      tally.unknown_met += one;
    } else if (known->second) {
      ++tally.wrong;
      tally.wrong_met += one;
    } else {
      ++tally.right;
      tally.right_met += one;
    }
    return place;
  }

  bool Meets(const Trial& trial, const Results& results, const Part& part,
             size_t row, const Place& place) const {
    const auto usual = judged_.allowance.usual.find(part.slot);
    const double m = part.magnitudes[row];
    // Twice what is allowed, for lack of a plain computation of the trial.
    const double allowed =
        usual == judged_.allowance.usual.end() ? 0 : 16 * usual->second * m;
    const DType dtype = trial.tensors.problem[part.slot].dtype;
    bool near = true;
    double squares = 0;
    double squares_of_truth = 0;
    const auto exact = exact_.find(place);
    for (int64_t d = 0; d < part.width; ++d) {
      const auto at = static_cast<size_t>(d);
      const double got = results.At(part, row, d);
      const double want = part.row(row)[at];
      const double off = std::fabs(got - want);
      // A NaN is not near.
      if (!(off <= allowed + 2 * RoundingOf(dtype, want))) {
        near = near && std::isnan(got) && std::isnan(want);
      }
      squares += off * off;
      if (exact != exact_.end()) {
        const double from_truth = got - exact->second[at];
        squares_of_truth += from_truth * from_truth;
      }
    }
    // Half of the distance.
    return near || (trial.nearer_is_enough && squares < squares_of_truth / 4);
  }

  const Judged& judged_;
  const Sample& sample_;
  Workers& workers_;
  const Results results_;
  std::map<Place, std::span<const double>> exact_;
  std::set<Place> zeros_;
};

}  // namespace

void DropForwardResults(TensorSet& tensors) {
  if (!IsBackward(tensors)) return;
  // Problems have them all the same; who binds none leaves them to the answer.
  for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    tensors.bindings[slot] = nullptr;
  }
}

std::vector<Cause> AllCauses() {
  std::vector<Cause> all;
  for (const std::vector<Cause>& some :
       {MaskCauses(), ScoreCauses(), PlaceCauses(), GradientCauses()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<Suspicion> FindCauses(const Judged& judged, Workers& workers) {
  Sample sample = MakeSample(judged);
  MarkWrong(judged, sample);
  std::vector<Suspicion> suspicions;
  if (sample.wrong_rows == 0) return suspicions;
  const Court court(judged, sample, workers);
  for (const Cause& cause : AllCauses()) {
    std::vector<Trial> trials;
    cause.add(judged.tensors, trials);
    Suspicion best{std::string(cause.name), "", 0};
    for (const Trial& trial : trials) {
      const double explained = court.Explained(trial);
      if (explained <= best.explained) continue;
      best.explained = explained;
      best.detail = trial.detail;
    }
    if (best.explained > 0) suspicions.push_back(std::move(best));
  }
  std::ranges::stable_sort(suspicions,
                           [](const Suspicion& a, const Suspicion& b) {
                             return a.explained > b.explained;
                           });
  return suspicions;
}

std::string_view Confidence(std::span<const Suspicion> suspicions) {
  if (suspicions.empty() || suspicions[0].explained < 0.5) return "";
  const double second = suspicions.size() > 1 ? suspicions[1].explained : 0;
  if (suspicions[0].explained >= 0.99 && second < 0.9) return "sure";
  return suspicions[0].explained >= 0.9 ? "likely" : "perhaps";
}

}  // namespace flashacl
