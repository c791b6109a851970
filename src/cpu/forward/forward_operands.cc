// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/forward/forward_operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/number.h"
#include "cpu/pair_format.h"
#include "plan/sequences.h"
#include "problem/element_walk.h"

namespace flashacl::cpu {
namespace {

float ElementOf(DType dtype, const std::byte* at) {
  if (dtype == DType::kU64) {
    // The pattern of an f32 in the low half, of which 19 bits count.
    const auto bits = static_cast<uint32_t>(Load<uint64_t>(at));
    return std::bit_cast<float>(bits & 0xFFFFE000u);
  }
  return static_cast<float>(ReadNumber(dtype, at));
}

// Bytes or bits from column to column; the same for all rows of a grid.
int64_t ColumnStep(const Grid& grid) {
  return grid.present() ? grid.Plane(0, 0).column_stride : 0;
}

RunVector<Sequence> SequencesOf(const AttentionProblem& problem,
                                const Bindings& bindings) {
  const std::vector<Sequence>& own = problem.lengths.sequences;
  RunVector<Sequence> sequences(own.begin(), own.end());
  NarrowSequences(problem, bindings, sequences);
  return sequences;
}

// Whether every row of a tensor belongs to a sequence.
bool AllRowsOwned(const TensorSpec& spec, std::span<const Sequence> sequences,
                  Range Sequence::*side) {
  if (spec.strides[0] != 0) {
    return static_cast<int64_t>(sequences.size()) == spec.dims[0] &&
           std::all_of(sequences.begin(), sequences.end(),
                       [&](const Sequence& sequence) {
                         return (sequence.*side).size() == spec.dims[1];
                       });
  }
  int64_t rows = 0;
  for (const Sequence& sequence : sequences) rows += (sequence.*side).size();
  return rows == spec.dims[1];
}

}  // namespace

bool ArePairs(const ScoreTile& tile) {
  const ScoreParams& params = *tile.params;
  const RowSource& key = tile.keys.key;
  if (!ArePairs(params.query, params.qk_dim) ||
      !ArePairs(key.format, key.channels) || key.quant.scale != nullptr ||
      key.scaled_by_row() || tile.scratch.query_rows->query_scale != nullptr) {
    return false;
  }
  return params.rope_dim == 0 ||
         (ArePairs(params.query_rope, params.rope_dim) &&
          ArePairs(tile.keys.rope.format, tile.keys.rope.channels));
}

namespace {

// Whether scales are such that sums of integers can wait for them.
bool CanWait(const float* scale, int64_t count) {
  return scale == nullptr || std::all_of(scale, scale + count, [](float x) {
           return std::fabs(x) < 0x1p64f;
         });
}

// Lets keys and values of a tile stay integers where they may, as
// TileMatrixTerms said but for what scales are. Queries take scales of
// channels: floats are three terms of bf16.
bool UseIntegers(ForwardTile& tile) {
  const RowSource& key = tile.keys.key;
  const float* const scale = key.quant.scale;
  if (!CanWait(scale, key.channels) ||
      !CanWait(tile.keys.values().quant.scale, tile.params->v_dim)) {
    return false;
  }
  tile.integers = true;
  tile.query_terms = tile.params->query.dtype == DType::kF16 ? 2 : 1;
  if (scale != nullptr && std::any_of(scale, scale + key.channels,
                                      [&](float x) { return x != *scale; })) {
    tile.query_terms = 3;
  }
  return true;
}

}  // namespace

void UsePairs(PairDots dots, ForwardTile& tile) {
  const bool matrices = dots == PairDots::kMatrices;  // MatrixTerms said so
  if (dots == PairDots::kNone || (!matrices && !ArePairs(tile))) return;
  const bool integers = IsQuantised(tile.keys.key.format.dtype);
  if (integers && !UseIntegers(tile)) return;
  tile.dots = dots;
  const bool terms = matrices && !integers;
  if (terms && tile.params->query.dtype == DType::kF16) tile.terms = 2;
  // Values have the type of keys, and, unless they are integers, no scales.
  tile.pairs_of_keys = tile.forward_params->bf16_probs;
}

bool ArePairs(const ScoreTile& tile, const GradRows& rows) {
  const int64_t v_dim = tile.params->v_dim;
  const RowSource& value = tile.keys.values();
  return ArePairs(tile) && ArePairs(value.format, v_dim) &&
         ArePairs(rows.grad_out.format, v_dim);
}

void ClearElements(const TensorSpec& spec, std::byte* base, int64_t end) {
  const int64_t bytes = SizeOf(spec.dtype);
  ForEachRun(spec, end, [&](int64_t offset, int64_t count) {
    std::memset(base + offset * bytes, 0, static_cast<size_t>(count * bytes));
  });
}

ForwardOperands::ForwardOperands(const AttentionProblem& problem,
                                 const Bindings& bindings, int64_t step_keys)
    : problem_(problem),
      bindings_(bindings),
      sequences_(SequencesOf(problem, bindings)),
      mask_(problem[Slot::kMask], sequences_),
      bias_(IsAlibi(problem.score.bias) ? TensorSpec{} : problem[Slot::kBias],
            sequences_),
      keep_(problem[Slot::kKeep], sequences_),
      row_max_(problem[Slot::kRowMax], sequences_),
      row_sum_(problem[Slot::kRowSum], sequences_),
      lse_(problem[Slot::kLse], sequences_) {
  forward_params_.step_keys = step_keys;
  FillScoreParams();
  FillForwardParams();
}

void ForwardOperands::FillScoreParams() {
  const Score& score = problem_.score;
  ScoreParams& params = score_params_;
  params.qk_dim = problem_.qk_dim;
  params.rope_dim = problem_.rope_dim;
  params.v_dim = problem_.v_dim;
  params.scale = score.scale;
  params.alibi = IsAlibi(score.bias);
  params.alibi_root = score.bias == Score::Bias::kAlibiSqrt;
  params.biased = problem_.has(Slot::kBias) && !params.alibi;
  params.bias_before_scale = score.bias == Score::Bias::kBeforeScale;
  params.masked = problem_.has(Slot::kMask);
  params.dropped = problem_.has(Slot::kKeep);
  if (params.dropped) params.keep_probability = score.keep_probability;
  params.query = ElementFormat(problem_[Slot::kQuery]);
  params.query_rope = ElementFormat(problem_[Slot::kQueryRope]);
  params.keep = bindings_[Slot::kKeep];
  if (sequences_.empty()) return;
  params.mask_step = ColumnStep(mask_);
  params.keep_step = ColumnStep(keep_);
  params.bias = ElementFormat(problem_[Slot::kBias]);
  params.bias.step = ColumnStep(bias_);
  if (bias_.spec().placement == Placement::kDiagonal) {
    params.bias_reach = bias_.spec().dims[2];
  }
}

void ForwardOperands::FillForwardParams() {
  ForwardParams& params = forward_params_;
  const TensorSpec& prob_scale = problem_[Slot::kWeightScale];
  params.rounds_probs = prob_scale.present();
  if (params.rounds_probs) {
    params.prob_scale =
        ElementOf(prob_scale.dtype, bindings_[Slot::kWeightScale]);
  }
  params.bf16_probs = RoundsProbsToBf16(problem_);
  params.out = ElementFormat(problem_[Slot::kOut]);
  if (problem_.kv.gathers()) params.unseen_max = params.unseen_sum = 0;
  if (sequences_.empty()) return;
  const auto copies = [](const Grid& result) -> ForwardParams::Copies {
    if (!result.present()) return {};
    return {result.spec().dims[3], ColumnStep(result)};
  };
  params.max_copies = copies(row_max_);
  params.sum_copies = copies(row_sum_);
  params.lse_copies = copies(lse_);
  encoded_ = problem_[Slot::kOut].dtype == DType::kI8;
  const auto factor = [&](Slot slot) -> OutQuantParams::Factor {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return {};
    ElementFormat format(spec);
    format.step = spec.strides[1];
    return {bindings_[slot], format, spec.strides[0] * SizeOf(spec.dtype)};
  };
  out_quant_ = {factor(Slot::kOutScale), factor(Slot::kOutOffset)};
}

void ForwardOperands::ClearUnownedRows() const {
  if (AllRowsOwned(problem_[Slot::kOut], sequences_, &Sequence::queries))
    return;
  for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    if (!problem_.has(slot)) continue;
    ClearElements(problem_[slot], bindings_[slot],
                  RowBlockElements(problem_, slot));
  }
  if (problem_.has(Slot::kLse)) ClearLse();
}

