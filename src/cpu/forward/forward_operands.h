// SPDX-License-Identifier: Apache-2.0
// One run of a forward problem: its addresses, the lengths it has this time,
// and the tiles as the vector code wants them.
#pragma once

#include <span>
#include <vector>

#include "cpu/tile/attention_params.h"
#include "plan/bindings.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"
#include "problem/grid.h"

namespace flashacl::cpu {

class ForwardOperands {
 public:
  // Both must outlive the run.
  ForwardOperands(const AttentionProblem& problem, const Bindings& bindings,
                  const TileShape& tiles);

  const std::vector<Sequence>& sequences() const { return sequences_; }

  // Rows of results that belong to no sequence become 0.
  void ClearUnownedRows() const;

  // Everything but where parts go. Fills the scratch's lanes and codec.
  ForwardTile TileOf(const Tile& cut, const ForwardScratch& scratch) const;

 private:
  struct Plane;

  QueryRow QueryRowOf(const Tile& cut, int64_t head) const;
  void FillQueryRows(const Tile& cut, std::span<QueryRow> lanes) const;
  void FillQuantParams(int64_t kv_head, float* room, KvRows& keys) const;
  bool AllRowsOwned() const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  std::vector<Sequence> sequences_;
  Grid mask_, bias_, keep_, row_max_, row_sum_;
  ForwardParams shape_;
  OutQuantParams out_quant_;
  bool encoded_ = false;
};

// Sets every element that dims and strides name to 0.
void ClearElements(const TensorSpec& spec, std::byte* base);

Extent ExtentOf(const AttentionProblem& problem,
                std::span<const Sequence> sequences);

}  // namespace flashacl::cpu
