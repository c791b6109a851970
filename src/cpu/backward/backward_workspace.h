// SPDX-License-Identifier: Apache-2.0
// The scratch memory of the backward direction: one slot for every tile that is
// computed at a time, and sums of gradients that several tiles add to, which
// are bounded (tuning.h, kMaxSumBytes).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_params.h"
#include "plan/backend.h"
#include "plan/plan.h"
#include "plan/workspace.h"

namespace flashacl::cpu {

// Rows and columns of tiles that fit the caches.
TileShape BackwardTileShape(const AttentionProblem& problem,
                            const DeviceInfo& device);

struct BackwardWorkspace {
  int64_t slots = 0;
  Region<float> query, query_rows, grad_query;
  Region<float> grad_out, grad_out_rows, row_facts;
  Region<float> keys, values, grad_keys, grad_values;
  Region<float> probs, staging;
  Region<uint32_t> bits;
  Region<QueryRow> lanes;
  Region<GradRow> grad_lanes;
  Region<Range> seen;
  Region<uint8_t> has_nonfinite;
  int64_t key_stride = 0, value_stride = 0, staging_stride = 0;
  int64_t panel_keys = 0, row_block = 0;

  // Sums of the keys of whole sequences: `sums` sets of them, one for every kv
  // head that is computed at a time by several tiles, and half as many more, so
  // that heads may begin before the slowest is done.
  int64_t sums = 0;
  int64_t interleaved = 1;  // groups of tiles that are computed at a time
  Region<float> key_sums, value_sums;
  // One set of sums would be too large: gradients of queries are computed in
  // one sweep, those of keys in another, `swept_steps` steps of keys at a time.
  bool sweeps_twice = false;
  int64_t swept_steps = 1;
  Region<double> bias_sums;  // as the tensor, where elements belong to many

  void Fill(std::byte* workspace, int64_t slot, BackwardTile& tile) const;
  float* KeySums(std::byte* workspace, int64_t n) const;
  float* ValueSums(std::byte* workspace, int64_t n) const;
};

// Reserves what the plan's schedule and tile shape take.
BackwardWorkspace BackwardLayout(const Plan& plan, WorkspaceLayout& layout);

}  // namespace flashacl::cpu
