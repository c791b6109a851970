// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/backward/backward_operands.h"

#include "cpu/backward/backward_kernel.h"

namespace flashacl::cpu {
namespace {

BackwardParams ParamsOf(const AttentionProblem& problem) {
  return {.out = ElementFormat(problem[Slot::kOut]),
          .grad_out = ElementFormat(problem[Slot::kGradOut]),
          .grad_query = ElementFormat(problem[Slot::kGradQuery]),
          .grad_query_rope = ElementFormat(problem[Slot::kGradQueryRope]),
          .grad_key = ElementFormat(problem[Slot::kGradKey]),
          .grad_key_rope = ElementFormat(problem[Slot::kGradKeyRope]),
          .grad_value = ElementFormat(problem[Slot::kGradValue]),
          .value_is_key = problem.kv.value_is_key,
          .panel_rows = Backward().panel_rows};
}

}  // namespace

Wanted WantedOf(const AttentionProblem& problem) {
  const bool key =
      problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
  return {.query = problem.has(Slot::kGradQuery) ||
                   problem.has(Slot::kGradQueryRope),
          .key = key,
          .value =
              problem.has(Slot::kGradValue) || (problem.kv.value_is_key && key),
          .bias = problem.has(Slot::kGradBias),
          .sink = problem.has(Slot::kGradSink)};
}

BackwardOperands::BackwardOperands(const AttentionProblem& problem,
                                   const Bindings& bindings, int64_t step_keys)
    : problem_(problem),
      bindings_(bindings),
      forward_(problem, bindings, step_keys),
      params_(ParamsOf(problem)) {}

void BackwardOperands::ClearUnownedRows(bool unseen) const {
  const auto clear = [&](Slot slot, Range Sequence::*side, bool all) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    if (!all && AllRowsOwned(spec, sequences(), side)) return;
    ClearElements(spec, bindings_[slot]);
  };
  clear(Slot::kGradQuery, &Sequence::queries, false);
  clear(Slot::kGradQueryRope, &Sequence::queries, false);
  clear(Slot::kGradKey, &Sequence::keys, unseen);
  clear(Slot::kGradKeyRope, &Sequence::keys, unseen);
  clear(Slot::kGradValue, &Sequence::keys, unseen);
}

KvGradRows BackwardOperands::KvGradRowsOf(Slot slot, const Tile& tile) const {
  const TensorSpec& spec = problem_[slot];
  const Sequence& sequence = sequences()[static_cast<size_t>(tile.sequence)];
  return {
      forward_.RowAt(slot, tile.sequence, sequence.keys.first, tile.kv_head),
      spec.strides[1] * SizeOf(spec.dtype)};
}

void BackwardOperands::FillTile(const Tile& scheduled,
                                BackwardTile& tile) const {
  tile.scores = forward_.ScoreTileOf(scheduled, tile.scores.scratch);
  tile.params = &params_;
  forward_.FillGradRows(scheduled.sequence, tile.scores,
                        tile.scratch.grad_rows);
  tile.grad_key = KvGradRowsOf(Slot::kGradKey, scheduled);
  tile.grad_key_rope = KvGradRowsOf(Slot::kGradKeyRope, scheduled);
  tile.grad_value = KvGradRowsOf(Slot::kGradValue, scheduled);
}

}  // namespace flashacl::cpu
