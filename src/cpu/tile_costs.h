// SPDX-License-Identifier: Apache-2.0
// What tiles cost, in multiply-adds: for predicting who is done when, and for
// choosing tiles that workers can share evenly.
#pragma once

#include "base/run_memory.h"
#include "cpu/piece_shape.h"
#include "plan/balance.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

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
