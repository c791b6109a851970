// SPDX-License-Identifier: Apache-2.0
// Sums that several tiles add to in the order of the schedule, so that no bit
// depends on who works.
//
// The tiles of one sequence and kv head add to the gradients of the same keys,
// step by step; a tile adds to a step when the tiles before it that see the
// step have. Workers take tiles in that order and only ever wait for tiles that
// were taken before, so some worker always goes on. Neighbours would wait for
// each other at every step; so tiles of several heads are interleaved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/run_memory.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// The tiles of one sequence and kv head.
struct HeadTiles {
  int64_t first = 0;  // number of the first one
  int64_t tiles = 0;
  int64_t steps = 0;          // of keys
  int64_t step_columns = 1;   // keys of one step
  int64_t first_counter = 0;  // of its steps
  // Its number among the heads that several tiles add to; -1: one tile does.
  int64_t accumulator = -1;

  bool summed() const { return accumulator >= 0; }
};

// When a tile may add to a step of keys that it sees.
struct Ticket {
  int32_t before = 0;  // tiles of the head that add before it
  bool last = true;    // no tile adds after it
};

class OrderedSum {
 public:
  // There are `in_flight` accumulators: a head may begin when the one that
  // many heads before is done.
  struct Limits {
    int64_t step_columns = 1;
    int64_t interleaved = 1;  // heads whose tiles are
    int64_t in_flight = 1;
  };

  OrderedSum(const AttentionProblem& problem,
             std::span<const Sequence> sequences, const Schedule& schedule,
             const Limits& limits);

  // The tiles' numbers, in the order in which they must be taken.
  std::span<const int64_t> order() const { return order_; }

  std::span<const HeadTiles> heads() const { return heads_; }
  const HeadTiles& HeadOf(int64_t tile) const;

  // Whether some key of some sequence is in no tile's step.
  bool SomeKeysAreUnseen() const { return unseen_; }

  // The keys of a step of the tile's head; empty if the tile sees none.
  Range SeenStep(int64_t tile, int64_t step) const;

  // Of a tile that sees the step.
  Ticket TicketOf(int64_t tile, int64_t step) const;

  // False if some worker gave up: the tile shall end then, too.
  bool WaitForAccumulator(const HeadTiles& head) const;
  bool Wait(const HeadTiles& head, int64_t step, const Ticket& ticket) const;

  void Pass(const HeadTiles& head, int64_t step, const Ticket& ticket);
  void Finish(const HeadTiles& head);

  // For a worker that leaves a tile in the middle: nobody waits for it.
  void GiveUp() { gave_up_.store(true, std::memory_order_release); }

 private:
  template <typename Ready>
  bool Await(Ready ready) const;
  void FindHeads();
  void FindUnseen();
  void Interleave();

  const AttentionProblem& problem_;
  std::span<const Sequence> sequences_;
  const Schedule& schedule_;
  Limits limits_;
  bool unseen_ = false;
  std::atomic<bool> gave_up_{false};
  RunVector<HeadTiles> heads_;
  RunVector<int64_t> order_;
  RunVector<int64_t> summed_;                 // heads that several tiles add to
  RunVector<std::atomic<int32_t>> added_;     // tiles, by counter
  RunVector<std::atomic<int64_t>> finished_;  // tiles, by head
};

}  // namespace flashacl::cpu
