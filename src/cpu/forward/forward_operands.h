// SPDX-License-Identifier: Apache-2.0
// One run of a forward problem: its addresses, the lengths it has this time,
// and the tiles as the vector code wants them.
#pragma once

#include <optional>
#include <span>

#include "base/run_memory.h"
#include "cpu/tile/attention_params.h"
#include "plan/bindings.h"
#include "plan/schedule.h"
#include "plan/sequences.h"
#include "problem/attention_problem.h"
#include "problem/grid.h"

namespace flashacl::cpu {

class ForwardOperands {
 public:
  // Both must outlive the run. A step of a tile is `step_keys` keys.
  ForwardOperands(const AttentionProblem& problem, const Bindings& bindings,
                  int64_t step_keys);

  std::span<const Sequence> sequences() const { return sequences_; }
  bool sequences_known() const { return SequencesAreKnown(problem_); }

  // Rows of results that belong to no sequence become 0.
  void ClearUnownedRows() const;

  // Gradients of queries that belong to no sequence become 0; those of keys
  // too, or of all keys, where some are in no tile.
  void ClearUnownedGradients(bool all_keys) const;

  // The rows of a sequence in this tensor; `side` says which it has.
  TensorRows RowsOf(Slot slot, int64_t sequence, Range Sequence::*side) const;
  GradRows GradRowsOf(int64_t sequence) const;

  // The rows of a tile, or of a part of one.
  void FillQueryRows(const Tile& cut, std::span<QueryRow> query_rows) const;

  // Fills scratch.query_rows.
  ScoreTile ScoreTileOf(const Tile& cut, const ScoreScratch& scratch) const;

  // Everything but where splits go. Also fills forward.quant.
  ForwardTile TileOf(const Tile& cut, const ScoreScratch& score,
                     const ForwardScratch& forward) const;

  // A worker's memory for tiles, and where splits go.
  struct TileMemory {
    const ScoreScratch& score;
    const ForwardScratch& forward;
    float* splits;
  };
  ForwardTile TileOf(const Schedule& schedule, int64_t number,
                     const TileMemory& memory) const;

  // The tiles of this run's lengths.
  Schedule BuildSchedule(const TileShape& shape) const;

 private:
  struct Plane;

  void ClearLse() const;
  void FillScoreParams();
  void FillForwardParams();
  QueryRow QueryRowOf(const Tile& cut, int64_t head) const;
  void FillQuantParams(int64_t kv_head, float* buffer, KvRows& keys) const;

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  RunVector<Sequence> sequences_;
  Grid mask_, bias_, keep_, row_max_, row_sum_, lse_;
  ScoreParams score_params_;
  ForwardParams forward_params_;
  OutQuantParams out_quant_;
  bool encoded_ = false;
};

// Whether a tile's queries and keys may stay pairs (PairDots).
bool ArePairs(const ScoreTile& tile);

// Lets a tile use pairs of channels, and of keys, where it may.
void UsePairs(PairDots dots, ForwardTile& tile);

// Whether values and gradients of outputs may stay pairs, too.
bool ArePairs(const ScoreTile& tile, const GradRows& rows);

// Sets every element that dims and strides name to 0; of kBlocks, whose dims do
// not say it all, those below `end`.
void ClearElements(const TensorSpec& spec, std::byte* base, int64_t end);

// The schedule of one run: the plan's, or one of its own where only the stream
// knows the lengths.
class RunSchedule {
 public:
  RunSchedule(const Schedule& planned, const ForwardOperands& operands,
              const TileShape& shape);

  const Schedule& operator*() const { return own_ ? *own_ : planned_; }
  const Schedule* operator->() const { return &**this; }

 private:
  const Schedule& planned_;
  std::optional<Schedule> own_;
};

}  // namespace flashacl::cpu
