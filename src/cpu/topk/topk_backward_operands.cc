// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/topk/topk_backward_operands.h"

#include <algorithm>
#include <cstring>

#include "cpu/forward/forward_operands.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

TopKBackwardParams ShapeOf(const AttentionProblem& problem,
                           const TopKBackwardTiling& cut) {
  TopKBackwardParams shape;
  shape.qk_dim = problem.qk_dim;
  shape.rope_dim = problem.rope_dim;
  shape.v_dim = problem.v_dim;
  shape.heads = problem.group();
  shape.lanes = cut.heads;
  shape.head_stride = cut.head_stride;
  shape.step = cut.step;
  shape.scale = problem.score.scale;
  shape.wants_query =
      problem.has(Slot::kGradQuery) || problem.has(Slot::kGradQueryRope);
  shape.wants_keys = cut.d_blocks() > 0;
  shape.query = ElementFormat(problem[Slot::kQuery]);
  shape.query_rope = ElementFormat(problem[Slot::kQueryRope]);
  shape.out = ElementFormat(problem[Slot::kOut]);
  shape.grad_out = ElementFormat(problem[Slot::kGradOut]);
  shape.grad_query = ElementFormat(problem[Slot::kGradQuery]);
  shape.grad_query_rope = ElementFormat(problem[Slot::kGradQueryRope]);
  return shape;
}

}  // namespace

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
                                           const TopKBackwardTiling& cut)
    : problem_(problem),
      bindings_(bindings),
      cut_(cut),
      sequences_(ResolveSequences(problem, bindings)),
      row_max_(problem[Slot::kRowMax], sequences_),
      row_sum_(problem[Slot::kRowSum], sequences_),
      lists_(problem, bindings),
      shape_(ShapeOf(problem, cut)) {}

std::vector<TopKBackwardBatch> TopKBackwardOperands::Batches() const {
  std::vector<TopKBackwardBatch> batches;
  for (size_t b = 0; b < sequences_.size(); ++b) {
    const Sequence& extent = sequences_[b];
    for (int64_t g = 0; g < problem_.kv_heads; ++g) {
      const int64_t columns = extent.columns();
      if (batches.empty() || batches.back().rows() + columns > cut_.rows) {
        batches.emplace_back();
      }
      TopKBackwardBatch& batch = batches.back();
      const int64_t row = batch.rows(), position = batch.positions();
      batch.sequence_heads.push_back({static_cast<int64_t>(b),
                                      g,
                                      {row, row + columns},
                                      {position, position + extent.rows()}});
    }
  }
  return batches;
}

bool TopKBackwardOperands::AllRowsOwned(Slot slot,
                                        Range Sequence::*side) const {
  const TensorSpec& spec = problem_[slot];
  if (spec.strides[0] != 0 || spec.dims[0] > 1) {
    return spec.dims[0] == static_cast<int64_t>(sequences_.size()) &&
           std::all_of(sequences_.begin(), sequences_.end(),
                       [&](const Sequence& sequence) {
                         return (sequence.*side).size() == spec.dims[1];
                       });
  }
  int64_t rows = 0;
  for (const Sequence& sequence : sequences_) rows += (sequence.*side).size();
  return rows == spec.dims[1];
}

void TopKBackwardOperands::ClearUnownedRows() const {
  const auto clear = [&](Slot slot, Range Sequence::*side) {
    if (!problem_.has(slot) || AllRowsOwned(slot, side)) return;
    ClearElements(problem_[slot], bindings_[slot]);
  };
  clear(Slot::kGradQuery, &Sequence::queries);
  clear(Slot::kGradQueryRope, &Sequence::queries);
  clear(Slot::kGradKey, &Sequence::keys);
  clear(Slot::kGradKeyRope, &Sequence::keys);
  clear(Slot::kGradValue, &Sequence::keys);
}

std::byte* TopKBackwardOperands::RowAt(Slot slot, int64_t sequence, int64_t row,
                                       int64_t head) const {
  const TensorSpec& spec = problem_[slot];
  if (!spec.present()) return nullptr;
  return bindings_[slot] + spec.At(sequence, row, head) * SizeOf(spec.dtype);
}

float TopKBackwardOperands::StatisticAt(Slot slot, const Grid& grid,
                                        const ListOwner& owner,
                                        int64_t head) const {
  const int64_t at = grid.Plane(owner.sequence, head).At(owner.position, 0);
  float value;
  std::memcpy(&value, bindings_[slot] + at * 4, sizeof(value));
  return value;
}

