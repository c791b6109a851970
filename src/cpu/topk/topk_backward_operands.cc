// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/topk/topk_backward_operands.h"

#include <algorithm>
#include <cstring>

#include "cpu/forward/forward_operands.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

GradShape ShapeOf(const AttentionProblem& problem, const GradCut& cut) {
  GradShape shape;
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
  shape.wants_keys = cut.slices() > 0;
  shape.query = RowFormat(problem[Slot::kQuery]);
  shape.query_rope = RowFormat(problem[Slot::kQueryRope]);
  shape.out = RowFormat(problem[Slot::kOut]);
  shape.grad_out = RowFormat(problem[Slot::kGradOut]);
  shape.grad_query = RowFormat(problem[Slot::kGradQuery]);
  shape.grad_query_rope = RowFormat(problem[Slot::kGradQueryRope]);
  return shape;
}

}  // namespace

const GradUnit& GradWave::UnitOf(int64_t position) const {
  return *std::upper_bound(units.begin(), units.end(), position,
                           [](int64_t one, const GradUnit& unit) {
                             return one < unit.positions.last;
                           });
}

GradRun::GradRun(const AttentionProblem& problem, const Bindings& bindings,
                 const GradCut& cut)
    : problem_(problem),
      bindings_(bindings),
      cut_(cut),
      sequences_(ResolveSequences(problem, bindings)),
      row_max_(problem[Slot::kRowMax], sequences_),
      row_sum_(problem[Slot::kRowSum], sequences_),
      lists_(problem, bindings),
      shape_(ShapeOf(problem, cut)) {}

std::vector<GradWave> GradRun::Waves() const {
  std::vector<GradWave> waves;
  for (size_t b = 0; b < sequences_.size(); ++b) {
    const Sequence& extent = sequences_[b];
    for (int64_t g = 0; g < problem_.kv_heads; ++g) {
      const int64_t columns = extent.columns();
      if (waves.empty() || waves.back().rows() + columns > cut_.rows) {
        waves.emplace_back();
      }
      GradWave& wave = waves.back();
      const int64_t row = wave.rows(), position = wave.positions();
      wave.units.push_back({static_cast<int64_t>(b),
                            g,
                            {row, row + columns},
                            {position, position + extent.rows()}});
    }
  }
  return waves;
}

bool GradRun::EveryRowIsSomebodys(Slot slot, Range Sequence::*side) const {
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

void GradRun::ClearRowsOfNobody() const {
  const auto clear = [&](Slot slot, Range Sequence::*side) {
    if (!problem_.has(slot) || EveryRowIsSomebodys(slot, side)) return;
    ClearElements(problem_[slot], bindings_[slot]);
  };
  clear(Slot::kGradQuery, &Sequence::queries);
  clear(Slot::kGradQueryRope, &Sequence::queries);
  clear(Slot::kGradKey, &Sequence::keys);
  clear(Slot::kGradKeyRope, &Sequence::keys);
  clear(Slot::kGradValue, &Sequence::keys);
}

std::byte* GradRun::RowAt(Slot slot, int64_t sequence, int64_t row,
                          int64_t head) const {
  const TensorSpec& spec = problem_[slot];
  if (!spec.present()) return nullptr;
  return bindings_[slot] + spec.At(sequence, row, head) * SizeOf(spec.dtype);
}

float GradRun::StatisticAt(Slot slot, const Grid& grid, const ListOwner& owner,
                           int64_t head) const {
  const int64_t at = grid.Plane(owner.sequence, head).At(owner.position, 0);
  float value;
  std::memcpy(&value, bindings_[slot] + at * 4, sizeof(value));
  return value;
}

GradItem GradRun::ItemOf(const GradUnit& unit, int64_t position,
                         const GradScratch& scratch) const {
  const Sequence& extent = ExtentOf(unit);
  const ListOwner owner{unit.sequence, unit.kv_head,
                        position - unit.positions.first};
  const int64_t row = extent.queries.first + owner.position;
  for (int64_t h = 0; h < shape_.heads; ++h) {
    const int64_t head = unit.kv_head * shape_.heads + h;
    const auto at = [&](Slot slot) {
      return RowAt(slot, unit.sequence, row, head);
    };
    scratch.lanes[h] = {
        .query = at(Slot::kQuery),
        .query_rope = at(Slot::kQueryRope),
        .out = at(Slot::kOut),
        .grad_out = at(Slot::kGradOut),
        .grad_query = at(Slot::kGradQuery),
        .grad_query_rope = at(Slot::kGradQueryRope),
        .max = StatisticAt(Slot::kRowMax, row_max_, owner, head),
        .sum = StatisticAt(Slot::kRowSum, row_sum_, owner, head)};
  }
  GradItem item;
  item.shape = &shape_;
  item.keys = KeyRows(problem_, bindings_, extent, unit.sequence, unit.kv_head);
  item.scratch = scratch;
  if (item.keys.ValuesAreKeys()) {
    item.keys.value.base = nullptr;
    item.scratch.values = scratch.keys;
    item.scratch.value_stride = scratch.key_stride;
  }
  return item;
}

void GradRun::ListColumns(const GradUnit& unit, int64_t position, int64_t part,
                          int64_t* bucket_ends, GradItem& item) const {
  const Sequence& extent = ExtentOf(unit);
  const ListOwner owner{unit.sequence, unit.kv_head,
                        position - unit.positions.first};
  const Band band =
      problem_.mask.BandOf(unit.sequence, extent.rows(), extent.columns());
  const int64_t last =
      std::min((part + 1) * cut_.entries, MostListed(problem_));
  int64_t* const listed = item.scratch.columns;
  item.count = lists_.Fill(owner, extent, band, item.keys,
                           {part * cut_.entries, last}, listed);
  // Sorted by counting, in the order of the list inside a bucket.
  std::fill_n(bucket_ends, cut_.buckets, 0);
  for (int64_t n = 0; n < item.count; ++n) {
    ++bucket_ends[listed[n] / cut_.bucket_rows];
  }
  int64_t end = 0;
  for (int64_t k = 0; k < cut_.buckets; ++k) {
    const int64_t size = bucket_ends[k];
    bucket_ends[k] = end;
    end += size;
  }
  for (int64_t n = 0; n < item.count; ++n) {
    const int64_t k = listed[n] / cut_.bucket_rows;
    item.record.columns[bucket_ends[k]++] = listed[n];
  }
}

void GradRun::ForPieces(const GradUnit& unit, int64_t column, int64_t slice,
                        StorePiece store) const {
  const int64_t row = ExtentOf(unit).keys.first + column;
  const bool value = slice >= cut_.key_slices;
  const int64_t first =
      (value ? slice - cut_.key_slices : slice) * cut_.slice_channels;
  const Range channels{first, first + cut_.slice_channels};
  // Of a tensor whose channel 0 is channel `start`.
  const auto piece = [&](Slot slot, int64_t start, int64_t count) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    const Range part{std::max(channels.first, start),
                     std::min(channels.last, start + count)};
    if (part.empty()) return;
    const RowFormat format(spec);
    store(format, part.first - first, part.size(),
          RowAt(slot, unit.sequence, row, unit.kv_head) +
              (part.first - start) * format.step * format.element_bytes);
  };
  if (value) return piece(Slot::kGradValue, 0, shape_.v_dim);
  piece(Slot::kGradKey, 0, shape_.qk_dim);
  piece(Slot::kGradKeyRope, shape_.qk_dim, shape_.rope_dim);
}

}  // namespace flashacl::cpu
