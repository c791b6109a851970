// SPDX-License-Identifier: Apache-2.0
// Sums that several tiles add to, each in its turn: the order of additions, and
// so every bit, is the schedule's, whoever works.
//
// The tiles of one sequence and kv head are a group: they add to the same keys,
// step by step, in the order of their numbers. Workers take them in that order
// and wait for tiles that were taken before alone, so somebody always goes on.
// As neighbours would wait for each other at every step, tiles of several
// groups are taken in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// The tiles of one sequence and kv head.
struct TileGroup {
  int64_t first = 0;  // number of its first tile
  int64_t tiles = 0;
  int64_t first_ticket = 0;  // of its first step
  int64_t steps = 0;         // of keys
  int64_t step_columns = 1;
  // Its number among the groups whose keys several tiles add to; -1: it is none
  // of them.
  int64_t sums = -1;

  bool summed() const { return sums >= 0; }
};

// A tile's turn at a step of keys.
struct Ticket {
  Range cols;          // the step's; empty: the tile does not see it
  int32_t before = 0;  // tiles of the group that add before it
  bool last = false;   // nobody adds behind it
};

class OrderedSum {
 public:
  // Tiles of `mixed` groups are taken in turn. `live` sets of sums exist: a
  // group may begin when the one `live` groups before is done.
  struct Limits {
    int64_t step_columns = 1;
    int64_t interleaved = 1;
    int64_t in_flight = 1;
  };

  OrderedSum(const AttentionProblem& problem,
             std::span<const Sequence> sequences, const Schedule& schedule,
             const Limits& limits);

  // The tiles' numbers, in the order in which they must be taken.
  std::span<const int64_t> order() const { return order_; }

  std::span<const TileGroup> groups() const { return groups_; }
  const TileGroup& GroupOf(int64_t tile) const;

  // Whether some key of some sequence is in no tile's step.
  bool SomeKeysAreUnseen() const { return unseen_; }

  // By step of the tile's group.
  std::vector<Ticket> Of(int64_t tile) const;

  // The keys of a step of the tile's group; empty if the tile sees none.
  Range StepOf(int64_t tile, int64_t step) const;

  void WaitForSums(const TileGroup& group) const;
  void Wait(const TileGroup& group, int64_t step, const Ticket& ticket) const;
  void Pass(const TileGroup& group, int64_t step, const Ticket& ticket);
  void Finish(const TileGroup& group);

 private:
  void FindGroups(std::span<const Sequence> sequences);
  void FindUnseen();
  void Interleave();
  bool Sees(const Tile& tile, Range cols) const;

  const AttentionProblem& problem_;
  std::span<const Sequence> sequences_;
  const Schedule& schedule_;
  Limits limits_;
  bool unseen_ = false;
  std::vector<TileGroup> groups_;
  std::vector<int64_t> order_;
  std::vector<int64_t> summed_;  // groups of several tiles, by their number
  std::unique_ptr<std::atomic<int32_t>[]> ordered_sum_;  // by step
  std::unique_ptr<std::atomic<int64_t>[]> finished_;     // tiles, by group
};

}  // namespace flashacl::cpu
