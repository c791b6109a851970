// SPDX-License-Identifier: Apache-2.0
// One run of a backward problem over listed keys: its addresses, the lengths
// it has this time, and its items as the vector code wants them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "base/run_memory.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_backward_kernel.h"
#include "cpu/topk/topk_backward_workspace.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// One kv head of one sequence, in a batch.
struct TopKBackwardSequenceHead {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  Range rows;       // of the sums; one per key
  Range positions;  // numbered through the batch

  // The list of a position of the batch.
  ListOwner OwnerOf(int64_t position) const {
    return {sequence, kv_head, position - positions.first};
  }
};

// Heads of sequences whose sums fit together.
struct TopKBackwardBatch {
  RunVector<TopKBackwardSequenceHead> sequence_heads;

  int64_t rows() const {
    return sequence_heads.empty() ? 0 : sequence_heads.back().rows.last;
  }
  int64_t positions() const {
    return sequence_heads.empty() ? 0 : sequence_heads.back().positions.last;
  }
  // Whose position it is.
  const TopKBackwardSequenceHead& SequenceHeadOf(int64_t position) const;
};

// Where one d block's piece of a key's gradient goes: called with its format,
// its first channel in the d block, the count of channels, and the address.
using StorePiece =
    FunctionRef<void(const ElementFormat&, int64_t, int64_t, std::byte*)>;

// The memory of one item.
struct TopKBackwardMemory {
  ScoreScratch score;
  TopKBackwardScratch scratch;
  SavedPds saved;
  float* grad_query;
};

class TopKBackwardOperands {
 public:
  // All must outlive the run.
  TopKBackwardOperands(const AttentionProblem& problem,
                       const Bindings& bindings,
                       const TopKBackwardTiling& tiling);

  RunVector<TopKBackwardBatch> Batches() const;

  const ForwardOperands& forward() const { return forward_; }

  // One split of a position's list, kv block by kv block, in this memory.
  TopKBackwardDqItem DqItemOf(const ListOwner& owner, int64_t split,
                              const TopKBackwardMemory& memory) const;

  void ForPieces(const TopKBackwardSequenceHead& sequence_head, int64_t column,
                 int64_t d_block, StorePiece store) const;

 private:
  // Fills the saved columns and where kv blocks end; returns their count.
  int64_t ListKeys(const ListOwner& owner, int64_t split,
                   const TopKBackwardDqItem& item) const;

  const AttentionProblem& problem_;
  const TopKBackwardTiling& tiling_;
  const ForwardOperands forward_;
  const IndexLists lists_;
  const TopKBackwardParams params_;
};

}  // namespace flashacl::cpu
