// SPDX-License-Identifier: Apache-2.0
// The operands of one run of a backward problem: their addresses, and the tiles
// as the vector code wants them.
#pragma once

#include <vector>

#include "cpu/backward/backward_params.h"
#include "cpu/forward/forward_operands.h"
#include "plan/bindings.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// All that the problem asks for.
Wanted WantedOf(const AttentionProblem& problem);

class BackwardOperands {
 public:
  // Both must outlive the run.
  BackwardOperands(const AttentionProblem& problem, const Bindings& bindings,
                   int64_t step_keys);

  std::span<const Sequence> sequences() const { return forward_.sequences(); }
  const ForwardOperands& forward() const { return forward_; }

  // Gradients of queries that belong to no sequence become 0; those of keys
  // too, and where `unseen`, of all keys, as some are in no tile.
  void ClearUnownedRows(bool unseen) const;

  // Everything but scratch memory, which is there already and is filled with
  // rows, and what is wanted.
  void FillTile(const Tile& scheduled, BackwardTile& tile) const;

 private:
  KvGradRows KvGradRowsOf(Slot slot, const Tile& tile) const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  const ForwardOperands forward_;
  const BackwardParams params_;
};

}  // namespace flashacl::cpu
