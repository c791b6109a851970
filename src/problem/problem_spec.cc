// SPDX-License-Identifier: Apache-2.0
// From a spec to its canonical problem, and back.
#include "problem/problem_spec.h"

#include <algorithm>
#include <cmath>

#include "problem/spec_parts.h"

namespace flashacl {
namespace {

using Axes = ProblemSpec::Axes;
using Device = Lengths::Device;
using Encoding = ProblemSpec::Encoding;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;
using Selection = KvSource::Selection;
using spec_parts::Count;
using spec_parts::EncodingOf;
using spec_parts::FactorSpec;
using spec_parts::Most;
using spec_parts::Packed;
using spec_parts::Total;

bool Addressed(Rows rows) {
  return rows == Rows::kPaged || rows == Rows::kList;
}

// An axis of extent 1 neither varies nor repeats: call it as the default.
Axes CanonicalAxes(Axes axes, const Axes& defaults,
                   const ProblemSpec& problem_spec) {
  if (Count(problem_spec) <= 1) axes.sequence = defaults.sequence;
  if (problem_spec.heads <= 1) axes.head = defaults.head;
  return axes;
}

ProblemSpec::Gradients Wanted(const ProblemSpec& problem_spec) {
  if (problem_spec.direction == Direction::kForward) return {};
  ProblemSpec::Gradients wanted = problem_spec.gradients;
  if (problem_spec.value_is_key) wanted.value = true;
  if (!problem_spec.sink) wanted.sink = true;
  if (problem_spec.score.bias == Score::Bias::kNone) wanted.bias = false;
  return wanted;
}

// Wherever a sequence ends, it may begin at row 0 and have all rows.
void NormaliseLengths(ProblemSpec& problem_spec) {
  if (problem_spec.query_lengths == Device::kEnds) {
    problem_spec.rows.assign(problem_spec.rows.size(), Most(problem_spec.rows));
  }
  if (problem_spec.key_lengths == Device::kEnds) {
    problem_spec.columns.assign(problem_spec.columns.size(),
                                Most(problem_spec.columns));
  }
}

// What has no meaning beside the rest takes its default.
ProblemSpec Canonicalize(ProblemSpec problem_spec) {
  NormaliseLengths(problem_spec);
  if (problem_spec.rows.empty()) problem_spec.prefix = 0;
  if (problem_spec.source != Rows::kPaged) problem_spec.page_rows = 0;
  if (problem_spec.selection != Selection::kTopK) {
    problem_spec.top_k = 0;
    problem_spec.gather_rows = 1;
  }
  if (problem_spec.kv_heads <= 1) {
    for (Encoding* one : {&problem_spec.keys, &problem_spec.values}) {
      if (one->scales == Scales::kRowHead) one->scales = Scales::kRow;
      if (one->scales == Scales::kPageRowHead) one->scales = Scales::kPageRow;
    }
  }
  if (problem_spec.keys.scales == Scales::kNone) {
    problem_spec.keys = {};
    problem_spec.int4 = false;
  }
  if (problem_spec.keys.scales == Scales::kNone || problem_spec.value_is_key ||
      problem_spec.values.scales == Scales::kNone ||
      problem_spec.values == problem_spec.keys) {
    problem_spec.values = {};
  }
  if (problem_spec.out.scales == Scales::kNone) problem_spec.out = {};
  if (problem_spec.dtype == DType::kI8) problem_spec.query_bytes = false;
  if (problem_spec.query_bytes && problem_spec.rope_dim == 0) {
    const bool bytes = problem_spec.out.scales != Scales::kNone;
    problem_spec.dtype =
        bytes ? DefaultFloat(DType::kI8) : problem_spec.out_dtype;
  }
  if (problem_spec.direction == Direction::kBackward)
    problem_spec.row_stats = true;
  if (!problem_spec.mask) problem_spec.mask_tail = false;
  if (problem_spec.mask) {
    problem_spec.mask =
        CanonicalAxes(*problem_spec.mask, DefaultMaskAxes(), problem_spec);
  }
  Score& score = problem_spec.score;
  if (score.bias == Score::Bias::kNone) problem_spec.bias = {};
  problem_spec.bias = CanonicalAxes(problem_spec.bias,
                                    DefaultBiasAxes(score.bias), problem_spec);
  if (IsAlibi(score.bias) || score.bias == Score::Bias::kNone) {
    problem_spec.bias.row = true;
    problem_spec.diagonal_rows = 0;
  }
  if (problem_spec.diagonal_rows != 0) problem_spec.bias.row = true;
  if (!IsAlibi(score.bias)) score.query_start = score.key_start = 0;
  const bool starts = score.query_start != 0 || score.key_start != 0;
  if (!starts || Count(problem_spec) <= 1) score.starts_only_first = false;
  if (!problem_spec.keep) score.keep_probability = 1.0f;
  problem_spec.gradients = Wanted(problem_spec);
  return problem_spec;
}

Range Taken(int64_t& end, int64_t length) {
  end += length;
  return {end - length, end};
}

void BuildLengths(const ProblemSpec& problem_spec, AttentionProblem& problem) {
  const bool alone = Addressed(problem_spec.source) ||
                     problem_spec.key_padding ||
                     problem_spec.key_lengths == Device::kEnds;
  int64_t row_end = 0;
  int64_t key_end = 0;
  problem.lengths.queries = problem_spec.query_lengths;
  problem.lengths.keys = problem_spec.key_lengths;
  problem.lengths.sequences.reserve(problem_spec.rows.size());
  for (size_t b = 0; b < problem_spec.rows.size(); ++b) {
    if (problem_spec.query_lengths == Device::kEnds ||
        problem_spec.query_padding) {
      row_end = 0;
    }
    if (alone) key_end = 0;
    problem.lengths.sequences.push_back(
        {Taken(row_end, problem_spec.rows[b]),
         Taken(key_end, problem_spec.columns[b]), problem_spec.prefix});
  }
  const TensorSpec lengths =
      DenseSpec(DType::kI64, {Count(problem_spec), 1, 1, 1});
  if (problem_spec.query_lengths != Device::kNone) {
    problem[Slot::kQueryLengths] = lengths;
  }
  if (problem_spec.key_lengths != Device::kNone) {
    problem[Slot::kKeyLengths] = lengths;
  }
  const TensorSpec padding = DenseSpec(DType::kI64, {1, 1, 1, 1});
  if (problem_spec.query_padding) problem[Slot::kQueryPadding] = padding;
  if (problem_spec.key_padding) problem[Slot::kKeyPadding] = padding;
}

// A tensor with a row per query.
TensorSpec QueryRows(const ProblemSpec& problem_spec, DType dtype,
                     int64_t dim) {
  const int64_t most = Most(problem_spec.rows);
  if (problem_spec.query_padding) {
    return DenseSpec(dtype,
                     {Count(problem_spec), most, problem_spec.heads, dim});
  }
  const bool ends = problem_spec.query_lengths == Device::kEnds;
  const int64_t rows = ends ? most : Total(problem_spec.rows);
  return Packed(dtype, {Count(problem_spec), rows, problem_spec.heads, dim});
}

void BuildQueries(const ProblemSpec& problem_spec, AttentionProblem& problem) {
  const bool bytes = problem_spec.query_bytes;
  problem[Slot::kQuery] =
      QueryRows(problem_spec, bytes ? DType::kI8 : problem_spec.dtype,
                problem_spec.qk_dim);
  if (bytes) {
    problem[Slot::kQueryRowScale] = QueryRows(problem_spec, DType::kF32, 1);
  }
  if (problem_spec.rope_dim > 0) {
    problem[Slot::kQueryRope] =
        QueryRows(problem_spec, problem_spec.dtype, problem_spec.rope_dim);
  }
  const bool int8 = problem_spec.out.scales != Scales::kNone;
  problem[Slot::kOut] =
      QueryRows(problem_spec, int8 ? DType::kI8 : problem_spec.out_dtype,
                problem_spec.v_dim);
  if (int8) {
    const TensorSpec factor = FactorSpec(
        problem_spec.out.scales, problem_spec.heads, problem_spec.v_dim);
    problem[Slot::kOutScale] = factor;
    if (problem_spec.out.offset) problem[Slot::kOutOffset] = factor;
  }
  if (problem_spec.dtype == DType::kI8) {
    problem[Slot::kWeightScale] = DenseSpec(DType::kF32, {1, 1, 1, 1});
  }
  const int64_t rows = problem[Slot::kQuery].dims[1];
  const int64_t heads = std::max<int64_t>(problem_spec.heads, 1);
  TensorSpec stats =
      Packed(DType::kF32, {Count(problem_spec), problem_spec.heads, rows, 1});
  stats.placement = Placement::kTensorRows;
  stats.strides = {problem_spec.query_padding ? rows * heads : 0, 1, heads, 1};
  if (problem_spec.row_stats) {
    problem[Slot::kRowMax] = problem[Slot::kRowSum] = stats;
  }
  if (problem_spec.lse) problem[Slot::kLse] = stats;
}

// Of a sequence and its prefix.
int64_t MostColumns(const ProblemSpec& problem_spec) {
  return problem_spec.prefix + Most(problem_spec.columns);
}

// A grid with one element per score: blocks one after another if sequences
// have their own and their lengths are known, else planes of the widest.
TensorSpec GridSpec(const ProblemSpec& problem_spec, DType dtype,
                    const Axes& axes) {
  const int64_t heads = axes.head ? problem_spec.heads : 1;
  const bool known = problem_spec.query_lengths == Device::kNone &&
                     problem_spec.key_lengths == Device::kNone;
  if (axes.sequence && known) {
    TensorSpec blocks{.dtype = dtype, .placement = Placement::kBlocks};
    blocks.dims = {Count(problem_spec), heads,
                   axes.row ? TensorSpec::kPerSequence : 1,
                   TensorSpec::kPerSequence};
    return blocks;
  }
  TensorSpec planes =
      DenseSpec(dtype, {axes.sequence ? Count(problem_spec) : 1, heads,
                        axes.row ? Most(problem_spec.rows) : 1,
                        MostColumns(problem_spec)});
  if (!axes.sequence) planes.strides[0] = 0;
  if (!axes.head) planes.strides[1] = 0;
  if (!axes.row) planes.strides[2] = 0;
  return planes;
}

TensorSpec BiasSpec(const ProblemSpec& problem_spec) {
  const Axes& axes = problem_spec.bias;
  if (!IsAlibi(problem_spec.score.bias) && problem_spec.diagonal_rows == 0) {
    return GridSpec(problem_spec, DefaultFloat(problem_spec.dtype), axes);
  }
  const int64_t side =
      std::max(Most(problem_spec.rows), MostColumns(problem_spec));
  const bool slopes = IsAlibi(problem_spec.score.bias);
  TensorSpec spec =
      DenseSpec(slopes ? DType::kF32 : DefaultFloat(problem_spec.dtype),
                {axes.sequence ? Count(problem_spec) : 1,
                 axes.head ? problem_spec.heads : 1,
                 slopes ? 1 : problem_spec.diagonal_rows, slopes ? 1 : side});
  if (!slopes) spec.placement = Placement::kDiagonal;
  if (!axes.sequence) spec.strides[0] = 0;
  if (!axes.head) spec.strides[1] = 0;
  return spec;
}

// The grid, of each sequence's last columns only.
void MakeTail(const ProblemSpec& problem_spec, TensorSpec& grid) {
  if (IsBlocks(grid.placement)) {
    grid.placement = Placement::kTailBlocks;
    return;
  }
  const std::array<int64_t, 4> strides = grid.strides;
  grid.dims[3] = Most(problem_spec.rows);
  grid = DenseSpec(grid.dtype, grid.dims);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (strides[axis] == 0) grid.strides[axis] = 0;
  }
  grid.placement = Placement::kTail;
}

void BuildScore(const ProblemSpec& problem_spec, AttentionProblem& problem) {
  problem.mask.rules = problem_spec.rules;
  problem.score = problem_spec.score;
  if (problem_spec.mask) {
    problem[Slot::kMask] =
        GridSpec(problem_spec, DType::kBool, *problem_spec.mask);
    if (problem_spec.mask_tail) MakeTail(problem_spec, problem[Slot::kMask]);
  }
  if (problem_spec.score.bias != Score::Bias::kNone) {
    problem[Slot::kBias] = BiasSpec(problem_spec);
  }
  if (problem_spec.sink) {
    problem[Slot::kSink] =
        DenseSpec(DType::kF32, {problem_spec.heads, 1, 1, 1});
  }
  if (problem_spec.keep) {
    problem[Slot::kKeep] = GridSpec(problem_spec, DType::kU8, {});
  }
}

void BuildGradients(const ProblemSpec& problem_spec,
                    AttentionProblem& problem) {
  const auto want = [&problem](bool wanted, Slot gradient, Slot of) {
    if (wanted) problem[gradient] = problem[of];
  };
  problem[Slot::kGradOut] = problem[Slot::kOut];
  const ProblemSpec::Gradients& wanted = problem_spec.gradients;
  want(wanted.query, Slot::kGradQuery, Slot::kQuery);
  want(wanted.query, Slot::kGradQueryRope, Slot::kQueryRope);
  want(wanted.key, Slot::kGradKey, Slot::kKey);
  want(wanted.key, Slot::kGradKeyRope, Slot::kKeyRope);
  want(wanted.value, Slot::kGradValue, Slot::kValue);
  want(wanted.bias, Slot::kGradBias, Slot::kBias);
  want(wanted.sink, Slot::kGradSink, Slot::kSink);
}

Axes AxesOf(const TensorSpec& spec) {
  if (IsBlocks(spec.placement)) {
    return {
        .sequence = true, .head = spec.dims[1] != 1, .row = spec.dims[2] != 1};
  }
  return {.sequence = spec.placement == Placement::kTensorScores ||
                      spec.placement == Placement::kTensorRows ||
                      spec.strides[0] != 0,
          .head = spec.strides[1] != 0,
          .row = spec.strides[2] != 0};
}

void SpecScore(const AttentionProblem& problem, ProblemSpec& problem_spec) {
  problem_spec.rules = problem.mask.rules;
  problem_spec.score = problem.score;
  if (problem.has(Slot::kMask)) {
    problem_spec.mask = AxesOf(problem[Slot::kMask]);
    problem_spec.mask_tail = IsTail(problem[Slot::kMask].placement);
  }
  const TensorSpec& bias = problem[Slot::kBias];
  if (bias.present()) problem_spec.bias = AxesOf(bias);
  if (bias.placement == Placement::kDiagonal) {
    problem_spec.diagonal_rows = bias.dims[2];
  }
  problem_spec.sink = problem.has(Slot::kSink);
  problem_spec.keep = problem.has(Slot::kKeep);
}

}  // namespace

