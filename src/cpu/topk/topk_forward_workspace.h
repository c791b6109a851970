// SPDX-License-Identifier: Apache-2.0
// How forward work over listed keys is cut, and the scratch memory of a cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/scratch_layout.h"
#include "cpu/topk/topk_forward_params.h"
#include "plan/backend.h"
#include "plan/schedule.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Items of work: a position and a kv head, `shape.rows` of its heads, and
// `shape.split_keys` listed keys of its list. A function of the problem and of
// caches alone.
TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device);

struct TopKForwardWorkspace {
  ScratchLayout<ScoreScratch> score;
  ScratchLayout<ForwardScratch> forward;
  ScratchLayout<TopKForwardScratch> lists;
  Region<float> splits;

  // A tile with this worker's memory.
  TopKTile Tile(std::byte* memory, int64_t worker) const;
};

// Reserves what tiles of this shape take for each of `workers`.
TopKForwardWorkspace ReserveTopKForward(const AttentionProblem& problem,
                                        const TileShape& shape, int64_t workers,
                                        WorkspaceLayout& layout);

}  // namespace flashacl::cpu
