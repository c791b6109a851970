// SPDX-License-Identifier: Apache-2.0
// Hands out positions, reads their lists, and leaves the arithmetic to the
// vector code.
#include "cpu/topk/topk_forward.h"

#include <algorithm>

#include "cpu/forward/forward_operands.h"
#include "cpu/support.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "cpu/work_loop.h"
#include "plan/schedule.h"

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
      : HostPrepared(problem),
        shape_(TopKTileShape(problem, device)),
        workers_(device.workers),
        listed_keys_(MaxListedKeys(problem)),
        num_splits_(
            std::max<int64_t>(CeilDiv(listed_keys_, shape_.split_keys), 1)),
        workspace_(ReserveTopKForward(problem, shape_, workers_, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(Schedule(), shape_);
  }

 private:
  struct Launch;

  const TileShape shape_;
  const int64_t workers_;
  const int64_t listed_keys_;  // of the longest list
  const int64_t num_splits_;   // of every list
  const TopKForwardWorkspace workspace_;
};

// One run: from numbers of items and splits to tiles.
struct PreparedTopKForward::Launch {
  const PreparedTopKForward& prepared;
  const ForwardOperands& operands;
  const IndexLists& lists;
  const WorkItems& items;
  std::byte* memory;

  TopKTile TileOf(int64_t number, int64_t worker) const;
};

TopKTile PreparedTopKForward::Launch::TileOf(int64_t number,
                                             int64_t worker) const {
  const TileShape& shape = prepared.shape_;
  const int64_t num_splits = prepared.num_splits_;
  const WorkItem item = items.At(number / num_splits);
  const int64_t split = number % num_splits;
  const Sequence& extent =
      operands.sequences()[static_cast<size_t>(item.owner.sequence)];
  const Tile cut{.sequence = item.owner.sequence,
                 .kv_head = item.owner.kv_head,
                 .rows = item.rows,
                 .cols = {},
                 .split = split,
                 .num_splits = num_splits};
  TopKTile topk = prepared.workspace_.Tile(memory, worker);
  ForwardTile& tile = topk.tile;
  tile = operands.TileOf(cut, ScoreScratch(tile.scratch),
                         ForwardScratch(tile.forward));
  if (tile.keys.ValuesAreKeys()) {
    tile.keys.value.base = nullptr;
    topk.UseKeysAsValues();
  }
  const Range listed_keys{
      split * shape.split_keys,
      std::min((split + 1) * shape.split_keys, prepared.listed_keys_)};
  tile.cols = {0, lists.Fill(item.owner, extent, tile.band, tile.keys,
                             listed_keys, topk.scratch.columns)};
  if (num_splits > 1) {
    const int64_t row = (number - split) * shape.rows + split * tile.rows;
    tile.split_out = prepared.workspace_.splits.In(memory).data() +
                     row * (prepared.problem().v_dim + 2);
  }
  return topk;
}

Status PreparedTopKForward::Run(const Bindings& bindings, std::byte* memory,
                                Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape_.cols);
  const IndexLists lists(problem(), bindings);
  const WorkItems items(problem(), operands.sequences(), shape_.rows);
  const Launch launch{*this, operands, lists, items, memory};
  const TopKForwardKernels kernels = TopKForward();
  operands.ClearUnownedRows();
  const int64_t count = items.count() * num_splits_;
  ForEachWorker(workers, workers_, count, [&](int64_t worker, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      kernels.attend(launch.TileOf(n, worker));
    }
  });
  if (num_splits_ == 1) return {};
  const int64_t rows = items.count();
  ForEachWorker(workers, workers_, rows, [&](int64_t worker, auto take) {
    for (int64_t n = take(); n < rows; n = take()) {
      kernels.combine(launch.TileOf(n * num_splits_, worker).tile, num_splits_);
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKForward{
    .name = "cpu/forward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTopKForward>};

}  // namespace flashacl
