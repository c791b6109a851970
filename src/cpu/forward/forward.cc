// SPDX-License-Identifier: Apache-2.0
// Cuts a forward problem into tiles, gives each its scratch memory and
// addresses, and leaves the arithmetic to the vector code.
#include "cpu/forward/forward.h"

#include <optional>
#include <utility>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/support.h"
#include "cpu/work_loop.h"
#include "plan/plan.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kForward);
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  const AttentionProblem& problem = plan.problem;
  plan.shape = ForwardTileShape(problem, device);
  plan.slots = device.workers;
  if (SequencesAreKnown(problem)) {
    plan.schedule =
        BuildSchedule(ExtentOf(problem, problem.lengths.sequences), plan.shape);
  }
  ForwardLayout(plan, plan.workspace);
}

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  WorkspaceLayout layout;
  const ForwardWorkspace place = ForwardLayout(plan, layout);
  const ForwardOperands run(plan.problem, bindings, plan.shape);
  run.ClearUnownedRows();

  std::optional<Schedule> own;
  if (!SequencesAreKnown(plan.problem)) {
    own = BuildSchedule(ExtentOf(plan.problem, run.sequences()), plan.shape);
  }
  const Schedule& schedule = own ? *own : plan.schedule;
  float* const splits = place.splits.In(workspace).data();
  const ForwardKernels kernels = Forward();

  const auto tile_of = [&](int64_t n, const ForwardScratch& scratch) {
    const Tile cut = schedule.At(n);
    ForwardTile tile = run.TileOf(cut, scratch);
    if (cut.num_splits > 1) {
      tile.split_out = splits + schedule.SplitRow(n) * (plan.problem.v_dim + 2);
    }
    return tile;
  };
  const int64_t count = schedule.count();
  ForEachWorker(workers, place.slots, count, [&](int64_t slot, auto take) {
    ForwardScratch scratch = place.Scratch(workspace, slot);
    int64_t n = take();
    if (n == count) return;
    ForwardTile tile = tile_of(n, scratch);
    while (true) {
      n = take();
      std::swap(scratch.lanes, scratch.next_query_rows);
      std::swap(scratch.quant, scratch.next_quant);
      if (n == count) return kernels.attend(tile, nullptr);
      const ForwardTile behind = tile_of(n, scratch);
      kernels.attend(tile, &behind);
      tile = behind;
    }
  });
  if (schedule.num_splits() == 1) return {};
  ForEachWorker(workers, place.slots, count, [&](int64_t slot, auto take) {
    const ForwardScratch scratch = place.Scratch(workspace, slot);
    for (int64_t n = take(); n < count; n = take()) {
      const Tile cut = schedule.At(n);
      if (cut.num_splits == 1 || cut.split != 0) continue;
      kernels.combine(tile_of(n, scratch), cut.num_splits);
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuForward{.name = "cpu/forward",
                                 .supports = cpu::Supports,
                                 .prepare = cpu::Prepare,
                                 .launch = cpu::Launch};

}  // namespace flashacl
