// SPDX-License-Identifier: Apache-2.0
// Which problems have few rows, and how their keys are cut.
#include <algorithm>
#include <array>

#include "cpu/decode/decode_kernel.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/implementations.h"
#include "cpu/tuning.h"
#include "cpu/work_loop.h"

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
  const int64_t rows = PackedRowsOf(problem).most;
  if (rows > kDecodeRows) {
    return Unsupported("{} packed rows per kv head are more than {}", rows,
                       kDecodeRows);
  }
  return {};
}

class PreparedDecode final : public HostPrepared {
 public:
  PreparedDecode(const AttentionProblem& problem, const DeviceInfo& device,
                 WorkspaceLayout& layout)
      : HostPrepared(problem),
        shape_(DecodeTileShape(problem)),
        schedule_(KnownSchedule(problem, shape_)),
        head_bundle_(HeadBundleOf(problem)),
        workers_(device.workers),
        workspace_(ReserveDecode(
            problem, SplitRowsOf(problem, schedule_, shape_),
            {.workers = workers_, .tiles_per_worker = head_bundle_}, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(schedule_, shape_);
  }

 private:
  // One run: its tiles, and where their splits are.
  struct Launch;

  const TileShape shape_;
  const Schedule schedule_;    // empty if lengths are on the device
  const int64_t head_bundle_;  // tiles that go side by side
  const int64_t workers_;
  const DecodeWorkspace workspace_;
};

struct PreparedDecode::Launch {
  const PreparedDecode& prepared;
  const ForwardOperands& operands;
  const Schedule& schedule;
  std::byte* memory;
  DecodeKernels kernels;

  // Tile `n` with the scratch memory of the `i`th of a worker's tiles.
  DecodeArgs TileOf(int64_t n, int64_t worker, int64_t i) const {
    const DecodeWorkspace& workspace = prepared.workspace_;
    const int64_t own = worker * prepared.head_bundle_ + i;
    return {operands.TileOf(schedule, n,
                            {workspace.score.At(memory, own),
                             workspace.forward.At(memory, own),
                             workspace.splits.In(memory).data()}),
            workspace.decode.At(memory, own)};
  }

  // The tile and those of the kv heads after it; nothing if it is one of
  // these.
  void AttendHeadBundle(int64_t n, int64_t worker) const {
    const Tile cut = schedule.At(n);
    if (cut.kv_head % prepared.head_bundle_ != 0) return;
    const int64_t count = std::min(prepared.head_bundle_,
                                   prepared.problem().kv_heads - cut.kv_head);
    std::array<DecodeArgs, kDecodeHeadBundle> tiles;
    for (int64_t i = 0; i < count; ++i) {
      tiles[static_cast<size_t>(i)] = TileOf(n + i * cut.num_splits, worker, i);
    }
    kernels.attend(tiles.data(), count);
  }

  void Combine(int64_t n, int64_t worker) const {
    const Tile cut = schedule.At(n);
    if (cut.num_splits == 1 || cut.split != 0) return;
    kernels.combine(TileOf(n, worker, 0).tile, cut.num_splits);
  }
};

Status PreparedDecode::Run(const Bindings& bindings, std::byte* memory,
                           Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape_.cols);
  operands.ClearUnownedRows();
  const RunSchedule schedule(schedule_, operands, shape_);
  const Launch launch{*this, operands, *schedule, memory, Decode()};
  const int64_t count = schedule->count();
  ForEachWorker(workers, workers_, count, [&](int64_t worker, auto take) {
    for (int64_t n = take(); n < count; n = take()) {
      launch.AttendHeadBundle(n, worker);
    }
  });
  if (schedule->num_splits() == 1) return {};
  ForEachWorker(workers, workers_, count, [&](int64_t worker, auto take) {
    for (int64_t n = take(); n < count; n = take()) launch.Combine(n, worker);
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuDecode{.name = "cpu/decode",
                                .supports = cpu::Supports,
                                .prepare = MakePrepared<cpu::PreparedDecode>};

}  // namespace flashacl
