// SPDX-License-Identifier: Apache-2.0
// Hands out positions, reads their lists, and leaves the arithmetic to the
// vector code. Few positions split their lists.
#include <algorithm>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/support.h"
#include "cpu/tile_costs.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "cpu/work_loop.h"
#include "plan/schedule.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsLists(problem, Direction::kForward);
}

class PreparedTopKForward final : public HostPrepared {
 public:
  PreparedTopKForward(const AttentionProblem& problem, const DeviceInfo& device,
                      WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGradGflops),
        matrices_(TakesMatrices(problem, TopKForward())),
        shape_(TopKTileShape(problem, device, matrices_)),
        num_splits_(std::max<int64_t>(
            CeilDiv(MaxListedKeys(problem), shape_.split_keys), 1)),
        workspace_(ReserveTopKForward(problem, shape_, device.workers, layout,
                                      matrices_)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(Schedule(), shape_);
  }

  Balance Predict(int64_t workers) const override;

 private:
  const bool matrices_;
  const TileShape shape_;
  const int64_t num_splits_;  // of every list
  const TopKForwardWorkspace workspace_;
};

// Lists are taken to be as long as they may be.
Balance PreparedTopKForward::Predict(int64_t workers) const {
  if (!SequencesAreKnown(problem())) return {};
  const TileCosts costs(problem());
  const WorkItems items(problem(), problem().lengths.sequences, shape_.rows);
  const int64_t listed = MaxListedKeys(problem());
  Rehearsal rehearsal(std::min(workers, workspace_.score.count()));
  for (int64_t n = 0; n < items.count(); ++n) {
    const WorkItem item = items.At(n);
    const int64_t seen = std::min(listed, SeenKeys(problem(), item.owner));
    const auto rows = static_cast<double>(item.rows.size());
    for (int64_t split = 0; split < num_splits_; ++split) {
      const auto keys = static_cast<double>(std::clamp<int64_t>(
          seen - split * shape_.split_keys, 0, shape_.split_keys));
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

Status PreparedTopKForward::Run(const Bindings& bindings, std::byte* memory,
                                Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape_.cols);
  const IndexLists lists(problem(), bindings);
  const WorkItems items(problem(), operands.sequences(), shape_.rows);
  operands.ClearUnownedRows();

  const TopKForwardKernels kernels = TopKForward();
  const PairDots dots = ChoosePairDots(kernels.has_pair_dots);
  // The rows of an item for one split, whose list is not read yet.
  const auto split_of = [&](int64_t number, int64_t split, int64_t worker) {
    const WorkItem item = items.At(number);
    ForwardTile tile = operands.TileOf({.sequence = item.owner.sequence,
                                        .kv_head = item.owner.kv_head,
                                        .rows = item.rows,
                                        .cols = {},
                                        .split = split,
                                        .num_splits = num_splits_},
                                       workspace_.score.At(memory, worker),
                                       workspace_.forward.At(memory, worker));
    // Where probs multiply floats, keys that are pairs are loaded as floats,
    // too.
    if (matrices_) {
      UsePairs(PairDots::kMatrices, tile);
    } else if (ArePairs(tile)) {
      tile.dots = dots;
    }
    if (matrices_ || tile.dots == PairDots::kNone || ValuesArePairs(tile)) {
      tile.keys.DropSharedValues();
    } else {
      tile.keys.NameSharedValues();
    }
    if (num_splits_ > 1) {
      const int64_t row =
          number * num_splits_ * shape_.rows + split * tile.rows;
      tile.split_out =
          workspace_.splits.In(memory).data() + row * (problem().v_dim + 2);
    }
    return tile;
  };
  const auto attend = [&](int64_t n, int64_t worker) {
    const int64_t number = n / num_splits_, split = n % num_splits_;
    const ListOwner owner = items.At(number).owner;
    TopKTile topk{split_of(number, split, worker),
                  workspace_.listed.At(memory, worker)};
    topk.count = lists.Fill(
        owner, operands.sequences()[static_cast<size_t>(owner.sequence)],
        topk.tile.band, topk.tile.keys,
        {split * shape_.split_keys, (split + 1) * shape_.split_keys},
        topk.scratch.columns);
    kernels.attend(topk);
  };
  const auto combine = [&, tiles = Forward()](int64_t n, int64_t worker) {
    tiles.combine(split_of(n, 0, worker), num_splits_);
  };
  const int64_t most = workspace_.score.count();
  ForEachItem(workers, most, items.count() * num_splits_, attend);
  if (num_splits_ > 1) ForEachItem(workers, most, items.count(), combine);
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKForward{
    .name = "cpu/forward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTopKForward>};

}  // namespace flashacl