// Log-sum-exp of no scores.
void ForwardOperands::ClearLse() const {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  auto* const lse = reinterpret_cast<float*>(bindings_[Slot::kLse]);
  ForEachRun(problem_[Slot::kLse], RowBlockElements(problem_, Slot::kLse),
             [&](int64_t offset, int64_t count) {
               std::fill_n(lse + offset, count, kNone);
             });
}

void ForwardOperands::ClearUnownedGradients(bool all_keys) const {
  const auto clear = [&](Slot slot, Range Sequence::*side, bool all) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    if (!all && AllRowsOwned(spec, sequences_, side)) return;
    ClearElements(spec, bindings_[slot], 0);
  };
  clear(Slot::kGradQuery, &Sequence::queries, false);
  clear(Slot::kGradQueryRope, &Sequence::queries, false);
  clear(Slot::kGradKey, &Sequence::keys, all_keys);
  clear(Slot::kGradKeyRope, &Sequence::keys, all_keys);
  clear(Slot::kGradValue, &Sequence::keys, all_keys);
}

TensorRows ForwardOperands::RowsOf(Slot slot, int64_t sequence,
                                   Range Sequence::*side) const {
  const TensorSpec& spec = problem_[slot];
  if (!spec.present()) return {};
  const Range rows = sequences_[static_cast<size_t>(sequence)].*side;
  const int64_t bytes = SizeOf(spec.dtype);
  return {ElementFormat(spec),
          bindings_[slot] + spec.At(sequence, rows.first) * bytes,
          spec.strides[1] * bytes, spec.strides[2] * bytes};
}

