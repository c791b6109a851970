// SPDX-License-Identifier: Apache-2.0
// How backward work over listed keys is cut, and its memory.
//
// Keys get their gradients in fp32 sums, [d block][row][channel of the d
// block]. What positions add waits in their saved p and ds: a stage saves those
// of some positions, the next stage adds them. Its items are pairs of a kv
// block, consecutive rows of a sequence, and a d block. Only the item's worker
// adds to them, position by position, so the order of every sum is that of the
// positions, whoever works.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/pair_dots.h"
#include "cpu/scratch_layout.h"
#include "cpu/topk/topk_backward_kernel.h"
#include "plan/backend.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// What multiplies operands that are pairs; kNone where some are not. Planning
// decides, as memory depends on it.
PairDots TopKBackwardDots(const AttentionProblem& problem);

// A function of the problem and of caches; only stage_positions is one of
// workers, too.
struct TopKBackwardTiling {
  int64_t step_keys = 0;        // listed keys of one step of a position
  int64_t split_keys = 0;       // of a list, that one stage takes
  int64_t num_splits = 0;       // stages until a list is done
  int64_t stage_positions = 0;  // at most
  int64_t batch_rows = 0;       // that have sums at a time
  int64_t kv_block_rows = 0;
  int64_t kv_blocks = 0;         // of one sequence, at most
  int64_t d_block_channels = 0;  // a multiple of every panel
  int64_t key_d_blocks = 0;      // d blocks of keys and their ropes
  int64_t value_d_blocks = 0;    // of values of their own; they come after
  int64_t padded_heads = 0;      // of a position, in whole panels of any width
  int64_t head_stride = 0;       // floats of a key's probs, in whole vectors,
                                 // or whole head blocks if these become words
  bool packs_words = false;      // p and ds do, for matrix registers

  int64_t d_blocks() const { return key_d_blocks + value_d_blocks; }
  bool OfValues(int64_t d_block) const { return d_block >= key_d_blocks; }
  // Of the keys or the values.
  int64_t FirstChannelOf(int64_t d_block) const {
    return (OfValues(d_block) ? d_block - key_d_blocks : d_block) *
           d_block_channels;
  }
};

// matrices: on matrix registers.
TopKBackwardTiling TopKBackwardTilingOf(const AttentionProblem& problem,
                                        const DeviceInfo& device,
                                        bool matrices = false);

struct TopKBackwardWorkspace {
  ScratchLayout<ScoreScratch> score;           // of every worker
  ScratchLayout<TopKBackwardScratch> scratch;  // of every worker
  ScratchLayout<SavedPds> saved;  // two for every position of a stage
  Region<float> grad_queries;     // one for every position of a stage
  Region<float> sums;             // [d block][row][channel of the d block]
  int64_t grad_query_floats = 0;  // from position to position
  int64_t d_block_floats = 0;     // from d block to d block

  float* GradQuery(std::byte* memory, int64_t position) const {
    return grad_queries.In(memory).data() + position * grad_query_floats;
  }
  // Of row 0 of a d block.
  float* Sums(std::byte* memory, int64_t d_block) const {
    return sums.In(memory).data() + d_block * d_block_floats;
  }
};

// matrices: with the operands of matrix registers.
TopKBackwardWorkspace ReserveTopKBackward(const AttentionProblem& problem,
                                          const TopKBackwardTiling& tiling,
                                          int64_t workers,
                                          WorkspaceLayout& layout,
                                          bool matrices = false);

}  // namespace flashacl::cpu
