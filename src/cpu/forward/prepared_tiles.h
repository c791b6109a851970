// SPDX-License-Identifier: Apache-2.0
// A problem all of whose sequences go to one kind of tiles.
#pragma once

#include <algorithm>
#include <string>

#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/implementations.h"
#include "cpu/tile_costs.h"
#include "cpu/work_loop.h"
#include "plan/implementation.h"
#include "plan/sequences.h"

namespace flashacl::cpu {

// `Tiles` is ForwardTiles or has what that has.
template <typename Tiles>
class PreparedTiles final : public HostPrepared {
 public:
  PreparedTiles(const AttentionProblem& problem, const DeviceInfo& device,
                WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGflops),
        workers_(device.workers),
        tiles_(problem, device, TileShape::kAnyRows, layout),
        splits_(ReserveSplits(
            problem, SplitRowsOf(problem, tiles_.schedule(), tiles_.shape()),
            layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override {
    const ForwardOperands operands(problem(), bindings, tiles_.shape().cols);
    operands.ClearUnownedRows();
    const typename Tiles::Launch launch(tiles_, operands, memory,
                                        splits_.In(memory).data());
    const int64_t count = launch.schedule().count();
    ForEachWorker(workers, workers_, count, [&](int64_t worker, auto take) {
      launch.Attend(worker, take);
    });
    if (launch.schedule().num_splits() == 1) return {};
    ForEachWorker(workers, workers_, count, [&](int64_t worker, auto take) {
      launch.Combine(worker, take);
    });
    return {};
  }

  std::string Describe() const override {
    return flashacl::Describe(tiles_.schedule(), tiles_.shape());
  }

  Balance Predict(int64_t workers) const override {
    if (!SequencesAreKnown(problem())) return {};
    Rehearsal rehearsal(std::min(workers, workers_));
    Rehearse(TileCosts(problem()), tiles_.schedule(), tiles_.piece(),
             rehearsal);
    return rehearsal.result();
  }

 private:
  const int64_t workers_;
  const Tiles tiles_;
  const Region<float> splits_;  // [split row, v_dim + 2]
};

}  // namespace flashacl::cpu