GradRows ForwardOperands::GradRowsOf(int64_t sequence) const {
  const auto of = [&](Slot slot) {
    return RowsOf(slot, sequence, &Sequence::queries);
  };
  return {of(Slot::kOut), of(Slot::kGradOut), of(Slot::kGradQuery),
          of(Slot::kGradQueryRope)};
}

// What all rows of a head share.
QueryRow ForwardOperands::QueryRowOf(const Tile& cut, int64_t head) const {
  QueryRow query_row;
  query_row.head = head;
  query_row.sink = -std::numeric_limits<float>::infinity();
  // A sink is a key; it is among those of the first split.
  if (problem_.has(Slot::kSink) && cut.split == 0) {
    const TensorSpec& sink = problem_[Slot::kSink];
    const int64_t at = sink.At(head) * SizeOf(sink.dtype);
    query_row.sink = ElementOf(sink.dtype, bindings_[Slot::kSink] + at);
  }
  if (score_params_.alibi) {
    const TensorSpec& slope = problem_[Slot::kBias];
    const int64_t at = slope.At(cut.sequence, head) * SizeOf(slope.dtype);
    query_row.slope = ElementOf(slope.dtype, bindings_[Slot::kBias] + at);
  }
  return query_row;
}

// One head's plane of a grid, from addresses to addresses.
struct ForwardOperands::Plane {
  std::byte* base = nullptr;
  int64_t element_bytes = 0;
  GridPlane plane;

  Plane(const Grid& grid, std::byte* tensor, int64_t sequence, int64_t head) {
    if (!grid.present()) return;
    base = tensor;
    element_bytes = SizeOf(grid.spec().dtype);
    plane = grid.Plane(sequence, head);
  }

  // Of column 0; null if there is no tensor.
  std::byte* Row(int64_t i) const {
    return base == nullptr ? nullptr : base + plane.At(i, 0) * element_bytes;
  }
};

