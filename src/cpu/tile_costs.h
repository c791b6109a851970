// SPDX-License-Identifier: Apache-2.0
// What tiles cost, in multiply-adds: for predicting who is done when, and for
// choosing tiles that workers can share evenly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/range.h"
#include "base/run_memory.h"
#include "plan/balance.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// What a worker takes at a time: the tiles of neighbouring kv heads, a head
// bundle, and those of splits of the same rows that follow each other, at most
// so many of each.
struct PieceShape {
  int64_t heads = 1;
  int64_t splits = 1;

  // How many splits a piece has that begins with this tile; 0: none begins
  // here. All pieces of a tile's rows have the same number, but for the last.
  int64_t SplitsFrom(const Tile& tile) const {
    if (tile.kv_head % heads != 0) return 0;
    const int64_t each =
        CeilDiv(tile.num_splits, CeilDiv(tile.num_splits, splits));
    if (tile.split % each != 0) return 0;
    return std::min(each, tile.num_splits - tile.split);
  }

  bool operator==(const PieceShape&) const = default;
};

class TileCosts {
 public:
  // The problem must outlive this. Lengths are taken for the longest there are.
  explicit TileCosts(const AttentionProblem& problem);

  int64_t kv_heads() const { return problem_.kv_heads; }

  // Products of all pairs of a row and a key that see each other, and loading
  // keys, values and rows.
  double Attend(const Tile& tile) const;

  // Adding up the splits of a tile's rows.
  double Combine(const Tile& tile) const;

  // `pairs` of a row and a key, of `keys` keys and `rows` rows.
  double Of(double pairs, double keys, double rows) const;

 private:
  const AttentionProblem& problem_;
  const double pair_;
  const double element_;  // channels of a key and a value
};

// What the pieces of work cost, in the order in which they are handed out.
RunVector<double> AttendPieces(const TileCosts& costs, const Schedule& schedule,
                               PieceShape shape = {});

// Rows whose splits are combined, in that order.
RunVector<double> CombinePieces(const TileCosts& costs,
                                const Schedule& schedule);

// All of them, combining after all workers have met.
void Rehearse(const TileCosts& costs, const Schedule& schedule,
              PieceShape shape, Rehearsal& rehearsal);

}  // namespace flashacl::cpu
