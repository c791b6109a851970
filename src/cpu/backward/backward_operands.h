// SPDX-License-Identifier: Apache-2.0
// One run of a backward problem: its addresses, and the tiles as the vector
// code wants them.
#pragma once

#include <span>
#include <vector>

#include "cpu/backward/backward_params.h"
#include "cpu/forward/forward_operands.h"
#include "plan/bindings.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

class BackwardOperands {
 public:
  // Both must outlive the run.
  BackwardOperands(const AttentionProblem& problem, const Bindings& bindings,
                   int64_t step_keys);

  const std::vector<Sequence>& sequences() const {
    return forward_.sequences();
  }
  const ForwardOperands& forward() const { return forward_; }
  BackwardParams& shape() { return shape_; }

  // Gradients of queries that belong to no sequence become 0; those of keys
  // too, and where `unseen`, of all keys, as some are in no tile.
  void ClearUnownedRows(bool unseen) const;

  // Everything but scratch memory, which is there already and is filled with
  // rows.
  void FillTile(const Tile& cut, BackwardTile& tile) const;

 private:
  void FillGradRows(const Tile& cut, std::span<GradRow> grad_rows) const;
  KvGradRows RowsOf(Slot slot, const Tile& cut) const;
  bool AllRowsOwned(Slot slot, Range Sequence::*side) const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  ForwardOperands forward_;
  BackwardParams shape_;
};

}  // namespace flashacl::cpu
