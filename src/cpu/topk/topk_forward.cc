// SPDX-License-Identifier: Apache-2.0
// Hands out positions, reads their lists, and leaves the arithmetic to the
// vector code.
#include "cpu/topk/topk_forward.h"

#include <algorithm>
#include <vector>

#include "cpu/forward/forward_operands.h"
#include "cpu/support.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "cpu/work_loop.h"
#include "plan/plan.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsLists(problem, Direction::kForward);
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  plan.shape = TopKTileShape(plan.problem, device);
  plan.slots = device.workers;
  TopKForwardLayout(plan, plan.workspace);
}

// One run: from numbers of items to tiles.
class TopKForwardRun {
 public:
  TopKForwardRun(const Plan& plan, const Bindings& bindings,
                 std::byte* workspace)
      : plan_(plan),
        workspace_(workspace),
        place_(PlaceOf(plan)),
        run_(plan.problem, bindings, plan.shape),
        lists_(plan.problem, bindings),
        items_(plan.problem, run_.sequences(), plan.shape.rows),
        listed_keys_(MaxListedKeys(plan.problem)),
        num_splits_(std::max<int64_t>(
            CeilDiv(listed_keys_, plan.shape.split_keys), 1)) {}

  const ForwardOperands& run() const { return run_; }
  int64_t count() const { return items_.count() * num_splits_; }
  int64_t rows_count() const { return items_.count(); }
  int64_t num_splits() const { return num_splits_; }
  int64_t slots() const { return place_.slots; }

  TopKTile TileOf(int64_t number, int64_t slot) const;

 private:
  static TopKForwardWorkspace PlaceOf(const Plan& plan) {
    WorkspaceLayout layout;
    return TopKForwardLayout(plan, layout);
  }

  const Plan& plan_;
  std::byte* const workspace_;
  const TopKForwardWorkspace place_;
  const ForwardOperands run_;
  const IndexLists lists_;
  const WorkItems items_;
  const int64_t listed_keys_;
  const int64_t num_splits_;
};

TopKTile TopKForwardRun::TileOf(int64_t number, int64_t slot) const {
  const WorkItem item = items_.At(number / num_splits_);
  const int64_t split = number % num_splits_;
  const Sequence& extent =
      run_.sequences()[static_cast<size_t>(item.owner.sequence)];
  const Tile cut{.sequence = item.owner.sequence,
                 .kv_head = item.owner.kv_head,
                 .rows = item.rows,
                 .cols = {},
                 .split = split,
                 .num_splits = num_splits_};
  TopKTile topk = place_.Tile(workspace_, slot);
  ForwardTile& tile = topk.tile;
  const ForwardScratch scratch = tile.scratch;
  tile = run_.TileOf(cut, scratch);
  if (tile.keys.ValuesAreKeys()) {
    tile.keys.value.base = nullptr;
    topk.values = scratch.keys;
    topk.value_stride = scratch.key_stride;
  }
  const Range listed_keys{
      split * plan_.shape.split_keys,
      std::min((split + 1) * plan_.shape.split_keys, listed_keys_)};
  int64_t* const columns = place_.ColumnsOf(workspace_, slot);
  topk.columns = columns;
  tile.cols = {0, lists_.Fill(item.owner, extent, tile.band, tile.keys,
                              listed_keys, columns)};
  if (num_splits_ > 1) {
    const int64_t row = (number - split) * plan_.shape.rows + split * tile.rows;
    tile.split_out =
        place_.splits.In(workspace_).data() + row * (plan_.problem.v_dim + 2);
  }
  return topk;
}

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  const TopKForwardRun run(plan, bindings, workspace);
  const TopKForwardKernels kernels = TopKForward();
  run.run().ClearUnownedRows();
  ForEachWorker(workers, run.slots(), run.count(),
                [&](int64_t slot, auto take) {
                  for (int64_t n = take(); n < run.count(); n = take()) {
                    kernels.attend(run.TileOf(n, slot));
                  }
                });
  if (run.num_splits() == 1) return {};
  const int64_t merged = run.count() / run.num_splits();
  ForEachWorker(workers, run.slots(), merged, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < merged; n = take()) {
      kernels.combine(run.TileOf(n * run.num_splits(), slot).tile,
                      run.num_splits());
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKForward{.name = "cpu/forward/topk",
                                     .supports = cpu::Supports,
                                     .prepare = cpu::Prepare,
                                     .launch = cpu::Launch};

}  // namespace flashacl
