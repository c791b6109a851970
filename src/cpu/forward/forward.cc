// SPDX-License-Identifier: Apache-2.0
// Cuts a forward problem into tiles, gives each its scratch memory and
// addresses, and leaves the arithmetic to the vector code.
#include "cpu/forward/forward.h"

#include <memory>
#include <utility>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/support.h"
#include "cpu/work_loop.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kForward);
}

class PreparedForward final : public Prepared {
 public:
  PreparedForward(const AttentionProblem& problem, const DeviceInfo& device,
                  WorkspaceLayout& layout)
      : Prepared(problem),
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
  const ForwardWorkspace workspace_;
};

Status PreparedForward::Run(const Bindings& bindings, std::byte* memory,
                            Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, shape_.cols);
  operands.ClearUnownedRows();
  const RunSchedule schedule(schedule_, operands, shape_);
  float* const splits = workspace_.splits.In(memory).data();
  const ForwardKernels kernels = Forward();

  const auto tile_of = [&](int64_t n, const ForwardScratch& scratch) {
    return operands.TileOf(*schedule, n, scratch, splits);
  };
  const int64_t count = schedule->count();
  const int64_t most = workspace_.scratch.count();
  ForEachWorker(workers, most, count, [&](int64_t worker, auto take) {
    ForwardScratch scratch = workspace_.scratch.At(memory, worker);
    int64_t n = take();
    if (n == count) return;
    ForwardTile tile = tile_of(n, scratch);
    while (true) {
      n = take();
      std::swap(scratch.query_rows, scratch.next_query_rows);
      std::swap(scratch.quant, scratch.next_quant);
      if (n == count) return kernels.attend(tile, nullptr);
      const ForwardTile next = tile_of(n, scratch);
      kernels.attend(tile, &next);
      tile = next;
    }
  });
  if (schedule->num_splits() == 1) return {};
  ForEachWorker(workers, most, count, [&](int64_t worker, auto take) {
    const ForwardScratch scratch = workspace_.scratch.At(memory, worker);
    for (int64_t n = take(); n < count; n = take()) {
      const Tile cut = schedule->At(n);
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
                                 .prepare = MakePrepared<cpu::PreparedForward>};

}  // namespace flashacl
