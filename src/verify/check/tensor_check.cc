// SPDX-License-Identifier: Apache-2.0
#include "verify/check/tensor_check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "base/str.h"

namespace flashacl {
namespace {

int64_t RowsIn(const AttentionProblem& problem,
               const std::vector<Unit>& units) {
  int64_t rows = 0;
  for (const Unit& unit : units) {
    rows += static_cast<int64_t>(unit.rows.size()) * problem.group();
  }
  return rows;
}

// What wrong rows hold instead of numbers.
void CountKinds(const TensorSet& tensors, const std::vector<Part>& exact,
                CheckedResult& result) {
  const Results results(tensors);
  auto head = result.judgement.heads.begin();
  for (const Part& part : exact) {
    if (tensors.bindings[part.slot] == nullptr) continue;
    for (size_t row = 0; row < part.rows.size(); ++row) {
      if (!head->rows[row].wrong()) continue;
      bool zero = true;
      bool special = false;
      for (int64_t d = 0; d < results.Channels(part); ++d) {
        const double got = results.At(part, row, d);
        zero = zero && got == 0;
        special = special || !std::isfinite(got);
      }
      result.wrong_zeros += zero ? 1 : 0;
      result.wrong_specials += special ? 1 : 0;
    }
    ++head;
  }
}

// Units of which rows are taken a few at a time, so that all workers have some.
std::vector<Unit> InPieces(const AttentionProblem& problem,
                           const std::vector<Unit>& units, int workers) {
  if (problem.direction == Direction::kBackward || workers <= 1) return units;
  constexpr size_t kMinRows = 64;  // fewer are not worth loading keys again
  std::vector<Unit> pieces;
  for (const Unit& unit : units) {
    const size_t share = unit.rows.size() / static_cast<size_t>(workers) + 1;
    const size_t step = units.size() >= static_cast<size_t>(workers)
                            ? std::max<size_t>(unit.rows.size(), 1)
                            : std::max(share, kMinRows);
    for (size_t n = 0; n < unit.rows.size(); n += step) {
      const size_t last = std::min(n + step, unit.rows.size());
      pieces.push_back({unit.sequence,
                        unit.kv_head,
                        {unit.rows.begin() + static_cast<ptrdiff_t>(n),
                         unit.rows.begin() + static_cast<ptrdiff_t>(last)}});
    }
  }
  return pieces;
}

// Pieces of a head become one.
void MergePieces(Judgement& judgement) {
  std::map<std::tuple<Slot, int64_t, int64_t>, HeadJudgement> heads;
  for (HeadJudgement& piece : judgement.heads) {
    HeadJudgement& head = heads[{piece.slot, piece.sequence, piece.head}];
    if (head.rows.empty()) {
      head = std::move(piece);
      continue;
    }
    head.wrong_rows += piece.wrong_rows;
    head.error = std::max(head.error, piece.error);
    head.expected_error = std::max(head.expected_error, piece.expected_error);
    head.share = std::max(head.share, piece.share);
    std::ranges::move(piece.rows, std::back_inserter(head.rows));
  }
  judgement.heads.clear();
  for (auto& [place, head] : heads) judgement.heads.push_back(std::move(head));
}

// What a wrong output, or wrong gradients, got wrong: rows' maxima and sums and
// gradients of a bias and sinks follow from the same mistakes, and mistakes
// about places have them elsewhere.
std::vector<Suspicion> CausesOf(const TensorSet& tensors,
                                const std::vector<Part>& exact,
                                const Allowance& allowance, Workers& workers) {
  TensorSet rest = tensors;
  if (rest.problem.direction == Direction::kForward) {
    for (const Slot slot : {Slot::kRowMax, Slot::kRowSum, Slot::kLse}) {
      rest.Drop(slot);
    }
  } else {
    for (const Slot slot : {Slot::kGradBias, Slot::kGradSink}) rest.Drop(slot);
  }
  const Judgement judgement = Judge(rest, exact, allowance);
  if (judgement.right()) return {};
  return FindCauses({rest, exact, allowance, judgement}, workers);
}

// The inputs without gradients that take memory and that nobody has.
TensorSet Asked(const TensorSet& inputs,
                const std::vector<Candidate>& candidates) {
  TensorSet asked = inputs;
  for (const Slot slot : {Slot::kGradBias, Slot::kGradSink}) {
    const bool wanted =
        std::ranges::any_of(candidates, [slot](const Candidate& one) {
          return one.tensors.bindings[slot] != nullptr;
        });
    if (!wanted) asked.Drop(slot);
  }
  return asked;
}

// Gradients that sum over sequences of which some are left out.
void NoteUnchecked(const Candidate& candidate, const std::vector<Part>& exact,
                   TensorCheck& check) {
  for (const Slot slot : {Slot::kGradBias, Slot::kGradSink}) {
    if (candidate.tensors.bindings[slot] == nullptr) continue;
    if (std::ranges::count(exact, slot, &Part::slot) > 0) continue;
    check.notes.push_back(
        Str("{}: {} is not checked, as not all that adds to it is computed",
            candidate.name, Name(slot)));
  }
}

}  // namespace

bool TensorCheck::right() const {
  return std::ranges::all_of(
      results, [](const CheckedResult& one) { return one.judgement.right(); });
}

Result<TensorCheck> CheckTensors(const BoundInputs& inputs,
                                 const std::vector<Candidate>& candidates,
                                 const CheckOptions& options,
                                 Workers& workers) {
  const AttentionProblem& problem = inputs.tensors.problem;
  FLASHACL_RETURN_IF_ERROR(CheckAnswerable(problem));
  const TensorSet asked = Asked(inputs.tensors, candidates);
  const std::vector<Unit> units =
      InPieces(problem, ChooseUnits(problem, options.flops), workers.count());
  const std::vector<Part> exact = ComputeParts(asked, units, {}, workers);
  const std::vector<Part> plain =
      ComputeParts(asked, units, PlainRecipe(problem), workers);
  const Allowance allowance = AllowanceOf(problem, exact, plain);
  TensorCheck check;
  check.problem = problem;
  check.layout = inputs.layout;
  check.notes = inputs.notes;
  check.rows = RowsIn(problem, units);
  check.all_rows = RowsIn(
      problem, ChooseUnits(problem, std::numeric_limits<double>::infinity()));
  for (const Candidate& candidate : candidates) {
    CheckedResult result;
    result.name = candidate.name;
    if (check.rows < check.all_rows) NoteUnchecked(candidate, exact, check);
    result.judgement = Judge(candidate.tensors, exact, allowance);
    CountKinds(candidate.tensors, exact, result);
    if (options.causes && !result.judgement.right()) {
      result.suspicions =
          CausesOf(candidate.tensors, exact, allowance, workers);
    }
    MergePieces(result.judgement);
    check.results.push_back(std::move(result));
  }
  return check;
}

}  // namespace flashacl
