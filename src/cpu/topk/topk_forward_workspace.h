// SPDX-License-Identifier: Apache-2.0
// How forward work over listed keys is cut, and the scratch memory of a cut.
#pragma once

#include <cstdint>

#include "cpu/forward/forward_workspace.h"
#include "cpu/scratch_layout.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "plan/backend.h"
#include "plan/schedule.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Items of work: a position and a kv head, `shape.rows` of its heads, and
// `shape.split_keys` listed keys of its list. A function of the problem and of
// the machine alone. matrices: on matrix registers.
TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device, bool matrices = false);

// The same of few heads, which cpu/decode's tiles compute.
TileShape TopKDecodeShape(const AttentionProblem& problem,
                          const DeviceInfo& device);

// Into how many splits such a shape cuts every list, and memory for all of
// them, [item, split, row, v_dim + 2]; none of a single one.
int64_t SplitsOfLists(const AttentionProblem& problem, const TileShape& shape);
Region<float> ReserveListSplits(const AttentionProblem& problem,
                                const TileShape& shape,
                                WorkspaceLayout& layout);

struct TopKForwardWorkspace : ForwardWorkspace {
  ScratchLayout<TopKForwardScratch> listed;
};

// Reserves what tiles of this shape take for each of `workers`.
TopKForwardWorkspace ReserveTopKForward(const AttentionProblem& problem,
                                        const TileShape& shape, int64_t workers,
                                        WorkspaceLayout& layout,
                                        bool matrices = false);

// What both directions take: the keys of one step, the floats from row to row
// of keys and of staging, and the memory for scores of `rows` heads.
int64_t TopKStepKeys(const AttentionProblem& problem, const DeviceInfo& device);
int64_t TopKKeyStride(const AttentionProblem& problem);
int64_t TopKStagingStride(const AttentionProblem& problem);
ScratchLayout<ScoreScratch> ReserveTopKScores(const AttentionProblem& problem,
                                              int64_t rows, int64_t step_keys,
                                              int64_t workers,
                                              WorkspaceLayout& layout);

}  // namespace flashacl::cpu
