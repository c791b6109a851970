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
      bindings_(bindings),
      tiling_(tiling),
      forward_(problem, bindings, tiling.step_keys),
      lists_(problem, bindings),
      params_{.step_keys = tiling.step_keys,
              .head_stride = tiling.head_stride,
              .wants_query = problem.has(Slot::kGradQuery) ||
                             problem.has(Slot::kGradQueryRope),
              .wants_keys = tiling.d_blocks() > 0,
              .out = ElementFormat(problem[Slot::kOut]),
              .grad_out = ElementFormat(problem[Slot::kGradOut]),
              .grad_query = ElementFormat(problem[Slot::kGradQuery]),
              .grad_query_rope = ElementFormat(problem[Slot::kGradQueryRope])} {
}

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

void TopKBackwardOperands::ClearUnownedRows() const {
  const auto clear = [&](Slot slot, Range Sequence::*side) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    if (AllRowsOwned(spec, forward_.sequences(), side)) return;
    ClearElements(spec, bindings_[slot]);
  };
  clear(Slot::kGradQuery, &Sequence::queries);
  clear(Slot::kGradQueryRope, &Sequence::queries);
  clear(Slot::kGradKey, &Sequence::keys);
  clear(Slot::kGradKeyRope, &Sequence::keys);
  clear(Slot::kGradValue, &Sequence::keys);
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
                          .params = &params_,
                          .scratch = memory.scratch,
                          .saved = memory.saved,
                          .grad_query = memory.grad_query,
                          .first_split = split == 0,
                          .last_split = split + 1 == tiling_.num_splits};
  forward_.FillGradRows(owner.sequence, item.scores, item.scratch.grad_rows);
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
      owner, ExtentOf(owner.sequence), tile.band, tile.keys,
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
  const int64_t row = ExtentOf(sequence_head.sequence).keys.first + column;
  const int64_t first = tiling_.FirstChannelOf(d_block);
  // Of a tensor whose channel 0 is channel `start` of the key or value.
  const auto piece = [&](Slot slot, int64_t start) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    const Range part{
        std::max(first, start),
        std::min(first + tiling_.d_block_channels, start + spec.dims[3])};
    if (part.empty()) return;
    const ElementFormat format(spec);
    store(format, part.first - first, part.size(),
          forward_.RowAt(slot, sequence_head.sequence, row,
                         sequence_head.kv_head) +
              (part.first - start) * format.step * format.element_bytes);
  };
  if (tiling_.OfValues(d_block)) return piece(Slot::kGradValue, 0);
  piece(Slot::kGradKey, 0);
  piece(Slot::kGradKeyRope, problem_.qk_dim);
}

}  // namespace flashacl::cpu