float DefaultScale(int64_t qk_dim) {
  const auto dim = static_cast<double>(std::max<int64_t>(qk_dim, 1));
  return static_cast<float>(1.0 / std::sqrt(dim));
}

DType DefaultFloat(DType query) {
  return query == DType::kI8 ? DType::kF16 : query;
}

Axes DefaultMaskAxes() { return {.sequence = false, .head = false}; }

Axes DefaultBiasAxes(Score::Bias bias) { return {.sequence = !IsAlibi(bias)}; }

AttentionProblem Build(const ProblemSpec& stated) {
  const ProblemSpec problem_spec = Canonicalize(stated);
  AttentionProblem problem;
  problem.direction = problem_spec.direction;
  problem.heads = problem_spec.heads;
  problem.kv_heads = problem_spec.kv_heads;
  problem.qk_dim = problem_spec.qk_dim;
  problem.rope_dim = problem_spec.rope_dim;
  problem.v_dim = problem_spec.v_dim;
  BuildLengths(problem_spec, problem);
  BuildQueries(problem_spec, problem);
  spec_parts::BuildKeys(problem_spec, problem);
  BuildScore(problem_spec, problem);
  if (problem_spec.direction == Direction::kBackward) {
    BuildGradients(problem_spec, problem);
  }
  return problem;
}

