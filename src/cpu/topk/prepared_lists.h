// SPDX-License-Identifier: Apache-2.0
// A forward problem of listed keys whose positions all go to one kind of items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cpu/forward/forward_operands.h"
#include "cpu/implementations.h"
#include "cpu/tile_costs.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "cpu/work_loop.h"
#include "plan/implementation.h"
#include "plan/schedule.h"
#include "plan/sequences.h"

namespace flashacl::cpu {

// `Items` decides what an item is, and has the scratch memory of as many
// workers() as may compute at a time: shape() has the rows and the listed keys
// of an item at most. An Items::Launch is for one run. Its TileOf(cut, worker)
// makes the rows of a cut in a worker's memory, Attend(tile, count, worker)
// computes them over the `count` columns that were written to columns(worker),
// where shape().split_keys have room, and Combine(tile, num_splits) puts splits
// together. Items are made of (problem, device, layout), launches of (items,
// operands, memory).
template <typename Items>
class PreparedLists final : public HostPrepared {
 public:
  PreparedLists(const AttentionProblem& problem, const DeviceInfo& device,
                WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGradGflops),
        items_(problem, device, layout),
        num_splits_(SplitsOfLists(problem, shape())),
        splits_(ReserveListSplits(problem, shape(), layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(Schedule(), shape());
  }

  // Lists are taken to be as long as they may be.
  Balance Predict(int64_t workers) const override;

 private:
  const TileShape& shape() const { return items_.shape(); }

  const Items items_;
  const int64_t num_splits_;  // of every list
  const Region<float> splits_;
};

template <typename Items>
Balance PreparedLists<Items>::Predict(int64_t workers) const {
  if (!SequencesAreKnown(problem())) return {};
  const TileCosts costs(problem());
  const WorkItems items(problem(), problem().lengths.sequences, shape().rows);
  const int64_t listed = MaxListedKeys(problem());
  Rehearsal rehearsal(std::min(workers, items_.workers()));
  for (int64_t n = 0; n < items.count(); ++n) {
    const WorkItem item = items.At(n);
    const int64_t seen = std::min(listed, SeenKeys(problem(), item.owner));
    const auto rows = static_cast<double>(item.rows.size());
    for (int64_t split = 0; split < num_splits_; ++split) {
      const auto keys = static_cast<double>(std::clamp<int64_t>(
          seen - split * shape().split_keys, 0, shape().split_keys));
      rehearsal.Take(costs.Of(rows * keys, keys, rows));
    }
  }
  if (num_splits_ == 1) return rehearsal.result();
  rehearsal.Meet();
  for (int64_t n = 0; n < items.count(); ++n) {
    rehearsal.Combine(costs.Combine(
        {.rows = items.At(n).rows, .cols = {}, .num_splits = num_splits_}));
  }
  return rehearsal.result();
}

template <typename Items>
Status PreparedLists<Items>::Run(const Bindings& bindings, std::byte* memory,
                                 Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape().cols);
  const IndexLists lists(problem(), bindings);
  const WorkItems items(problem(), operands.sequences(), shape().rows);
  operands.ClearUnownedRows();
  const typename Items::Launch launch(items_, operands, memory);
  // The rows of an item for one split, whose list is not read yet.
  const auto split_of = [&](int64_t number, int64_t split, int64_t worker) {
    const WorkItem item = items.At(number);
    ForwardTile tile = launch.TileOf({.sequence = item.owner.sequence,
                                      .kv_head = item.owner.kv_head,
                                      .rows = item.rows,
                                      .cols = {},
                                      .split = split,
                                      .num_splits = num_splits_},
                                     worker);
    if (num_splits_ > 1) {
      const int64_t row =
          number * num_splits_ * shape().rows + split * tile.rows;
      tile.split_out = splits_.In(memory).data() + row * (problem().v_dim + 2);
    }
    return tile;
  };
  const auto attend = [&](int64_t n, int64_t worker) {
    const int64_t number = n / num_splits_, split = n % num_splits_;
    const ListOwner owner = items.At(number).owner;
    const ForwardTile tile = split_of(number, split, worker);
    const int64_t keys = shape().split_keys;
    const int64_t count = lists.Fill(
        owner, operands.sequences()[static_cast<size_t>(owner.sequence)],
        tile.band, tile.keys, {split * keys, (split + 1) * keys},
        launch.columns(worker));
    launch.Attend(tile, count, worker);
  };
  const auto combine = [&](int64_t n, int64_t worker) {
    launch.Combine(split_of(n, 0, worker), num_splits_);
  };
  const int64_t most = items_.workers();
  ForEachItem(workers, most, items.count() * num_splits_, attend);
  if (num_splits_ > 1) ForEachItem(workers, most, items.count(), combine);
  return {};
}

}  // namespace flashacl::cpu
