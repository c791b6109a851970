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
  const int64_t rows = MostPackedRows(problem);
  if (rows > kDecodeRows) {
    return Unsupported("{} packed rows per kv head are more than {}", rows,
                       kDecodeRows);
  }
  return {};
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  plan.shape = DecodeTileShape(plan.problem);
  plan.slots = device.workers * BundleOf(plan.problem);
  if (SequencesAreKnown(plan.problem)) {
    plan.schedule = BuildSchedule(
        ExtentOf(plan.problem, plan.problem.lengths.sequences), plan.shape);
  }
  DecodeLayout(plan, plan.workspace);
}

// One run: its tiles, and where their parts are.
struct DecodeRun {
  const Plan& plan;
  const ForwardPlace& place;
  std::byte* workspace;
  const ForwardRun& run;
  const Schedule& schedule;
  int64_t bundle;  // tiles that go side by side
  float* parts;

  ForwardTile TileOf(int64_t n, const ForwardScratch& scratch) const {
    const Tile cut = schedule.At(n);
    ForwardTile tile = run.TileOf(cut, scratch);
    if (cut.parts > 1) {
      tile.part = parts + schedule.PartRow(n) * (plan.problem.v_dim + 2);
    }
    return tile;
  }

  // The tile and those of the kv heads behind it; nothing if it is one of
  // these.
  void AttendBundle(int64_t n, int64_t slot,
                    const DecodeKernels& kernels) const {
    const Tile cut = schedule.At(n);
    if (cut.kv_head % bundle != 0) return;
    const int64_t count = std::min(bundle, plan.problem.kv_heads - cut.kv_head);
    std::array<ForwardTile, kDecodeBundle> tiles;
    for (int64_t i = 0; i < count; ++i) {
      tiles[static_cast<size_t>(i)] = TileOf(
          n + i * cut.parts, place.Scratch(workspace, slot * bundle + i));
    }
    kernels.attend(tiles.data(), count);
  }

  void Merge(int64_t n, int64_t slot, const DecodeKernels& kernels) const {
    const Tile cut = schedule.At(n);
    if (cut.parts == 1 || cut.part != 0) return;
    kernels.merge(TileOf(n, place.Scratch(workspace, slot * bundle)),
                  cut.parts);
  }
};

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  WorkspaceLayout layout;
  const ForwardPlace place = DecodeLayout(plan, layout);
  const ForwardRun run(plan.problem, bindings, plan.shape);
  run.ClearRowsOfNobody();
  std::optional<Schedule> own;
  if (!SequencesAreKnown(plan.problem)) {
    own = BuildSchedule(ExtentOf(plan.problem, run.sequences()), plan.shape);
  }
  const Schedule& schedule = own ? *own : plan.schedule;
  const int64_t bundle = place.sharers;
  const DecodeRun decode{plan,
                         place,
                         workspace,
                         run,
                         schedule,
                         bundle,
                         place.parts.In(workspace).data()};
  const DecodeKernels kernels = Decode();
  const int64_t count = schedule.count();
  const int64_t slots = place.slots / bundle;
  ForEachSlot(workers, slots, count, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      decode.AttendBundle(n, slot, kernels);
    }
  });
  if (schedule.parts() == 1) return {};
  ForEachSlot(workers, slots, count, [&](int64_t slot, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      decode.Merge(n, slot, kernels);
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
