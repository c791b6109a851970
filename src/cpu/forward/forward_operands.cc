// SPDX-License-Identifier: Apache-2.0
// From tensors to addresses.
#include "cpu/forward/forward_operands.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/number.h"
#include "plan/sequences.h"

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

}  // namespace

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

void ClearElements(const TensorSpec& spec, std::byte* base) {
  const int64_t bytes = SizeOf(spec.dtype);
  const std::array<int64_t, 4> count = spec.DistinctDims();
  const bool dense = spec.strides[3] == 1;
  const int64_t steps = dense ? std::min<int64_t>(count[3], 1) : count[3];
  const int64_t length = dense ? count[3] : 1;
  for (int64_t x = 0; x < count[0]; ++x) {
    for (int64_t y = 0; y < count[1]; ++y) {
      for (int64_t z = 0; z < count[2]; ++z) {
        for (int64_t d = 0; d < steps; ++d) {
          std::memset(base + spec.At(x, y, z, d) * bytes, 0,
                      static_cast<size_t>(length * bytes));
        }
      }
    }
  }
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
      row_sum_(problem[Slot::kRowSum], sequences_) {
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
  params.out = ElementFormat(problem_[Slot::kOut]);
  if (problem_.kv.gathers()) params.unseen_max = params.unseen_sum = 0;
  if (sequences_.empty()) return;
  const Grid& result = row_max_.present() ? row_max_ : row_sum_;
  params.result_copies = result.present() ? result.spec().dims[3] : 0;
  params.result_step = ColumnStep(result);
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
  const auto clear = [&](Slot slot) {
    const TensorSpec& spec = problem_[slot];
    if (!spec.present()) return;
    std::byte* const base = bindings_[slot];
    if (spec.placement != Placement::kBlocks) {
      ClearElements(spec, base);
      return;
    }
    const int64_t end = RowBlockElements(problem_, slot);
    for (int64_t n = 0; n < end; n += spec.block_step()) {
      std::memset(base + n * SizeOf(spec.dtype), 0,
                  static_cast<size_t>(SizeOf(spec.dtype)));
    }
  };
  clear(Slot::kOut);
  clear(Slot::kRowMax);
  clear(Slot::kRowSum);
}

std::byte* ForwardOperands::RowAt(Slot slot, int64_t sequence, int64_t row,
                                  int64_t head) const {
  const TensorSpec& spec = problem_[slot];
  if (!spec.present()) return nullptr;
  return bindings_[slot] + spec.At(sequence, row, head) * SizeOf(spec.dtype);
}

// What all rows of a head share.
QueryRow ForwardOperands::QueryRowOf(const Tile& cut, int64_t head) const {
  QueryRow query_row;
  query_row.head = head;
  query_row.sink = -std::numeric_limits<float>::infinity();
  // A sink is a key; it is among those of the first split.
  if (problem_.has(Slot::kSink) && cut.split == 0) {
    const int64_t at = problem_[Slot::kSink].At(head);
    query_row.sink = ElementOf(DType::kF32, bindings_[Slot::kSink] + at * 4);
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
  const int64_t first_row = sequences_[static_cast<size_t>(b)].queries.first;
  // Addresses of a head's rows lie evenly; these are of its row 0.
  const auto row_of = [&](Slot slot, int64_t head) {
    const TensorSpec& spec = problem_[slot];
    return bindings_[slot] + spec.At(b, first_row, head) * SizeOf(spec.dtype);
  };
  const auto step_of = [&](Slot slot) {
    return problem_[slot].strides[1] * SizeOf(problem_[slot].dtype);
  };
  const int64_t query_step = step_of(Slot::kQuery);
  const int64_t rope_step = step_of(Slot::kQueryRope);
  const int64_t out_step = step_of(Slot::kOut);
  const bool roped = problem_.rope_dim > 0;
  for (int64_t h = 0; h < group; ++h) {
    const int64_t head = cut.kv_head * group + h;
    const Plane mask(mask_, bindings_[Slot::kMask], b, head);
    const Plane bias(bias_, bindings_[Slot::kBias], b, head);
    const Plane row_max(row_max_, bindings_[Slot::kRowMax], b, head);
    const Plane row_sum(row_sum_, bindings_[Slot::kRowSum], b, head);
    const GridPlane keep = keep_.present() ? keep_.Plane(b, head) : GridPlane{};
    const std::byte* const query = row_of(Slot::kQuery, head);
    const std::byte* const rope =
        roped ? row_of(Slot::kQueryRope, head) : nullptr;
    std::byte* const out = row_of(Slot::kOut, head);
    const QueryRow shared = QueryRowOf(cut, head);
    // The first packed row of this head, counted from the tile's first.
    const int64_t first = ((h - cut.rows.first) % group + group) % group;
    for (int64_t n = first; n < cut.rows.size(); n += group) {
      const int64_t i = (cut.rows.first + n) / group;
      // Written in place: a copy of what was just written in pieces waits for
      // the pieces.
      QueryRow& query_row = query_rows[static_cast<size_t>(n)];
      query_row = shared;
      query_row.position = i;
      query_row.query = query + i * query_step;
      query_row.query_rope = roped ? rope + i * rope_step : nullptr;
      query_row.out = out + i * out_step;
      query_row.mask = mask.Row(i);
      query_row.bias = bias.Row(i);
      query_row.keep = keep_.present() ? keep.At(i, 0) : 0;
      query_row.max = reinterpret_cast<float*>(row_max.Row(i));
      query_row.sum = reinterpret_cast<float*>(row_sum.Row(i));
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
  tile.alibi_start = problem_.score.AlibiStart(cut.sequence);
  FillQueryRows(cut, {scratch.query_rows, static_cast<size_t>(tile.rows)});
  tile.keys = KvRows(problem_, bindings_, extent, cut.sequence, cut.kv_head);
  return tile;
}

void ForwardOperands::FillGradRows(int64_t sequence, const ScoreTile& tile,
                                   GradRow* grad_rows) const {
  const int64_t first_row =
      sequences_[static_cast<size_t>(sequence)].queries.first;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const QueryRow& query_row = tile.scratch.query_rows[r];
    const auto at = [&](Slot slot) {
      return RowAt(slot, sequence, first_row + query_row.position,
                   query_row.head);
    };
    grad_rows[r] = {at(Slot::kGradOut), at(Slot::kGradQuery),
                    at(Slot::kGradQueryRope)};
  }
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
