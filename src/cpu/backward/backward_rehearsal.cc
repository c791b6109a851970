// SPDX-License-Identifier: Apache-2.0
// Walks over tiles and their steps with a clock for every worker and one for
// every step of keys that tiles add to in turn.
#include "cpu/backward/backward_rehearsal.h"

#include <algorithm>

#include "base/run_memory.h"
#include "cpu/backward/bias_gradient.h"
#include "cpu/backward/ordered_sum.h"
#include "cpu/tile_costs.h"

namespace flashacl::cpu {
namespace {

using Rehearser = Rehearsal::Worker;

class BackwardRehearsal {
 public:
  BackwardRehearsal(const AttentionProblem& problem, const Schedule& schedule,
                    const BackwardWorkspace& workspace, const TileShape& shape)
      : costs_(problem),
        schedule_(schedule),
        workspace_(workspace),
        sum_(problem, problem.lengths.sequences, schedule,
             {.step_columns = shape.cols,
              .interleaved = workspace.interleaved,
              .in_flight = workspace.accumulators}) {
    int64_t steps = 0;
    for (const HeadTiles& head : sum_.heads()) steps += head.steps;
    added_at_.resize(static_cast<size_t>(steps));
    done_at_.resize(sum_.heads().size());
  }

  // All tiles in order; those of one class go to one worker, who waits for
  // nobody.
  void Sweep(const BiasGradient& bias, bool adds, Rehearsal& rehearsal) {
    if (!bias.shared()) {
      for (const int64_t n : sum_.order()) {
        rehearsal.TakeWith([&](Rehearser& worker) { Attend(n, adds, worker); });
      }
      return;
    }
    RunVector<double> classes(static_cast<size_t>(bias.classes()));
    for (int64_t n = 0; n < schedule_.count(); ++n) {
      const Tile tile = schedule_.At(n);
      classes[static_cast<size_t>(bias.ClassOf(tile))] += costs_.Attend(tile);
    }
    for (const double cost : classes) rehearsal.Take(cost);
  }

  // The second sweep: some steps of keys with all tiles that see them.
  void SweepKeys(Rehearsal& rehearsal) const {
    for (const HeadTiles& head : sum_.heads()) {
      for (int64_t s = 0; s < head.steps; s += workspace_.swept_steps) {
        const int64_t last = std::min(s + workspace_.swept_steps, head.steps);
        double cost = 0;
        for (int64_t n = head.first; n < head.first + head.tiles; ++n) {
          for (int64_t step = s; step < last; ++step) {
            cost += StepCost(n, step);
          }
        }
        rehearsal.Take(cost);
      }
    }
  }

 private:
  double StepCost(int64_t number, int64_t step) const {
    Tile tile = schedule_.At(number);
    tile.cols = sum_.SeenStep(number, step);
    return tile.cols.empty() ? 0.0 : costs_.Attend(tile);
  }

  // A tile that shares the sums of its keys computes the scores of its first
  // block of rows, then waits until the tiles before it have added to the step.
  void Attend(int64_t number, bool adds, Rehearser& worker) {
    const HeadTiles& head = sum_.HeadOf(number);
    const bool waits = adds && head.summed();
    double& done_at =
        done_at_[static_cast<size_t>(&head - sum_.heads().data())];
    if (waits) worker.WaitUntil(FreeAccumulator(head));
    const int64_t rows = schedule_.At(number).rows.size();
    const int64_t blocks = CeilDiv(rows, workspace_.row_block);
    for (int64_t s = 0; s < head.steps; ++s) {
      const double cost = StepCost(number, s);
      if (cost == 0) continue;
      double& added_at = added_at_[static_cast<size_t>(head.first_counter + s)];
      const double before =
          waits ? kBeforeAdding * cost / static_cast<double>(blocks) : 0.0;
      worker.Work(before);
      if (waits) worker.WaitUntil(added_at);
      worker.Work(cost - before);
      added_at = worker.free_at;
    }
    done_at = std::max(done_at, worker.free_at);
  }

  // When the head that has its accumulator before it is done.
  double FreeAccumulator(const HeadTiles& head) const {
    if (head.accumulator < workspace_.accumulators) return 0;
    const int64_t owner = head.accumulator - workspace_.accumulators;
    for (const HeadTiles& other : sum_.heads()) {
      if (other.accumulator != owner) continue;
      return done_at_[static_cast<size_t>(&other - sum_.heads().data())];
    }
    return 0;
  }

  // Two of the five products, and dq.
  static constexpr double kBeforeAdding = 0.6;

  const TileCosts costs_;
  const Schedule& schedule_;
  const BackwardWorkspace& workspace_;
  const OrderedSum sum_;
  RunVector<double> added_at_;  // by counter of a step
  RunVector<double> done_at_;   // by head
};

}  // namespace

Balance RehearseBackward(const AttentionProblem& problem,
                         const Schedule& schedule,
                         const BackwardWorkspace& workspace,
                         const TileShape& shape, int64_t workers) {
  const BiasGradient bias(problem, Bindings(), problem.lengths.sequences, {});
  BackwardRehearsal backward(problem, schedule, workspace, shape);
  // A worker that computes a kv head alone needs an accumulator.
  const int64_t most = bias.shared() && workspace.accumulators > 0
                           ? std::min(workers, workspace.accumulators)
                           : workers;
  Rehearsal rehearsal(most);
  backward.Sweep(bias, /*adds=*/!workspace.sweeps_twice, rehearsal);
  if (workspace.sweeps_twice) {
    rehearsal.Meet();
    backward.SweepKeys(rehearsal);
  }
  Balance balance = rehearsal.result();
  balance.workers = workers;
  return balance;
}

}  // namespace flashacl::cpu
