// SPDX-License-Identifier: Apache-2.0
// Few heads and their listed keys, as cpu/decode computes few rows: keys are
// read where they lie, each once for all heads.
#include "cpu/decode/decode_tiles.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/implementations.h"
#include "cpu/support.h"
#include "cpu/topk/few_heads.h"
#include "cpu/topk/prepared_lists.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/tuning.h"

namespace flashacl {
namespace cpu {
namespace {

Status HasHeads(int64_t most, const AttentionProblem& problem) {
  const int64_t heads = problem.group();
  if (heads <= most) return {};
  return Unsupported("{} heads per kv head are more than {}", heads, most);
}

Status SupportsFewHeads(const AttentionProblem& problem, const DeviceInfo&) {
  FLASHACL_RETURN_IF_ERROR(SupportsLists(problem, Direction::kForward));
  return HasHeads(kDecodeRows, problem);
}

Status SuitsFewHeads(const AttentionProblem& problem,
                     const DeviceInfo& device) {
  const int64_t most = MostFewHeads(device);
  if (most == 0) return Unsupported("was not measured on such processors");
  return HasHeads(most, problem);
}

struct ListedColumns {
  int64_t* columns;  // of a split of a list
};

// The same as TopKForwardItems, of few heads.
class TopKDecodeItems {
 public:
  TopKDecodeItems(const AttentionProblem& problem, const DeviceInfo& device,
                  WorkspaceLayout& layout)
      : shape_(TopKDecodeShape(problem, device)),
        whole_matrices_(MatrixTerms(problem) == 1),
        allows_int16_(problem.score.half_probs),
        workspace_(ReserveDecode(problem, shape_, {.workers = device.workers},
                                 layout)),
        listed_({}, device.workers) {
    listed_.Add("columns", {&ListedColumns::columns}, shape_.split_keys,
                layout);
  }

  const TileShape& shape() const { return shape_; }
  int64_t workers() const { return listed_.count(); }

  class Launch {
   public:
    Launch(const TopKDecodeItems& items, const ForwardOperands& operands,
           std::byte* memory)
        : items_(items),
          operands_(operands),
          memory_(memory),
          products_(DecodeProducts::Choose(items.whole_matrices_,
                                           items.allows_int16_)) {}

    ForwardTile TileOf(const Tile& cut, int64_t worker) const {
      const DecodeWorkspace& workspace = items_.workspace_;
      ForwardTile tile =
          operands_.TileOf(cut, workspace.score.At(memory_, worker),
                           workspace.forward.At(memory_, worker));
      tile.keys.DropSharedValues();
      return tile;
    }

    int64_t* columns(int64_t worker) const {
      return items_.listed_.At(memory_, worker).columns;
    }

    // All rows see all columns of the list.
    void Attend(const ForwardTile& tile, int64_t count, int64_t worker) const {
      DecodeArgs args =
          products_.ArgsOf(tile, items_.workspace_.decode.At(memory_, worker));
      args.tile.keys.List(columns(worker));
      args.tile.band = {};
      args.tile.cols = {0, count};
      Decode().attend(&args, 1, items_.shape_.split_keys);
    }

    void Combine(const ForwardTile& tile, int64_t num_splits) const {
      Decode().combine(tile, num_splits);
    }

   private:
    const TopKDecodeItems& items_;
    const ForwardOperands& operands_;
    std::byte* const memory_;
    const DecodeProducts products_;
  };

 private:
  const TileShape shape_;
  const bool whole_matrices_, allows_int16_;  // as DecodeProducts has them
  const DecodeWorkspace workspace_;
  ScratchLayout<ListedColumns> listed_;
};

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKDecode{
    .name = "cpu/decode/topk",
    .supports = cpu::SupportsFewHeads,
    .prepare = MakePrepared<cpu::PreparedLists<cpu::TopKDecodeItems>>,
    .suits = cpu::SuitsFewHeads};

}  // namespace flashacl
