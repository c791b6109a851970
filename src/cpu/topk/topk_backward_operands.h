// SPDX-License-Identifier: Apache-2.0
// One run of a backward problem over listed keys: its addresses, the lengths
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

// One kv head of one sequence, in a batch.
struct TopKBackwardSequenceHead {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  Range rows;       // of the sums; one per key
  Range positions;  // numbered through the batch
};

// Units whose sums fit together.
struct TopKBackwardBatch {
  std::vector<TopKBackwardSequenceHead> sequence_heads;

  int64_t rows() const {
    return sequence_heads.empty() ? 0 : sequence_heads.back().rows.last;
  }
  int64_t positions() const {
    return sequence_heads.empty() ? 0 : sequence_heads.back().positions.last;
  }
  // Whose position it is.
  const TopKBackwardSequenceHead& SequenceHeadOf(int64_t position) const;
};

// Where one d block's piece of a key's gradient goes: calls store(format, first
// channel of the d block, count, address).
using StorePiece =
    FunctionRef<void(const ElementFormat&, int64_t, int64_t, std::byte*)>;

class TopKBackwardOperands {
 public:
  // All must outlive the run.
  TopKBackwardOperands(const AttentionProblem& problem,
                       const Bindings& bindings, const TopKBackwardTiling& cut);

  const TopKBackwardParams& shape() const { return shape_; }

  std::vector<TopKBackwardBatch> Batches() const;

  // Rows of gradients that belong to no sequence become 0.
  void ClearUnownedRows() const;

  // Everything but the saved pds and where the gradient of queries is summed.
  // Fills the scratch's lanes.
  TopKBackwardDqItem ItemOf(const TopKBackwardSequenceHead& sequence_head,
                            int64_t position,
                            const TopKBackwardScratch& scratch) const;

  // Fills the item's columns with what part `part` of the position's list
  // names, kv block by kv block, and sets its count.
  void ListKeys(const TopKBackwardSequenceHead& sequence_head, int64_t position,
                int64_t split, TopKBackwardDqItem& item) const;

  void ForPieces(const TopKBackwardSequenceHead& sequence_head, int64_t column,
                 int64_t d_block, StorePiece store) const;

 private:
  const Sequence& ExtentOf(
      const TopKBackwardSequenceHead& sequence_head) const {
    return sequences_[static_cast<size_t>(sequence_head.sequence)];
  }
  std::byte* RowAt(Slot slot, int64_t sequence, int64_t row,
                   int64_t head) const;
  float StatisticAt(Slot slot, const Grid& grid, const ListOwner& owner,
                    int64_t head) const;
  bool AllRowsOwned(Slot slot, Range Sequence::*side) const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  const TopKBackwardTiling& cut_;
  std::vector<Sequence> sequences_;
  Grid row_max_, row_sum_;
  IndexLists lists_;
  TopKBackwardParams shape_;
};

}  // namespace flashacl::cpu