void ForwardOperands::FillQueryRows(const Tile& cut,
                                    std::span<QueryRow> query_rows) const {
  const int64_t group = problem_.group();
  const int64_t b = cut.sequence;
  const TensorRows query = RowsOf(Slot::kQuery, b, &Sequence::queries);
  const TensorRows rope = RowsOf(Slot::kQueryRope, b, &Sequence::queries);
  const TensorRows scale = RowsOf(Slot::kQueryRowScale, b, &Sequence::queries);
  const TensorRows out = RowsOf(Slot::kOut, b, &Sequence::queries);
  for (int64_t h = 0; h < group; ++h) {
    const int64_t head = cut.kv_head * group + h;
    const Plane mask(mask_, bindings_[Slot::kMask], b, head);
    const Plane bias(bias_, bindings_[Slot::kBias], b, head);
    const Plane row_max(row_max_, bindings_[Slot::kRowMax], b, head);
    const Plane row_sum(row_sum_, bindings_[Slot::kRowSum], b, head);
    const Plane lse(lse_, bindings_[Slot::kLse], b, head);
    const GridPlane keep = keep_.present() ? keep_.Plane(b, head) : GridPlane{};
    const QueryRow shared = QueryRowOf(cut, head);
    // The first packed row of this head, counted from the tile's first.
    const int64_t first = ((h - cut.rows.first) % group + group) % group;
    // Its position; the next packed row of the head is the next position's.
    int64_t i = (cut.rows.first + first) / group;
    for (int64_t n = first; n < cut.rows.size(); n += group, ++i) {
      // Written in place: a copy of what was just written in pieces waits for
      // the pieces.
      QueryRow& query_row = query_rows[static_cast<size_t>(n)];
      query_row = shared;
      query_row.position = i;
      query_row.query = query.At(i, head);
      query_row.query_rope = rope.At(i, head);
      query_row.query_scale = reinterpret_cast<float*>(scale.At(i, head));
      query_row.out = out.At(i, head);
      query_row.mask = mask.Row(i);
      query_row.bias = bias.Row(i);
      query_row.keep = keep_.present() ? keep.At(i, 0) : 0;
      query_row.max = reinterpret_cast<float*>(row_max.Row(i));
      query_row.sum = reinterpret_cast<float*>(row_sum.Row(i));
      query_row.lse = reinterpret_cast<float*>(lse.Row(i));
    }
  }
}

void ForwardOperands::FillQuantParams(int64_t kv_head, float* buffer,
                                      KvRows& keys) const {
  const auto fill = [&](Slot slot, int64_t channels) -> const float* {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return nullptr;
    const int64_t bytes = SizeOf(spec.dtype);
    for (int64_t d = 0; d < channels; ++d) {
      buffer[d] =
          ElementOf(spec.dtype, bindings_[slot] + spec.At(kv_head, d) * bytes);
    }
    buffer += channels;
    return buffer - channels;
  };
  keys.key.quant = {fill(Slot::kKeyScale, problem_.qk_dim),
                    fill(Slot::kKeyOffset, problem_.qk_dim)};
  keys.value.quant = {fill(Slot::kValueScale, problem_.v_dim),
                      fill(Slot::kValueOffset, problem_.v_dim)};
}

ScoreTile ForwardOperands::ScoreTileOf(const Tile& cut,
                                       const ScoreScratch& scratch) const {
  const Sequence& extent = sequences_[static_cast<size_t>(cut.sequence)];
  ScoreTile tile;
  tile.params = &score_params_;
  tile.scratch = scratch;
  tile.band =
      problem_.mask.BandOf(cut.sequence, extent.rows(), extent.columns());
  tile.rows = cut.rows.size();
  tile.cols = cut.cols;
  tile.columns = extent.columns();
  if (mask_.present()) tile.mask_first = mask_.FirstColumn(cut.sequence);
  tile.alibi_start = problem_.score.AlibiStart(cut.sequence);
  FillQueryRows(cut, {scratch.query_rows, static_cast<size_t>(tile.rows)});
  tile.keys = KvRows(problem_, bindings_, extent, cut.sequence, cut.kv_head);
  return tile;
}

ForwardTile ForwardOperands::TileOf(const Tile& cut, const ScoreScratch& score,
                                    const ForwardScratch& forward) const {
  ForwardTile tile{ScoreTileOf(cut, score)};
  tile.forward_params = &forward_params_;
  tile.quant = encoded_ ? &out_quant_ : nullptr;
  tile.forward = forward;
  FillQuantParams(cut.kv_head, forward.quant, tile.keys);
  return tile;
}

ForwardTile ForwardOperands::TileOf(const Schedule& schedule, int64_t number,
                                    const TileMemory& memory) const {
  const Tile cut = schedule.At(number);
  ForwardTile tile = TileOf(cut, memory.score, memory.forward);
  if (cut.num_splits > 1) {
    tile.split_out =
        memory.splits + schedule.SplitRow(number) * (problem_.v_dim + 2);
  }
  return tile;
}

Schedule ForwardOperands::BuildSchedule(const TileShape& shape) const {
  return flashacl::BuildSchedule(
      {sequences_, &problem_.mask, problem_.kv_heads, problem_.group()}, shape);
}

RunSchedule::RunSchedule(const Schedule& planned,
                         const ForwardOperands& operands,
                         const TileShape& shape)
    : planned_(planned) {
  if (!operands.sequences_known()) own_ = operands.BuildSchedule(shape);
}

}  // namespace flashacl::cpu