ProblemSpec SpecOf(const AttentionProblem& problem) {
  ProblemSpec problem_spec;
  problem_spec.direction = problem.direction;
  problem_spec.query_bytes = problem.has(Slot::kQueryRowScale);
  problem_spec.dtype = problem[Slot::kQuery].dtype;
  if (problem_spec.query_bytes) {
    const bool roped = problem.has(Slot::kQueryRope);
    problem_spec.dtype =
        DefaultFloat(problem[roped ? Slot::kQueryRope : Slot::kOut].dtype);
  }
  problem_spec.heads = problem.heads;
  problem_spec.kv_heads = problem.kv_heads;
  problem_spec.qk_dim = problem.qk_dim;
  problem_spec.rope_dim = problem.rope_dim;
  problem_spec.v_dim = problem.v_dim;
  for (const Sequence& sequence : problem.lengths.sequences) {
    problem_spec.rows.push_back(sequence.rows());
    problem_spec.columns.push_back(sequence.keys.size());
    problem_spec.prefix = sequence.prefix;
  }
  problem_spec.query_lengths = problem.lengths.queries;
  problem_spec.key_lengths = problem.lengths.keys;
  problem_spec.query_padding = problem.has(Slot::kQueryPadding);
  problem_spec.key_padding = problem.has(Slot::kKeyPadding);
  spec_parts::SpecKeys(problem, problem_spec);
  problem_spec.out = EncodingOf(problem, Slot::kOutScale, Slot::kOutOffset);
  const bool int8 = problem_spec.out.scales != Scales::kNone;
  problem_spec.out_dtype =
      int8 ? DefaultFloat(problem_spec.dtype) : problem[Slot::kOut].dtype;
  problem_spec.row_stats =
      problem.has(Slot::kRowMax) || problem.has(Slot::kRowSum);
  problem_spec.lse = problem.has(Slot::kLse);
  SpecScore(problem, problem_spec);
  problem_spec.gradients = {
      .query =
          problem.has(Slot::kGradQuery) || problem.has(Slot::kGradQueryRope),
      .key = problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope),
      .value = problem.has(Slot::kGradValue),
      .bias = problem.has(Slot::kGradBias),
      .sink = problem.has(Slot::kGradSink)};
  return Canonicalize(problem_spec);
}

}  // namespace flashacl
