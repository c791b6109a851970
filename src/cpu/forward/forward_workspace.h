// SPDX-License-Identifier: Apache-2.0
// The scratch memory of the forward direction: one slot for every tile that is
// computed at a time, and the parts of rows that are merged. Sizes depend on
// tile shape and channels, never on the length of a sequence; parts alone grow
// with the keys of few rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "plan/backend.h"
#include "plan/plan.h"
#include "plan/workspace.h"

namespace flashacl::cpu {

// Rows and columns of tiles that fit the caches.
TileShape ForwardTileShape(const AttentionProblem& problem,
                           const DeviceInfo& device);

struct ForwardWorkspace {
  int64_t slots = 0;
  int64_t tiles_per_worker =
      1;  // slots of one worker: they share keys, stage and bits
  Region<float> query, out, states, keys, values, scores, staging, quant;
  Region<float> key_offsets;  // of few rows alone
  Region<uint32_t> bits;
  Region<QueryRow> lanes;
  Region<float> splits;
  int64_t key_stride = 0, value_keys = 0, staging_stride = 0;

  ForwardScratch Scratch(std::byte* workspace, int64_t slot) const;
};

// Reserves what the plan's schedule and tile shape take.
ForwardWorkspace ForwardLayout(const Plan& plan, WorkspaceLayout& layout);

// The most (row, part) pairs the schedule of these sequences or of shorter ones
// may have.
int64_t MaxSplitRows(const AttentionProblem& problem, const TileShape& shape);

}  // namespace flashacl::cpu
