// SPDX-License-Identifier: Apache-2.0
// How backward work over listed keys is cut, and its memory.
//
// Keys get their gradients in fp32 sums, d block by d block of their channels:
// element [d block][row][channel of the d block]. What positions add waits in
// their saved pds; a round makes the saved pds of a chunk of positions, the
// next one adds them. Its items are pairs of a kv block, consecutive rows of a
// sequence, and a d block. Only the item's worker adds to them, position by
// position, so the order of every sum is that of the positions, whoever works.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/scratch_layout.h"
#include "cpu/topk/topk_backward_params.h"
#include "plan/backend.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// A function of the problem and of caches alone.
struct TopKBackwardTiling {
  int64_t step = 0;         // keys of one step of a position
  int64_t listed_keys = 0;  // of a list, that one round takes
  int64_t num_splits = 0;   // rounds until a list is done
  int64_t positions = 0;    // of one chunk
  int64_t rows = 0;         // that have sums at a time
  int64_t kv_block_rows = 0;
  int64_t kv_blocks = 0;         // of one sequence, at most
  int64_t d_block_channels = 0;  // a multiple of every panel
  int64_t key_d_blocks = 0;      // d blocks of keys and their ropes
  int64_t value_d_blocks = 0;    // of values of their own
  int64_t heads = 0;             // of a position, in whole panels of any width
  int64_t head_stride = 0;       // floats of a key's weights, in whole vectors

  int64_t d_blocks() const { return key_d_blocks + value_d_blocks; }
};

TopKBackwardTiling TopKBackwardTilingOf(const AttentionProblem& problem,
                                        const DeviceInfo& device);

struct TopKBackwardWorkspace {
  ScratchLayout<TopKBackwardScratch> scratch;  // of every worker
  ScratchLayout<SavedPds> saved;  // two for every position of a stage
  Region<float> grad_queries;     // one for every position of a stage
  Region<float> sums;             // [d block][row][channel of the d block]
  int64_t positions = 0;
  int64_t d_blocks = 0;

  float* GradQuery(std::byte* memory, int64_t position) const;
  // Of row 0 of a d block.
  float* Sums(std::byte* memory, int64_t d_block) const;
};

TopKBackwardWorkspace ReserveTopKBackward(const AttentionProblem& problem,
                                          const TopKBackwardTiling& tiling,
                                          int64_t workers,
                                          WorkspaceLayout& layout);

}  // namespace flashacl::cpu