TopKBackwardDqItem TopKBackwardOperands::ItemOf(
    const TopKBackwardSequenceHead& sequence_head, int64_t position,
    const TopKBackwardScratch& scratch) const {
  const Sequence& extent = ExtentOf(sequence_head);
  const ListOwner owner{sequence_head.sequence, sequence_head.kv_head,
                        position - sequence_head.positions.first};
  const int64_t row = extent.queries.first + owner.position;
  for (int64_t h = 0; h < shape_.heads; ++h) {
    const int64_t head = sequence_head.kv_head * shape_.heads + h;
    const auto at = [&](Slot slot) {
      return RowAt(slot, sequence_head.sequence, row, head);
    };
    scratch.query_rows[h] = {
        .query = at(Slot::kQuery),
        .query_rope = at(Slot::kQueryRope),
        .out = at(Slot::kOut),
        .grad_out = at(Slot::kGradOut),
        .grad_query = at(Slot::kGradQuery),
        .grad_query_rope = at(Slot::kGradQueryRope),
        .max = StatisticAt(Slot::kRowMax, row_max_, owner, head),
        .sum = StatisticAt(Slot::kRowSum, row_sum_, owner, head)};
  }
  TopKBackwardDqItem item;
  item.shape = &shape_;
  item.keys = KvRows(problem_, bindings_, extent, sequence_head.sequence,
                     sequence_head.kv_head);
  item.scratch = scratch;
  if (problem_.kv.value_is_key || item.keys.ValuesAreKeys()) {
    item.keys.value.base = nullptr;
    item.scratch.values = scratch.keys;
    item.scratch.value_stride = scratch.key_stride;
  }
  return item;
}

void TopKBackwardOperands::ListKeys(
    const TopKBackwardSequenceHead& sequence_head, int64_t position,
    int64_t split, TopKBackwardDqItem& item) const {
  const Sequence& extent = ExtentOf(sequence_head);
  const ListOwner owner{sequence_head.sequence, sequence_head.kv_head,
                        position - sequence_head.positions.first};
  const Band band = problem_.mask.BandOf(sequence_head.sequence, extent.rows(),
                                         extent.columns());
  const int64_t last =
      std::min((split + 1) * cut_.listed_keys, MaxListedKeys(problem_));
  int64_t* const listed = item.scratch.columns;
  int64_t* const kv_block_ends = item.saved.kv_block_ends;
  item.count = lists_.Fill(owner, extent, band, item.keys,
                           {split * cut_.listed_keys, last}, listed);
  // Sorted by counting, in the order of the list inside a kv block.
  std::fill_n(kv_block_ends, cut_.kv_blocks, 0);
  for (int64_t n = 0; n < item.count; ++n) {
    ++kv_block_ends[listed[n] / cut_.kv_block_rows];
  }
  int64_t end = 0;
  for (int64_t k = 0; k < cut_.kv_blocks; ++k) {
    const int64_t size = kv_block_ends[k];
    kv_block_ends[k] = end;
    end += size;
  }
  for (int64_t n = 0; n < item.count; ++n) {
    const int64_t k = listed[n] / cut_.kv_block_rows;
    item.saved.columns[kv_block_ends[k]++] = listed[n];
  }
}

void TopKBackwardOperands::ForPieces(
    const TopKBackwardSequenceHead& sequence_head, int64_t column,
    int64_t d_block, StorePiece store) const {
  const int64_t row = ExtentOf(sequence_head).keys.first + column;
  const bool value = d_block >= cut_.key_d_blocks;
  const int64_t first =
      (value ? d_block - cut_.key_d_blocks : d_block) * cut_.d_block_channels;
  const Range channels{first, first + cut_.d_block_channels};
  // Of a tensor whose channel 0 is channel `start`.
  const auto piece = [&](Slot slot, int64_t start, int64_t count) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    const Range part{std::max(channels.first, start),
                     std::min(channels.last, start + count)};
    if (part.empty()) return;
    const ElementFormat format(spec);
    store(format, part.first - first, part.size(),
          RowAt(slot, sequence_head.sequence, row, sequence_head.kv_head) +
              (part.first - start) * format.step * format.element_bytes);
  };
  if (value) return piece(Slot::kGradValue, 0, shape_.v_dim);
  piece(Slot::kGradKey, 0, shape_.qk_dim);
  piece(Slot::kGradKeyRope, shape_.qk_dim, shape_.rope_dim);
}

}  // namespace flashacl::cpu
