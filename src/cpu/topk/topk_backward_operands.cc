// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/topk/topk_backward_operands.h"

#include <algorithm>
#include <numeric>

namespace flashacl::cpu {

const TopKBackwardSequenceHead& TopKBackwardBatch::SequenceHeadOf(
    int64_t position) const {
  return *std::upper_bound(
      sequence_heads.begin(), sequence_heads.end(), position,
      [](int64_t one, const TopKBackwardSequenceHead& sequence_head) {
        return one < sequence_head.positions.last;
      });
}

TopKBackwardOperands::TopKBackwardOperands(const AttentionProblem& problem,
                                           const Bindings& bindings,
                                           const TopKBackwardTiling& tiling)
    : problem_(problem),
      tiling_(tiling),
      forward_(problem, bindings, tiling.step_keys),
      lists_(problem, bindings),
      params_{.step_keys = tiling.step_keys,
              .head_stride = tiling.head_stride,
              .wants_query = problem.has(Slot::kGradQuery) ||
                             problem.has(Slot::kGradQueryRope),
              .wants_keys = tiling.d_blocks() > 0} {}

RunVector<TopKBackwardBatch> TopKBackwardOperands::Batches() const {
  RunVector<TopKBackwardBatch> batches;
  int64_t sequence = 0;
  for (const Sequence& extent : forward_.sequences()) {
    const int64_t columns = extent.columns();
    for (int64_t g = 0; g < problem_.kv_heads; ++g) {
      if (batches.empty() ||
          batches.back().rows() + columns > tiling_.batch_rows) {
        batches.emplace_back();
      }
      TopKBackwardBatch& batch = batches.back();
      const int64_t row = batch.rows(), position = batch.positions();
      batch.sequence_heads.push_back({sequence,
                                      g,
                                      {row, row + columns},
                                      {position, position + extent.rows()}});
    }
    ++sequence;
  }
  return batches;
}

TopKBackwardDqItem TopKBackwardOperands::DqItemOf(
    const ListOwner& owner, int64_t split,
    const TopKBackwardMemory& memory) const {
  const int64_t group = problem_.group();
  const Tile heads{
      .sequence = owner.sequence,
      .kv_head = owner.kv_head,
      .rows = {owner.position * group, (owner.position + 1) * group},
      .cols = {}};
  TopKBackwardDqItem item{.scores = forward_.ScoreTileOf(heads, memory.score),
                          .grad_rows = forward_.GradRowsOf(owner.sequence),
                          .params = &params_,
                          .scratch = memory.scratch,
                          .saved = memory.saved,
                          .grad_query = memory.grad_query,
                          .first_split = split == 0,
                          .last_split = split + 1 == tiling_.num_splits};
  item.scores.keys.DropSharedValues();
  item.count = ListKeys(owner, split, item);
  return item;
}

int64_t TopKBackwardOperands::ListKeys(const ListOwner& owner, int64_t split,
                                       const TopKBackwardDqItem& item) const {
  const ScoreTile& tile = item.scores;
  int64_t* const listed = item.scratch.columns;
  int64_t* const ends = item.saved.kv_block_ends;
  const int64_t count = lists_.Fill(
      owner, forward_.sequences()[static_cast<size_t>(owner.sequence)],
      tile.band, tile.keys,
      {split * tiling_.split_keys, (split + 1) * tiling_.split_keys}, listed);
  // Sorted by counting, in the order of the list inside a kv block.
  std::fill_n(ends, tiling_.kv_blocks, 0);
  for (int64_t n = 0; n < count; ++n) ++ends[listed[n] / tiling_.kv_block_rows];
  std::exclusive_scan(ends, ends + tiling_.kv_blocks, ends, int64_t{0});
  for (int64_t n = 0; n < count; ++n) {
    item.saved.columns[ends[listed[n] / tiling_.kv_block_rows]++] = listed[n];
  }
  return count;
}

void TopKBackwardOperands::ForPieces(
    const TopKBackwardSequenceHead& sequence_head, int64_t column,
    int64_t d_block, StorePiece store) const {
  const int64_t first = tiling_.FirstChannelOf(d_block);
  // Of a tensor whose channel 0 is channel `start` of the key or value.
  const auto piece = [&](Slot slot, int64_t start) {
    if (!problem_.has(slot)) return;
    const Range part{std::max(first, start),
                     std::min(first + tiling_.d_block_channels,
                              start + problem_[slot].dims[3])};
    if (part.empty()) return;
    const TensorRows rows =
        forward_.RowsOf(slot, sequence_head.sequence, &Sequence::keys);
    store(rows.format, part.first - first, part.size(),
          rows.At(column, sequence_head.kv_head) +
              (part.first - start) * rows.format.step *
                  rows.format.element_bytes);
  };
  if (tiling_.OfValues(d_block)) return piece(Slot::kGradValue, 0);
  piece(Slot::kGradKey, 0);
  piece(Slot::kGradKeyRope, problem_.qk_dim);
}

}  // namespace flashacl::cpu
