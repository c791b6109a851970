// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/backward/backward_operands.h"

#include <algorithm>

namespace flashacl::cpu {

BackwardOperands::BackwardOperands(const AttentionProblem& problem,
                                   const Bindings& bindings, int64_t step_keys)
    : problem_(problem),
      bindings_(bindings),
      forward_(problem, bindings, step_keys) {
  shape_.out = ElementFormat(problem[Slot::kOut]);
  shape_.grad_out = ElementFormat(problem[Slot::kGradOut]);
  shape_.grad_query = ElementFormat(problem[Slot::kGradQuery]);
  shape_.grad_query_rope = ElementFormat(problem[Slot::kGradQueryRope]);
  shape_.grad_key = ElementFormat(problem[Slot::kGradKey]);
  shape_.grad_key_rope = ElementFormat(problem[Slot::kGradKeyRope]);
  shape_.grad_value = ElementFormat(problem[Slot::kGradValue]);
  shape_.value_is_key = problem.kv.value_is_key;
  shape_.wants_query =
      problem.has(Slot::kGradQuery) || problem.has(Slot::kGradQueryRope);
  shape_.wants_key =
      problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
  shape_.wants_value = problem.has(Slot::kGradValue) ||
                       (problem.kv.value_is_key && shape_.wants_key);
  shape_.wants_sink = problem.has(Slot::kGradSink);
}

bool BackwardOperands::AllRowsOwned(Slot slot, Range Sequence::*side) const {
  const TensorSpec& spec = problem_[slot];
  if (spec.strides[0] != 0) {
    return static_cast<int64_t>(sequences().size()) == spec.dims[0] &&
           std::all_of(sequences().begin(), sequences().end(),
                       [&](const Sequence& sequence) {
                         return (sequence.*side).size() == spec.dims[1];
                       });
  }
  int64_t rows = 0;
  for (const Sequence& sequence : sequences()) {
    rows += (sequence.*side).size();
  }
  return rows == spec.dims[1];
}

void BackwardOperands::ClearUnownedRows(bool unseen) const {
  const auto clear = [&](Slot slot, Range Sequence::*side, bool all) {
    if (!problem_.has(slot)) return;
    if (!all && AllRowsOwned(slot, side)) return;
    ClearElements(problem_[slot], bindings_[slot]);
  };
  for (const Slot slot : {Slot::kGradQuery, Slot::kGradQueryRope}) {
    clear(slot, &Sequence::queries, false);
  }
  for (const Slot slot :
       {Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue}) {
    clear(slot, &Sequence::keys, unseen);
  }
}

void BackwardOperands::FillGradRows(const Tile& cut,
                                    std::span<GradRow> grad_rows) const {
  const int64_t group = problem_.group();
  const int64_t b = cut.sequence;
  const int64_t first_row = sequences()[static_cast<size_t>(b)].queries.first;
  const auto at = [&](Slot slot, int64_t i, int64_t head) -> std::byte* {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return nullptr;
    return bindings_[slot] +
           spec.At(b, first_row + i, head) * SizeOf(spec.dtype);
  };
  for (int64_t n = 0; n < cut.rows.size(); ++n) {
    const int64_t i = (cut.rows.first + n) / group;
    const int64_t head = cut.kv_head * group + (cut.rows.first + n) % group;
    grad_rows[static_cast<size_t>(n)] = {at(Slot::kGradOut, i, head),
                                         at(Slot::kGradQuery, i, head),
                                         at(Slot::kGradQueryRope, i, head)};
  }
}

KvGradRows BackwardOperands::RowsOf(Slot slot, const Tile& cut) const {
  const TensorSpec& spec = problem_[slot];
  if (!spec.present()) return {};
  const int64_t first =
      sequences()[static_cast<size_t>(cut.sequence)].keys.first;
  const int64_t bytes = SizeOf(spec.dtype);
  return {bindings_[slot] + spec.At(cut.sequence, first, cut.kv_head) * bytes,
          spec.strides[1] * bytes};
}

void BackwardOperands::FillTile(const Tile& cut, BackwardTile& tile) const {
  tile.scores = forward_.ScoreTileOf(cut, tile.scores.scratch);
  tile.shape = &shape_;
  FillGradRows(cut,
               {tile.scratch.grad_rows, static_cast<size_t>(cut.rows.size())});
  tile.grad_key = RowsOf(Slot::kGradKey, cut);
  tile.grad_key_rope = RowsOf(Slot::kGradKeyRope, cut);
  tile.grad_value = RowsOf(Slot::kGradValue, cut);
}

}  // namespace flashacl::cpu
