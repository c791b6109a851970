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
  plan.shape = GatheredTileShape(plan.problem, device);
  plan.slots = device.workers;
  GatheredLayout(plan, plan.workspace);
}

// One run: from numbers of items to tiles.
class GatheredRun {
 public:
  GatheredRun(const Plan& plan, const Bindings& bindings, std::byte* workspace)
      : plan_(plan),
        workspace_(workspace),
        place_(PlaceOf(plan)),
        run_(plan.problem, bindings, plan.shape),
        lists_(plan.problem, bindings),
        items_(plan.problem, run_.sequences(), plan.shape.rows),
        entries_(MostListed(plan.problem)),
        parts_(std::max<int64_t>(CeilDiv(entries_, plan.shape.part_cols), 1)) {}

  const ForwardRun& run() const { return run_; }
  int64_t count() const { return items_.count() * parts_; }
  int64_t rows_count() const { return items_.count(); }
  int64_t parts() const { return parts_; }
  int64_t slots() const { return place_.slots; }

  GatheredTile TileOf(int64_t number, int64_t slot) const;

 private:
  static GatheredPlace PlaceOf(const Plan& plan) {
    WorkspaceLayout layout;
    return GatheredLayout(plan, layout);
  }

  const Plan& plan_;
  std::byte* const workspace_;
  const GatheredPlace place_;
  const ForwardRun run_;
  const ColumnLists lists_;
  const GatheredItems items_;
  const int64_t entries_;
  const int64_t parts_;
};

GatheredTile GatheredRun::TileOf(int64_t number, int64_t slot) const {
  const GatheredItem item = items_.At(number / parts_);
  const int64_t part = number % parts_;
  const Sequence& extent =
      run_.sequences()[static_cast<size_t>(item.owner.sequence)];
  const Tile cut{.sequence = item.owner.sequence,
                 .kv_head = item.owner.kv_head,
                 .rows = item.rows,
                 .cols = {},
                 .part = part,
                 .parts = parts_};
  GatheredTile gathered = place_.Tile(workspace_, slot);
  ForwardTile& tile = gathered.tile;
  const ForwardScratch scratch = tile.scratch;
  tile = run_.TileOf(cut, scratch);
  if (tile.keys.ValuesAreKeys()) {
    tile.keys.value.base = nullptr;
    gathered.values = scratch.keys;
    gathered.value_stride = scratch.key_stride;
  }
  const Range entries{part * plan_.shape.part_cols,
                      std::min((part + 1) * plan_.shape.part_cols, entries_)};
  int64_t* const columns = place_.ColumnsOf(workspace_, slot);
  gathered.columns = columns;
  tile.cols = {0, lists_.Fill(item.owner, extent, tile.band, tile.keys, entries,
                              columns)};
  if (parts_ > 1) {
    const int64_t row = (number - part) * plan_.shape.rows + part * tile.rows;
    tile.part =
        place_.parts.In(workspace_).data() + row * (plan_.problem.v_dim + 2);
  }
  return gathered;
}

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  const GatheredRun run(plan, bindings, workspace);
  const GatheredForwardKernels kernels = GatheredForward();
  run.run().ClearRowsOfNobody();
  ForEachSlot(workers, run.slots(), run.count(), [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < run.count(); n = take()) {
      kernels.attend(run.TileOf(n, slot));
    }
  });
  if (run.parts() == 1) return {};
  const int64_t merged = run.count() / run.parts();
  ForEachSlot(workers, run.slots(), merged, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < merged; n = take()) {
      kernels.merge(run.TileOf(n * run.parts(), slot).tile, run.parts());
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuGatheredForward{.name = "cpu/forward/gathered",
                                         .supports = cpu::Supports,
                                         .prepare = cpu::Prepare,
                                         .launch = cpu::Launch};

}  // namespace flashacl
