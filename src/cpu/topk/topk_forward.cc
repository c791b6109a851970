// SPDX-License-Identifier: Apache-2.0
// Prepares the items of many heads, and leaves the arithmetic to the vector
// code.
#include "cpu/forward/forward_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/support.h"
#include "cpu/topk/prepared_lists.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "cpu/topk/topk_forward_workspace.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsLists(problem, Direction::kForward);
}

// Positions with all heads of a kv head, or some.
class TopKForwardItems {
 public:
  TopKForwardItems(const AttentionProblem& problem, const DeviceInfo& device,
                   WorkspaceLayout& layout)
      : matrices_(TakesMatrices(problem, TopKForward())),
        shape_(TopKTileShape(problem, device, matrices_)),
        workspace_(ReserveTopKForward(problem, shape_, device.workers, layout,
                                      matrices_)) {}

  const TileShape& shape() const { return shape_; }
  // Each has scratch memory of its own.
  int64_t workers() const { return workspace_.score.count(); }

  class Launch {
   public:
    Launch(const TopKForwardItems& items, const ForwardOperands& operands,
           std::byte* memory)
        : items_(items),
          operands_(operands),
          memory_(memory),
          kernels_(TopKForward()),
          dots_(ChoosePairDots(kernels_.has_pair_dots)) {}

    // The rows of a cut, whose keys are still to be listed.
    ForwardTile TileOf(const Tile& cut, int64_t worker) const;

    // Where a worker's columns of a split are to be.
    int64_t* columns(int64_t worker) const {
      return items_.workspace_.listed.At(memory_, worker).columns;
    }

    // `count` columns are there.
    void Attend(const ForwardTile& tile, int64_t count, int64_t worker) const {
      kernels_.attend(
          {tile, items_.workspace_.listed.At(memory_, worker), count});
    }

    void Combine(const ForwardTile& tile, int64_t num_splits) const {
      Forward().combine(tile, num_splits);
    }

   private:
    const TopKForwardItems& items_;
    const ForwardOperands& operands_;
    std::byte* const memory_;
    const TopKForwardKernels kernels_;
    const PairDots dots_;
  };

 private:
  const bool matrices_;
  const TileShape shape_;
  const TopKForwardWorkspace workspace_;
};

ForwardTile TopKForwardItems::Launch::TileOf(const Tile& cut,
                                             int64_t worker) const {
  const TopKForwardWorkspace& workspace = items_.workspace_;
  ForwardTile tile = operands_.TileOf(cut, workspace.score.At(memory_, worker),
                                      workspace.forward.At(memory_, worker));
  // Where probs multiply floats, keys that are pairs are loaded as floats, too.
  if (items_.matrices_) {
    UsePairs(PairDots::kMatrices, tile);
  } else if (ArePairs(tile)) {
    tile.dots = dots_;
  }
  if (items_.matrices_ || tile.dots == PairDots::kNone ||
      ValuesArePairs(tile)) {
    tile.keys.DropSharedValues();
  } else {
    tile.keys.NameSharedValues();
  }
  return tile;
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKForward{
    .name = "cpu/forward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedLists<cpu::TopKForwardItems>>};

}  // namespace flashacl
