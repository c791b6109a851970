// SPDX-License-Identifier: Apache-2.0
// Cuts a forward problem into tiles, gives each its scratch memory and
// addresses, and leaves the arithmetic to the vector code.
#include <utility>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/implementations.h"
#include "cpu/support.h"
#include "cpu/work_loop.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kForward);
}

class PreparedForward final : public HostPrepared {
 public:
  PreparedForward(const AttentionProblem& problem, const DeviceInfo& device,
                  WorkspaceLayout& layout)
      : HostPrepared(problem),
        shape_(ForwardTileShape(problem, device)),
        schedule_(KnownSchedule(problem, shape_)),
        workspace_(ReserveForward(problem, shape_,
                                  SplitRowsOf(problem, schedule_, shape_),
                                  device.workers, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(schedule_, shape_);
  }

 private:
  const TileShape shape_;
  const Schedule schedule_;  // empty if lengths are on the device
  const TiledWorkspace workspace_;
};

Status PreparedForward::Run(const Bindings& bindings, std::byte* memory,
                            Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape_.cols);
  operands.ClearUnownedRows();
  const RunSchedule schedule(schedule_, operands, shape_);
  float* const splits = workspace_.splits.In(memory).data();
  const ForwardKernels kernels = Forward();

  const auto tile_of = [&](int64_t n, const ScoreScratch& score,
                           const ForwardScratch& forward) {
    return operands.TileOf(*schedule, n, {score, forward, splits});
  };
  const int64_t count = schedule->count();
  const int64_t most = workspace_.score.count();
  ForEachWorker(workers, most, count, [&](int64_t worker, auto take) {
    ScoreScratch score = workspace_.score.At(memory, worker);
    ForwardScratch forward = workspace_.forward.At(memory, worker);
    TiledScratch tiled = workspace_.tiled.At(memory, worker);
    const PackedValues values{tiled.values, tiled.value_keys};
    int64_t n = take();
    if (n == count) return;
    ForwardTile tile = tile_of(n, score, forward);
    while (true) {
      n = take();
      std::swap(score.query_rows, tiled.next_query_rows);
      std::swap(forward.quant, tiled.next_quant);
      if (n == count) return kernels.attend(tile, values, nullptr);
      const ForwardTile next = tile_of(n, score, forward);
      kernels.attend(tile, values, &next);
      tile = next;
    }
  });
  if (schedule->num_splits() == 1) return {};
  ForEachWorker(workers, most, count, [&](int64_t worker, auto take) {
    const ScoreScratch score = workspace_.score.At(memory, worker);
    const ForwardScratch forward = workspace_.forward.At(memory, worker);
    for (int64_t n = take(); n < count; n = take()) {
      const Tile cut = schedule->At(n);
      if (cut.num_splits == 1 || cut.split != 0) continue;
      kernels.combine(tile_of(n, score, forward), cut.num_splits);
    }
  });
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuForward{.name = "cpu/forward",
                                 .supports = cpu::Supports,
                                 .prepare = MakePrepared<cpu::PreparedForward>};

}  // namespace flashacl
