// SPDX-License-Identifier: Apache-2.0
#include "verify/check/operand_rows.h"

#include <algorithm>

namespace flashacl {

bool HasKeyRows(Slot slot) {
  return slot == Slot::kKey || slot == Slot::kKeyRope || slot == Slot::kValue ||
         slot == Slot::kGradKey || slot == Slot::kGradKeyRope ||
         slot == Slot::kGradValue;
}

bool IsBiasPlane(const AttentionProblem& problem) {
  return !IsAlibi(problem.score.bias) &&
         problem[Slot::kBias].placement != Placement::kDiagonal;
}

bool HasQueryRows(Slot slot) {
  return slot == Slot::kQuery || slot == Slot::kQueryRope ||
         slot == Slot::kOut || slot == Slot::kGradOut ||
         slot == Slot::kGradQuery || slot == Slot::kGradQueryRope ||
         slot == Slot::kQueryRowScale || slot == Slot::kTopK ||
         IsRowResult(slot);
}

int64_t ChannelsOf(const AttentionProblem& problem, Slot slot) {
  switch (slot) {
    case Slot::kQuery:
    case Slot::kKey:
    case Slot::kGradQuery:
    case Slot::kGradKey:
      return problem.qk_dim;
    case Slot::kQueryRope:
    case Slot::kKeyRope:
    case Slot::kGradQueryRope:
    case Slot::kGradKeyRope:
      return problem.rope_dim;
    case Slot::kQueryRowScale:
    case Slot::kRowMax:
    case Slot::kRowSum:
    case Slot::kLse:
      return 1;
    case Slot::kTopK:
      return problem[Slot::kTopK].dims[3];
    default:
      return problem.v_dim;
  }
}

// The rope of a slot whose tensor may have it at its end.
std::optional<Slot> RopeOf(Slot slot) {
  switch (slot) {
    case Slot::kQuery:
      return Slot::kQueryRope;
    case Slot::kKey:
      return Slot::kKeyRope;
    case Slot::kGradQuery:
      return Slot::kGradQueryRope;
    case Slot::kGradKey:
      return Slot::kGradKeyRope;
    default:
      return {};
  }
}

RowExtents ExtentsOf(const AttentionProblem& problem, Slot slot) {
  RowExtents extents;
  const Lengths& lengths = problem.lengths;
  const bool keys = HasKeyRows(slot);
  extents.sequences = lengths.count();
  extents.heads =
      keys || slot == Slot::kTopK ? problem.kv_heads : problem.heads;
  extents.channels = ChannelsOf(problem, slot);
  for (const Sequence& sequence : lengths.sequences) {
    const int64_t rows = keys ? sequence.keys.size() : sequence.rows();
    extents.longest = std::max(extents.longest, rows);
    extents.total += rows;
  }
  extents.page_rows = problem.kv.page_rows;
  return extents;
}

}  // namespace flashacl
