// SPDX-License-Identifier: Apache-2.0
// How forward work over listed keys is cut, and the scratch memory of a cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_forward_params.h"
#include "plan/plan.h"
#include "plan/workspace.h"

namespace flashacl::cpu {

// Items of work: a position and a kv head, `shape.rows` of its heads, and
// `shape.split_keys` listed keys of its list. A function of the problem and of
// caches alone.
TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device);

// Floats between rows of channels, with room for blocks that pass the last: an
// odd number of cache lines, so that rows spread over all sets of a cache.
int64_t RowStride(int64_t channels);

struct TopKForwardWorkspace {
  int64_t slots = 0;
  Region<float> query, out, states, keys, values, scores, staging, quant,
      splits;
  Region<QueryRow> lanes;
  Region<int64_t> columns;
  int64_t key_stride = 0, value_stride = 0, staging_stride = 0;

  // A tile with this slot's memory.
  TopKTile Tile(std::byte* workspace, int64_t slot) const;
  int64_t* ColumnsOf(std::byte* workspace, int64_t slot) const;
};

// Reserves what the plan's shape takes, for each of its slots.
TopKForwardWorkspace TopKForwardLayout(const Plan& plan,
                                       WorkspaceLayout& layout);

}  // namespace flashacl::cpu
