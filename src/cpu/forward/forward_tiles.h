// SPDX-License-Identifier: Apache-2.0
// The tiles of many rows, for whoever has sequences for them: cpu/forward, and
// cpu/mixed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/piece_shape.h"
#include "plan/backend.h"
#include "plan/schedule.h"

namespace flashacl::cpu {

// Tiles of the sequences that have so many query positions, and the scratch
// memory of workers for them.
class ForwardTiles {
 public:
  ForwardTiles(const AttentionProblem& problem, const DeviceInfo& device,
               Range sequence_rows, WorkspaceLayout& layout);

  const TileShape& shape() const { return shape_; }
  // Empty if lengths are on the device.
  const Schedule& schedule() const { return schedule_; }
  PieceShape piece() const { return {}; }

  // One run. `splits` has room for schedule().split_rows().
  class Launch {
   public:
    Launch(const ForwardTiles& tiles, const ForwardOperands& operands,
           std::byte* memory, float* splits);

    const Schedule& schedule() const { return *schedule_; }

    // What a worker does of tiles whose numbers `take` hands out.
    void Attend(int64_t worker, FunctionRef<int64_t()> take) const;
    // Once all tiles are attended to.
    void Combine(int64_t worker, FunctionRef<int64_t()> take) const;

   private:
    const int matrix_terms_;
    const bool streams_;
    const TiledWorkspace& workspace_;
    const ForwardOperands& operands_;
    const RunSchedule schedule_;
    std::byte* const memory_;
    float* const splits_;
  };

 private:
  // With memory for tiles of the shape `most`.
  ForwardTiles(const AttentionProblem& problem, const DeviceInfo& device,
               const TileShape& most, WorkspaceLayout& layout);

  const int matrix_terms_;
  const bool streams_;
  const TileShape shape_;
  const Schedule schedule_;
  const TiledWorkspace workspace_;
};

}  // namespace flashacl::cpu
