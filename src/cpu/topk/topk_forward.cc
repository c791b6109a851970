// SPDX-License-Identifier: Apache-2.0
// Hands out positions, reads their lists, and leaves the arithmetic to the
// vector code. Few positions split their lists.
#include <algorithm>

#include "cpu/forward/forward_operands.h"
#include "cpu/implementations.h"
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
        shape(TopKTileShape(problem, device)),
        worker_count(device.workers),
        num_splits(std::max<int64_t>(
            CeilDiv(MaxListedKeys(problem), shape.split_keys), 1)),
        workspace(ReserveTopKForward(problem, shape, worker_count, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(Schedule(), shape);
  }

  const TileShape shape;
  const int64_t worker_count;
  const int64_t num_splits;  // of every list
  const TopKForwardWorkspace workspace;
};

// One run: from numbers of items and splits to tiles.
class Launch {
 public:
  Launch(const PreparedTopKForward& prepared, const Bindings& bindings,
         std::byte* memory)
      : prepared_(prepared),
        memory_(memory),
        operands_(prepared.problem(), bindings, prepared.shape.cols),
        lists_(prepared.problem(), bindings),
        items_(prepared.problem(), operands_.sequences(), prepared.shape.rows) {
  }

  void Run(Workers& workers) const;

 private:
  // The rows of an item for one split; TileOf reads its list, too.
  ForwardTile SplitOf(int64_t number, int64_t split, int64_t worker) const;
  TopKTile TileOf(int64_t number, int64_t split, int64_t worker) const;

  const PreparedTopKForward& prepared_;
  std::byte* const memory_;
  const ForwardOperands operands_;
  const IndexLists lists_;
  const WorkItems items_;
};

ForwardTile Launch::SplitOf(int64_t number, int64_t split,
                            int64_t worker) const {
  const TopKForwardWorkspace& workspace = prepared_.workspace;
  const int64_t num_splits = prepared_.num_splits;
  const WorkItem item = items_.At(number);
  ForwardTile tile = operands_.TileOf({.sequence = item.owner.sequence,
                                       .kv_head = item.owner.kv_head,
                                       .rows = item.rows,
                                       .cols = {},
                                       .split = split,
                                       .num_splits = num_splits},
                                      workspace.score.At(memory_, worker),
                                      workspace.forward.At(memory_, worker));
  tile.keys.DropSharedValues();
  if (num_splits > 1) {
    const int64_t row =
        number * num_splits * prepared_.shape.rows + split * tile.rows;
    tile.split_out = workspace.splits.In(memory_).data() +
                     row * (prepared_.problem().v_dim + 2);
  }
  return tile;
}

TopKTile Launch::TileOf(int64_t number, int64_t split, int64_t worker) const {
  const int64_t split_keys = prepared_.shape.split_keys;
  const ListOwner owner = items_.At(number).owner;
  TopKTile topk{.tile = SplitOf(number, split, worker),
                .scratch = prepared_.workspace.listed.At(memory_, worker)};
  topk.count = lists_.Fill(
      owner, operands_.sequences()[static_cast<size_t>(owner.sequence)],
      topk.tile.band, topk.tile.keys,
      {split * split_keys, (split + 1) * split_keys}, topk.scratch.columns);
  return topk;
}

void Launch::Run(Workers& workers) const {
  const TopKForwardKernels kernels = TopKForward();
  const int64_t num_splits = prepared_.num_splits;
  const auto for_each = [&](int64_t count, auto work) {
    ForEachWorker(workers, prepared_.worker_count, count,
                  [&](int64_t worker, auto take) {
                    for (int64_t n = take(); n < count; n = take()) {
                      work(n, worker);
                    }
                  });
  };
  operands_.ClearUnownedRows();
  for_each(items_.count() * num_splits, [&](int64_t n, int64_t worker) {
    kernels.attend(TileOf(n / num_splits, n % num_splits, worker));
  });
  if (num_splits == 1) return;
  for_each(items_.count(), [&](int64_t n, int64_t worker) {
    kernels.combine(SplitOf(n, 0, worker), num_splits);
  });
}

Status PreparedTopKForward::Run(const Bindings& bindings, std::byte* memory,
                                Workers& workers) const {
  Launch(*this, bindings, memory).Run(workers);
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKForward{
    .name = "cpu/forward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTopKForward>};

}  // namespace flashacl
