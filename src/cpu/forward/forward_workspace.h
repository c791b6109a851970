// SPDX-License-Identifier: Apache-2.0
// The tiles of the forward direction and their scratch memory. Sizes depend on
// tile shape and channels, never on the length of a sequence; splits alone grow
// with the keys of few rows.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/scratch_layout.h"
#include "cpu/tile/attention_params.h"
#include "plan/backend.h"
#include "plan/schedule.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// The most query positions of a sequence if it has so many as `sequence_rows`
// says, or may have them on the device; else 0.
int64_t MaxRowsWithin(const AttentionProblem& problem, const Sequence& sequence,
                      Range sequence_rows);

// Packed rows of all such sequences and kv heads, and of the longest.
struct PackedRows {
  int64_t all = 0;
  int64_t most = 0;
};
PackedRows PackedRowsOf(const AttentionProblem& problem,
                        Range sequence_rows = TileShape::kAnyRows);

// Rows and columns of tiles that fit the caches.
TileShape ForwardTileShape(const AttentionProblem& problem,
                           const DeviceInfo& device,
                           Range sequence_rows = TileShape::kAnyRows);

// The same tiles, or such of fewer rows as `workers` share evenly. No bit of
// any row depends on the rows of its tile.
TileShape SharedTileShape(const AttentionProblem& problem,
                          const TileShape& shape, int64_t workers);

// Scratch memory of every tile that is computed at a time.
struct ForwardWorkspace {
  ScratchLayout<ScoreScratch> score;
  ScratchLayout<ForwardScratch> forward;
};

// What workers have besides whose tiles have many rows: packed values, and
// buffers to prepare the next tile while one is computed.
struct TiledScratch {
  float* values;  // see PackedValues
  float* next_quant;
  QueryRow* next_query_rows;
  int64_t value_keys = 0;
};

struct TiledWorkspace : ForwardWorkspace {
  ScratchLayout<TiledScratch> tiled;
};

// Reserves what the scores of `rows` rows and a step of `keys` keys take for
// each of `workers`, with the strides that `sizes` has.
ScratchLayout<ScoreScratch> ReserveScores(const AttentionProblem& problem,
                                          const ScoreScratch& sizes,
                                          int64_t rows, int64_t keys,
                                          int64_t workers,
                                          WorkspaceLayout& layout);

// The same of their softmax and outputs.
ScratchLayout<ForwardScratch> ReserveOutputs(const AttentionProblem& problem,
                                             int64_t rows, int64_t keys,
                                             int64_t workers,
                                             WorkspaceLayout& layout);

// Floats that values by channel take, for matrix registers.
int64_t MatrixValuesRoom(const AttentionProblem& problem, int64_t step_keys);

// Reserves what tiles of this shape take for each of `workers`.
TiledWorkspace ReserveForward(const AttentionProblem& problem,
                              const TileShape& shape, int64_t workers,
                              WorkspaceLayout& layout);

// What (row, split) pairs leave to be combined, [split row, v_dim + 2].
Region<float> ReserveSplits(const AttentionProblem& problem, int64_t split_rows,
                            WorkspaceLayout& layout);

// The most (row, split) pairs that schedules of these sequences or of shorter
// ones may have, each of which goes by one of `shapes`.
int64_t MaxSplitRows(const AttentionProblem& problem,
                     std::span<const TileShape> shapes);

// The schedule of lengths that planning knows; else none.
Schedule KnownSchedule(const AttentionProblem& problem, const TileShape& shape);

// The (row, split) pairs to reserve memory for.
int64_t SplitRowsOf(const AttentionProblem& problem, const Schedule& schedule,
                    const TileShape& shape);

}  // namespace flashacl::cpu
