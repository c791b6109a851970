// SPDX-License-Identifier: Apache-2.0
// From outline to canonical problem, and back.
#include "problem/problem_spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flashacl {
namespace {

using Axes = Outline::Axes;
using Device = Lengths::Device;
using Encoding = Outline::Encoding;
using Rows = KvSource::Rows;
using Scales = Outline::Scales;
using Selection = KvSource::Selection;

int64_t Count(const Outline& outline) {
  return static_cast<int64_t>(outline.rows.size());
}

int64_t Most(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0
                         : *std::max_element(lengths.begin(), lengths.end());
}

int64_t Total(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

bool Addressed(Rows rows) {
  return rows == Rows::kPaged || rows == Rows::kList;
}

// An axis of extent 1 neither varies nor repeats: call it as usual.
Axes Usually(Axes axes, const Axes& usual, const Outline& outline) {
  if (Count(outline) <= 1) axes.sequence = usual.sequence;
  if (outline.heads <= 1) axes.head = usual.head;
  return axes;
}

Outline::Gradients Wanted(const Outline& outline) {
  if (outline.direction == Direction::kForward) return {};
  Outline::Gradients wanted = outline.gradients;
  if (outline.value_is_key) wanted.value = true;
  if (!outline.sink) wanted.sink = true;
  if (outline.score.bias == Score::Bias::kNone) wanted.bias = false;
  return wanted;
}

// Wherever a sequence ends, it may begin at row 0 and have all rows.
void NormaliseLengths(Outline& outline) {
  if (outline.query_lengths == Device::kEnds) {
    outline.rows.assign(outline.rows.size(), Most(outline.rows));
  }
  if (outline.key_lengths == Device::kEnds) {
    outline.columns.assign(outline.columns.size(), Most(outline.columns));
  }
}

// What has no meaning beside the rest takes its usual value.
Outline Normal(Outline outline) {
  NormaliseLengths(outline);
  if (outline.source != Rows::kPaged) outline.page_rows = 0;
  if (outline.selection != Selection::kTopK) {
    outline.top_k = 0;
    outline.gather_rows = 1;
  }
  if (outline.keys.scales == Scales::kNone) outline.keys = {};
  if (outline.out.scales == Scales::kNone) outline.out = {};
  if (outline.direction == Direction::kBackward) outline.row_stats = true;
  if (outline.mask) {
    outline.mask = Usually(*outline.mask, UsualMaskAxes(), outline);
  }
  Score& score = outline.score;
  if (score.bias == Score::Bias::kNone) outline.bias = {};
  outline.bias = Usually(outline.bias, UsualBiasAxes(score.bias), outline);
  if (IsAlibi(score.bias) || score.bias == Score::Bias::kNone) {
    outline.bias.row = true;
    outline.diagonal_rows = 0;
  }
  if (outline.diagonal_rows != 0) outline.bias.row = true;
  if (!IsAlibi(score.bias)) score.query_start = score.key_start = 0;
  const bool starts = score.query_start != 0 || score.key_start != 0;
  if (!starts || Count(outline) <= 1) score.starts_only_first = false;
  if (!outline.keep) score.keep_probability = 1.0f;
  outline.gradients = Wanted(outline);
  return outline;
}

// One row axis for all sequences.
TensorSpec Packed(DType dtype, std::array<int64_t, 4> dims) {
  TensorSpec spec = DenseSpec(dtype, dims);
  spec.strides[0] = 0;
  return spec;
}

Range Taken(int64_t& end, int64_t length) {
  end += length;
  return {end - length, end};
}

void BuildLengths(const Outline& outline, AttentionProblem& problem) {
  const bool alone = Addressed(outline.source) || outline.key_padding ||
                     outline.key_lengths == Device::kEnds;
  int64_t row_end = 0;
  int64_t key_end = 0;
  problem.lengths.queries = outline.query_lengths;
  problem.lengths.keys = outline.key_lengths;
  problem.lengths.sequences.reserve(outline.rows.size());
  for (size_t b = 0; b < outline.rows.size(); ++b) {
    if (outline.query_lengths == Device::kEnds) row_end = 0;
    if (alone) key_end = 0;
    problem.lengths.sequences.push_back(
        {Taken(row_end, outline.rows[b]), Taken(key_end, outline.columns[b])});
  }
  const TensorSpec lengths = DenseSpec(DType::kI64, {Count(outline), 1, 1, 1});
  if (outline.query_lengths != Device::kNone) {
    problem[Slot::kQueryLengths] = lengths;
  }
  if (outline.key_lengths != Device::kNone) {
    problem[Slot::kKeyLengths] = lengths;
  }
  if (outline.key_padding) {
    problem[Slot::kKeyPadding] = DenseSpec(DType::kI64, {1, 1, 1, 1});
  }
}

// A tensor with a row per query.
TensorSpec QueryRows(const Outline& outline, DType dtype, int64_t dim) {
  const bool ends = outline.query_lengths == Device::kEnds;
  const int64_t rows = ends ? Most(outline.rows) : Total(outline.rows);
  return Packed(dtype, {Count(outline), rows, outline.heads, dim});
}

// A tensor with a row per key.
TensorSpec KeyRows(const Outline& outline, DType dtype, int64_t dim) {
  const int64_t most = Most(outline.columns);
  if (outline.source == Rows::kPaged) {
    int64_t pages = 0;
    for (int64_t length : outline.columns) {
      pages += CeilDiv(length, std::max<int64_t>(outline.page_rows, 1));
    }
    return DenseSpec(dtype, {pages, outline.page_rows, outline.kv_heads, dim});
  }
  if (outline.source == Rows::kList) {
    return DenseSpec(dtype, {1, most, outline.kv_heads, dim});
  }
  if (outline.key_padding) {
    return DenseSpec(dtype, {Count(outline), most, outline.kv_heads, dim});
  }
  const bool ends = outline.key_lengths == Device::kEnds;
  const int64_t rows = ends ? most : Total(outline.columns);
  return Packed(dtype, {Count(outline), rows, outline.kv_heads, dim});
}

std::vector<TensorSpec> ListOf(const Outline& outline, const TensorSpec& rows) {
  std::vector<TensorSpec> list;
  if (outline.source != Rows::kList || !rows.present()) return list;
  list.reserve(outline.columns.size());
  for (int64_t length : outline.columns) {
    list.push_back(
        DenseSpec(rows.dtype, {1, length, rows.dims[2], rows.dims[3]}));
  }
  return list;
}

TensorSpec FactorSpec(Scales scales, int64_t heads, int64_t dim) {
  if (scales == Scales::kChannel) {
    return DenseSpec(DType::kF32, {heads, dim, 1, 1});
  }
  TensorSpec one = DenseSpec(DType::kF32, {1, 1, 1, 1});
  one.strides = {};
  return one;
}

void BuildKeys(const Outline& outline, AttentionProblem& problem) {
  const bool int8 = outline.keys.scales != Scales::kNone;
  const DType dtype = int8 ? DType::kI8 : outline.dtype;
  KvSource& kv = problem.kv;
  kv.rows = outline.source;
  kv.selection = outline.selection;
  kv.page_rows = outline.page_rows;
  kv.gather_rows = outline.gather_rows;
  kv.value_is_key = outline.value_is_key;
  problem[Slot::kKey] = KeyRows(outline, dtype, outline.qk_dim);
  if (outline.rope_dim > 0) {
    problem[Slot::kKeyRope] = KeyRows(outline, outline.dtype, outline.rope_dim);
  }
  if (!outline.value_is_key) {
    problem[Slot::kValue] = KeyRows(outline, dtype, outline.v_dim);
  }
  kv.key_list = ListOf(outline, problem[Slot::kKey]);
  kv.value_list = ListOf(outline, problem[Slot::kValue]);
  if (outline.source == Rows::kPaged) {
    const int64_t pages =
        CeilDiv(Most(outline.columns), std::max<int64_t>(outline.page_rows, 1));
    problem[Slot::kBlockTable] =
        DenseSpec(DType::kI32, {Count(outline), pages, 1, 1});
  }
  if (outline.selection == Selection::kTopK) {
    const int64_t rows = problem[Slot::kQuery].dims[1];
    problem[Slot::kTopK] = Packed(
        DType::kI32, {Count(outline), rows, outline.kv_heads, outline.top_k});
  }
  if (!int8) return;
  const TensorSpec key =
      FactorSpec(outline.keys.scales, outline.kv_heads, outline.qk_dim);
  const TensorSpec value =
      FactorSpec(outline.keys.scales, outline.kv_heads, outline.v_dim);
  problem[Slot::kKeyScale] = key;
  if (outline.keys.offset) problem[Slot::kKeyOffset] = key;
  if (outline.value_is_key) return;
  problem[Slot::kValueScale] = value;
  if (outline.keys.offset) problem[Slot::kValueOffset] = value;
}

void BuildQueries(const Outline& outline, AttentionProblem& problem) {
  problem[Slot::kQuery] = QueryRows(outline, outline.dtype, outline.qk_dim);
  if (outline.rope_dim > 0) {
    problem[Slot::kQueryRope] =
        QueryRows(outline, outline.dtype, outline.rope_dim);
  }
  const bool int8 = outline.out.scales != Scales::kNone;
  problem[Slot::kOut] =
      QueryRows(outline, int8 ? DType::kI8 : outline.out_dtype, outline.v_dim);
  if (int8) {
    const TensorSpec factor =
        FactorSpec(outline.out.scales, outline.heads, outline.v_dim);
    problem[Slot::kOutScale] = factor;
    if (outline.out.offset) problem[Slot::kOutOffset] = factor;
  }
  if (outline.dtype == DType::kI8) {
    problem[Slot::kWeightScale] = DenseSpec(DType::kF32, {1, 1, 1, 1});
  }
  if (!outline.row_stats) return;
  const int64_t rows = problem[Slot::kQuery].dims[1];
  TensorSpec stats =
      Packed(DType::kF32, {Count(outline), outline.heads, rows, 1});
  stats.placement = Placement::kTensorRows;
  stats.strides = {0, 1, std::max<int64_t>(outline.heads, 1), 1};
  problem[Slot::kRowMax] = stats;
  problem[Slot::kRowSum] = stats;
}

// A grid with one element per score: blocks behind one another if sequences
// have their own and their lengths are known, else planes of the widest.
TensorSpec GridSpec(const Outline& outline, DType dtype, const Axes& axes) {
  const int64_t heads = axes.head ? outline.heads : 1;
  const bool known = outline.query_lengths == Device::kNone &&
                     outline.key_lengths == Device::kNone;
  if (axes.sequence && known) {
    TensorSpec blocks{.dtype = dtype, .placement = Placement::kBlocks};
    blocks.dims = {Count(outline), heads,
                   axes.row ? TensorSpec::kPerSequence : 1,
                   TensorSpec::kPerSequence};
    return blocks;
  }
  TensorSpec planes = DenseSpec(
      dtype, {axes.sequence ? Count(outline) : 1, heads,
              axes.row ? Most(outline.rows) : 1, Most(outline.columns)});
  if (!axes.sequence) planes.strides[0] = 0;
  if (!axes.head) planes.strides[1] = 0;
  if (!axes.row) planes.strides[2] = 0;
  return planes;
}

TensorSpec BiasSpec(const Outline& outline) {
  const Axes& axes = outline.bias;
  if (!IsAlibi(outline.score.bias) && outline.diagonal_rows == 0) {
    return GridSpec(outline, UsualFloat(outline.dtype), axes);
  }
  const int64_t side = std::max(Most(outline.rows), Most(outline.columns));
  const bool slopes = IsAlibi(outline.score.bias);
  TensorSpec spec = DenseSpec(
      slopes ? DType::kF32 : UsualFloat(outline.dtype),
      {axes.sequence ? Count(outline) : 1, axes.head ? outline.heads : 1,
       slopes ? 1 : outline.diagonal_rows, slopes ? 1 : side});
  if (!slopes) spec.placement = Placement::kDiagonal;
  if (!axes.sequence) spec.strides[0] = 0;
  if (!axes.head) spec.strides[1] = 0;
  return spec;
}

void BuildScore(const Outline& outline, AttentionProblem& problem) {
  problem.mask.rules = outline.rules;
  problem.score = outline.score;
  if (outline.mask) {
    problem[Slot::kMask] = GridSpec(outline, DType::kBool, *outline.mask);
  }
  if (outline.score.bias != Score::Bias::kNone) {
    problem[Slot::kBias] = BiasSpec(outline);
  }
  if (outline.sink) {
    problem[Slot::kSink] = DenseSpec(DType::kF32, {outline.heads, 1, 1, 1});
  }
  if (outline.keep) {
    problem[Slot::kKeep] = GridSpec(outline, DType::kU8, {});
  }
}

void BuildGradients(const Outline& outline, AttentionProblem& problem) {
  const auto want = [&problem](bool wanted, Slot gradient, Slot of) {
    if (wanted) problem[gradient] = problem[of];
  };
  problem[Slot::kGradOut] = problem[Slot::kOut];
  const Outline::Gradients& wanted = outline.gradients;
  want(wanted.query, Slot::kGradQuery, Slot::kQuery);
  want(wanted.query, Slot::kGradQueryRope, Slot::kQueryRope);
  want(wanted.key, Slot::kGradKey, Slot::kKey);
  want(wanted.key, Slot::kGradKeyRope, Slot::kKeyRope);
  want(wanted.value, Slot::kGradValue, Slot::kValue);
  want(wanted.bias, Slot::kGradBias, Slot::kBias);
  want(wanted.sink, Slot::kGradSink, Slot::kSink);
}

Axes AxesOf(const TensorSpec& spec) {
  if (spec.placement == Placement::kBlocks) {
    return {
        .sequence = true, .head = spec.dims[1] != 1, .row = spec.dims[2] != 1};
  }
  return {.sequence = spec.placement == Placement::kTensorScores ||
                      spec.placement == Placement::kTensorRows ||
                      spec.strides[0] != 0,
          .head = spec.strides[1] != 0,
          .row = spec.strides[2] != 0};
}

Encoding EncodingOf(const AttentionProblem& problem, Slot scale, Slot offset) {
  const TensorSpec& spec = problem[scale];
  if (!spec.present()) return {};
  const bool one = spec.strides[0] == 0 && spec.strides[1] == 0;
  return {one ? Scales::kTensor : Scales::kChannel, problem.has(offset)};
}

void OutlineKeys(const AttentionProblem& problem, Outline& outline) {
  const KvSource& kv = problem.kv;
  outline.source = kv.rows;
  outline.selection = kv.selection;
  outline.page_rows = kv.page_rows;
  outline.gather_rows = kv.gather_rows;
  outline.value_is_key = kv.value_is_key;
  outline.top_k = problem[Slot::kTopK].dims[3];
  outline.keys = EncodingOf(problem, Slot::kKeyScale, Slot::kKeyOffset);
}

void OutlineScore(const AttentionProblem& problem, Outline& outline) {
  outline.rules = problem.mask.rules;
  outline.score = problem.score;
  if (problem.has(Slot::kMask)) outline.mask = AxesOf(problem[Slot::kMask]);
  const TensorSpec& bias = problem[Slot::kBias];
  if (bias.present()) outline.bias = AxesOf(bias);
  if (bias.placement == Placement::kDiagonal) {
    outline.diagonal_rows = bias.dims[2];
  }
  outline.sink = problem.has(Slot::kSink);
  outline.keep = problem.has(Slot::kKeep);
}

}  // namespace

float UsualScale(int64_t qk_dim) {
  const auto dim = static_cast<double>(std::max<int64_t>(qk_dim, 1));
  return static_cast<float>(1.0 / std::sqrt(dim));
}

DType UsualFloat(DType query) {
  return query == DType::kI8 ? DType::kF16 : query;
}

Axes UsualMaskAxes() { return {.sequence = false, .head = false}; }

Axes UsualBiasAxes(Score::Bias bias) { return {.sequence = !IsAlibi(bias)}; }

AttentionProblem Build(const Outline& stated) {
  const Outline outline = Normal(stated);
  AttentionProblem problem;
  problem.direction = outline.direction;
  problem.heads = outline.heads;
  problem.kv_heads = outline.kv_heads;
  problem.qk_dim = outline.qk_dim;
  problem.rope_dim = outline.rope_dim;
  problem.v_dim = outline.v_dim;
  BuildLengths(outline, problem);
  BuildQueries(outline, problem);
  BuildKeys(outline, problem);
  BuildScore(outline, problem);
  if (outline.direction == Direction::kBackward) {
    BuildGradients(outline, problem);
  }
  return problem;
}

Outline OutlineOf(const AttentionProblem& problem) {
  Outline outline;
  outline.direction = problem.direction;
  outline.dtype = problem[Slot::kQuery].dtype;
  outline.heads = problem.heads;
  outline.kv_heads = problem.kv_heads;
  outline.qk_dim = problem.qk_dim;
  outline.rope_dim = problem.rope_dim;
  outline.v_dim = problem.v_dim;
  for (const Sequence& sequence : problem.lengths.sequences) {
    outline.rows.push_back(sequence.rows());
    outline.columns.push_back(sequence.columns());
  }
  outline.query_lengths = problem.lengths.queries;
  outline.key_lengths = problem.lengths.keys;
  outline.key_padding = problem.has(Slot::kKeyPadding);
  OutlineKeys(problem, outline);
  outline.out = EncodingOf(problem, Slot::kOutScale, Slot::kOutOffset);
  const bool int8 = outline.out.scales != Scales::kNone;
  outline.out_dtype =
      int8 ? UsualFloat(outline.dtype) : problem[Slot::kOut].dtype;
  outline.row_stats = problem.has(Slot::kRowMax) || problem.has(Slot::kRowSum);
  OutlineScore(problem, outline);
  outline.gradients = {
      .query =
          problem.has(Slot::kGradQuery) || problem.has(Slot::kGradQueryRope),
      .key = problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope),
      .value = problem.has(Slot::kGradValue),
      .bias = problem.has(Slot::kGradBias),
      .sink = problem.has(Slot::kGradSink)};
  return Normal(outline);
}

}  // namespace flashacl
