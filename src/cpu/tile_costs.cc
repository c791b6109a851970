// SPDX-License-Identifier: Apache-2.0
// Counts pairs, keys and rows of tiles.
#include "cpu/tile_costs.h"

#include <algorithm>

#include "cpu/share_tuning.h"
#include "plan/cost.h"

namespace flashacl::cpu {
namespace {

bool IsForward(const AttentionProblem& problem) {
  return problem.direction == Direction::kForward;
}

}  // namespace

// Forward: q.k and p.v. Backward: q.k and do.v again, then dq, dk and dv.
TileCosts::TileCosts(const AttentionProblem& problem)
    : problem_(problem),
      pair_(static_cast<double>(
          IsForward(problem) ? problem.score_dim() + problem.v_dim
                             : 3 * problem.score_dim() + 2 * problem.v_dim)),
      element_(static_cast<double>(problem.score_dim() + problem.v_dim)) {}

double TileCosts::Of(double pairs, double keys, double rows) const {
  return pair_ * pairs + element_ * (kKeyLoadCost * keys + kRowLoadCost * rows);
}

double TileCosts::Attend(const Tile& tile) const {
  const Sequence& sequence =
      problem_.lengths.sequences[static_cast<size_t>(tile.sequence)];
  const Band band =
      problem_.mask.BandOf(tile.sequence, sequence.rows(), sequence.columns());
  const int64_t group = problem_.group();
  const Range positions{tile.rows.first / group,
                        CeilDiv(tile.rows.last, group)};
  // Of the outermost positions a tile may have only some heads.
  const auto rows = static_cast<double>(tile.rows.size());
  const double heads = rows / static_cast<double>(positions.size());
  return Of(heads * VisiblePairs(band, positions, tile.cols),
            static_cast<double>(tile.cols.size()), rows);
}

double TileCosts::Combine(const Tile& tile) const {
  const auto numbers =
      static_cast<double>(tile.rows.size() * tile.num_splits * problem_.v_dim);
  return kCombineCost * numbers;
}

RunVector<double> AttendPieces(const TileCosts& costs, const Schedule& schedule,
                               PieceShape shape) {
  RunVector<double> pieces;
  for (int64_t n = 0; n < schedule.count(); ++n) {
    const Tile tile = schedule.At(n);
    const int64_t splits = shape.SplitsFrom(tile);
    if (splits == 0) continue;
    const int64_t heads =
        std::min(shape.heads, costs.kv_heads() - tile.kv_head);
    double cost = 0;
    for (int64_t i = 0; i < splits; ++i) {
      cost += costs.Attend(schedule.At(n + i));
    }
    pieces.push_back(cost * static_cast<double>(heads));
  }
  return pieces;
}

RunVector<double> CombinePieces(const TileCosts& costs,
                                const Schedule& schedule) {
  RunVector<double> pieces;
  if (schedule.num_splits() == 1) return pieces;
  for (int64_t n = 0; n < schedule.count(); ++n) {
    const Tile tile = schedule.At(n);
    if (tile.num_splits == 1 || tile.split > 0) continue;
    pieces.push_back(costs.Combine(tile));
  }
  return pieces;
}

void Rehearse(const TileCosts& costs, const Schedule& schedule,
              PieceShape shape, Rehearsal& rehearsal) {
  for (const double cost : AttendPieces(costs, schedule, shape)) {
    rehearsal.Take(cost);
  }
  rehearsal.Meet();
  for (const double cost : CombinePieces(costs, schedule)) {
    rehearsal.Combine(cost);
  }
}

}  // namespace flashacl::cpu
