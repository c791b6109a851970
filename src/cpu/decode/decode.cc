// SPDX-License-Identifier: Apache-2.0
// Which problems have few rows, and how their keys are cut.
#include "cpu/decode/decode.h"

#include <algorithm>
#include <array>
#include <optional>

#include "cpu/decode/decode_kernel.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/forward/forward.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/tuning.h"
#include "cpu/work_loop.h"
#include "plan/plan.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo& device) {
  FLASHACL_RETURN_IF_ERROR(kCpuForward.supports(problem, device));
  if (problem.has(Slot::kWeightScale)) {
    return Unsupported("weights that are rounded need all scores beforehand");
  }
  const Slot value_scale =
      problem.kv.value_is_key ? Slot::kKeyScale : Slot::kValueScale;
  if (problem.has(Slot::kKeep) && problem.has(value_scale)) {
    return Unsupported("8-bit values with dropout");
  }
  const int64_t rows = MaxPackedRows(problem);
  if (rows > kDecodeRows) {
    return Unsupported("{} packed rows per kv head are more than {}", rows,
                       kDecodeRows);
  }
  return {};
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  plan.shape = DecodeTileShape(plan.problem);
  plan.slots = device.workers * HeadBundleOf(plan.problem);
  if (SequencesAreKnown(plan.problem)) {
    plan.schedule = BuildSchedule(
        ExtentOf(plan.problem, plan.problem.lengths.sequences), plan.shape);
  }
  DecodeLayout(plan, plan.workspace);
}

// One run: its tiles, and where their parts are.
struct DecodeRun {
  const Plan& plan;
  const ForwardWorkspace& place;
  std::byte* workspace;
  const ForwardOperands& run;
  const Schedule& schedule;
  int64_t head_bundle;  // tiles that go side by side
  float* splits;

  ForwardTile TileOf(int64_t n, const ForwardScratch& scratch) const {
    const Tile cut = schedule.At(n);
    ForwardTile tile = run.TileOf(cut, scratch);
    if (cut.num_splits > 1) {
      tile.split_out = splits + schedule.SplitRow(n) * (plan.problem.v_dim + 2);
    }
    return tile;
  }

  // The tile and those of the kv heads behind it; nothing if it is one of
  // these.
  void AttendHeadBundle(int64_t n, int64_t slot,
                        const DecodeKernels& kernels) const {
    const Tile cut = schedule.At(n);
    if (cut.kv_head % head_bundle != 0) return;
    const int64_t count =
        std::min(head_bundle, plan.problem.kv_heads - cut.kv_head);
    std::array<ForwardTile, kDecodeHeadBundle> tiles;
    for (int64_t i = 0; i < count; ++i) {
      tiles[static_cast<size_t>(i)] =
          TileOf(n + i * cut.num_splits,
                 place.Scratch(workspace, slot * head_bundle + i));
    }
    kernels.attend(tiles.data(), count);
  }

  void Combine(int64_t n, int64_t slot, const DecodeKernels& kernels) const {
    const Tile cut = schedule.At(n);
    if (cut.num_splits == 1 || cut.split != 0) return;
    kernels.combine(TileOf(n, place.Scratch(workspace, slot * head_bundle)),
                    cut.num_splits);
  }
};

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  WorkspaceLayout layout;
  const ForwardWorkspace place = DecodeLayout(plan, layout);
  const ForwardOperands run(plan.problem, bindings, plan.shape);
  run.ClearUnownedRows();
  std::optional<Schedule> own;
  if (!SequencesAreKnown(plan.problem)) {
    own = BuildSchedule(ExtentOf(plan.problem, run.sequences()), plan.shape);
  }
  const Schedule& schedule = own ? *own : plan.schedule;
  const int64_t head_bundle = place.tiles_per_worker;
  const DecodeRun decode{plan,
                         place,
                         workspace,
                         run,
                         schedule,
                         head_bundle,
                         place.splits.In(workspace).data()};
  const DecodeKernels kernels = Decode();
  const int64_t count = schedule.count();
  const int64_t slots = place.slots / head_bundle;
  ForEachWorker(workers, slots, count, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      decode.AttendHeadBundle(n, slot, kernels);
    }
  });
  if (schedule.num_splits() == 1) return {};
  ForEachWorker(workers, slots, count, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      decode.Combine(n, slot, kernels);
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuDecode{.name = "cpu/decode",
                                .supports = cpu::Supports,
                                .prepare = cpu::Prepare,
                                .launch = cpu::Launch};

}  // namespace flashacl
