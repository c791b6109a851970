// SPDX-License-Identifier: Apache-2.0
// One run of a backward problem over gathered keys: its addresses, the lengths
// it has this time, and its items as the vector code wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_backward_params.h"
#include "cpu/topk/topk_backward_workspace.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"
#include "problem/grid.h"

namespace flashacl::cpu {

// One kv head of one sequence, in a wave.
struct GradUnit {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  Range rows;       // of the sums; one per key
  Range positions;  // numbered through the wave
};

// Units whose sums fit together.
struct GradWave {
  std::vector<GradUnit> units;

  int64_t rows() const { return units.empty() ? 0 : units.back().rows.last; }
  int64_t positions() const {
    return units.empty() ? 0 : units.back().positions.last;
  }
  // Whose position it is.
  const GradUnit& UnitOf(int64_t position) const;
};

// Where one slice's piece of a key's gradient goes: calls store(format, first
// channel of the slice, count, address).
using StorePiece =
    FunctionRef<void(const RowFormat&, int64_t, int64_t, std::byte*)>;

class GradRun {
 public:
  // All must outlive the run.
  GradRun(const AttentionProblem& problem, const Bindings& bindings,
          const GradCut& cut);

  const GradShape& shape() const { return shape_; }

  std::vector<GradWave> Waves() const;

  // Rows of gradients that belong to no sequence become 0.
  void ClearRowsOfNobody() const;

  // Everything but the record and where the gradient of queries is summed.
  // Fills the scratch's lanes.
  GradItem ItemOf(const GradUnit& unit, int64_t position,
                  const GradScratch& scratch) const;

  // Fills the item's columns with what part `part` of the position's list
  // names, bucket by bucket, and sets its count.
  void ListColumns(const GradUnit& unit, int64_t position, int64_t part,
                   int64_t* bucket_ends, GradItem& item) const;

  void ForPieces(const GradUnit& unit, int64_t column, int64_t slice,
                 StorePiece store) const;

 private:
  const Sequence& ExtentOf(const GradUnit& unit) const {
    return sequences_[static_cast<size_t>(unit.sequence)];
  }
  std::byte* RowAt(Slot slot, int64_t sequence, int64_t row,
                   int64_t head) const;
  float StatisticAt(Slot slot, const Grid& grid, const ListOwner& owner,
                    int64_t head) const;
  bool EveryRowIsSomebodys(Slot slot, Range Sequence::*side) const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  const GradCut& cut_;
  std::vector<Sequence> sequences_;
  Grid row_max_, row_sum_;
  ColumnLists lists_;
  GradShape shape_;
};

}  // namespace flashacl::cpu
