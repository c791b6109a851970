// SPDX-License-Identifier: Apache-2.0
// Layouts, queries and results of fused inference.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ops/fused_infer.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = FusedInferCall;

constexpr Layout kNbsd{"NBSD", 4, {1, 2, 0, 3}, false};

struct NamedLayout {
  std::string_view name;
  const Layout& in;
  const Layout& out;
};

constexpr NamedLayout kLayouts[] = {
    {"BSH", kBsh, kBsh},         {"BSND", kBsnd, kBsnd},
    {"BNSD", kBnsd, kBnsd},      {"BNSD_BSND", kBnsd, kBsnd},
    {"BSH_BNSD", kBsh, kBnsd},   {"BSND_BNSD", kBsnd, kBnsd},
    {"BSH_NBSD", kBsh, kNbsd},   {"BSND_NBSD", kBsnd, kNbsd},
    {"BNSD_NBSD", kBnsd, kNbsd}, {"TND", kTnd, kTnd},
    {"NTD", kNtd, kNtd},         {"NTD_TND", kNtd, kTnd},
    {"TND_NTD", kTnd, kNtd},     {"NSD", kNsd, kNsd},
};

// The tensor as rows of the query's layout; of any type.
Result<TensorSpec> ReadRows(const Call& call, int row) {
  const Tensor& tensor = call[row];
  const int64_t heads = call.args.numHeads;
  if (Status rank = CheckRank(call.name(row), tensor, call.layout, heads);
      !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  return Canonical(tensor, call.layout, heads, 1);
}

Status ReadQueryRope(Call& call) {
  if (call.has(Call::kQueryRope) != call.has(Call::kKeyRope)) {
    const bool query = call.has(Call::kQueryRope);
    return Contradiction("{}: given without {}",
                         call.name(query ? Call::kQueryRope : Call::kKeyRope),
                         call.name(query ? Call::kKeyRope : Call::kQueryRope));
  }
  if (!call.roped()) return {};
  Result<TensorSpec> rope = ReadRows(call, Call::kQueryRope);
  if (!rope.ok()) return rope.status();
  FLASHACL_RETURN_IF_ERROR(CheckExtents("queryRope", *rope,
                                        {.sequences = call.query.dims[0],
                                         .rows = call.query.dims[1],
                                         .heads = call.args.numHeads}));
  if (rope->dims[3] < 1 || rope->dims[3] > kMaxDim) {
    return Contradiction("queryRope: head dim {}, expected 1 to {}",
                         rope->dims[3], kMaxDim);
  }
  call.query_rope = *rope;
  return {};
}

// The shape of softmaxLse: a row per row and head of the results.
Result<TensorSpec> LseSpec(const Call& call) {
  // Also one without elements, which counts as absent elsewhere.
  const Tensor& lse = *call.arguments.given(Call::kLse);
  const int64_t heads = call.args.numHeads;
  const bool packed = call.packed();
  const int64_t rows = call.query.dims[1];
  const int64_t sequences = call.query.dims[0];
  const int64_t padded_dims[] = {sequences, heads, rows, 1};
  const int64_t packed_dims[] = {rows, heads, 1};
  const std::span<const int64_t> expected =
      packed ? std::span<const int64_t>(packed_dims) : padded_dims;
  if (!std::ranges::equal(lse.shape(), expected)) {
    return packed
               ? Contradiction("softmaxLse: shape {}, expected [{}, {}, 1]",
                               ShapeText(lse), rows, heads)
               : Contradiction("softmaxLse: shape {}, expected [{}, {}, {}, 1]",
                               ShapeText(lse), sequences, heads, rows);
  }
  TensorSpec spec = packed
                        ? Strided(lse, {kOne, 1, 0, 2}, {call.count(), 1, 1, 1})
                        : Strided(lse, {0, 1, 2, 3}, {1, 1, 1, 1});
  spec.placement = Placement::kTensorRows;
  return spec;
}

Result<TensorSpec> OutSpec(const Call& call) {
  const Tensor& out = call[Call::kOut];
  const int64_t heads = call.args.numHeads;
  std::array<int64_t, 4> dims = call.query.dims;
  dims[3] = call.v_dim();
  if (CheckRank("attentionOut", out, call.out_layout, heads).ok()) {
    const TensorSpec spec = Canonical(out, call.out_layout, heads, dims[0]);
    if (spec.dims == dims) return spec;
  }
  return Contradiction(
      "attentionOut: shape {}, expected {} rows of {} heads with {} channels "
      "for {} sequences in layout {}",
      ShapeText(out), dims[1], heads, call.v_dim(), call.packed() ? 1 : dims[0],
      call.out_layout.name);
}

}  // namespace

Status ReadFusedLayout(Call& call) {
  for (const NamedLayout& layout : kLayouts) {
    if (!Equals(call.args.inputLayout, layout.name)) continue;
    call.layout = layout.in;
    call.out_layout = layout.out;
    return {};
  }
  return Contradiction(
      "inputLayout: \"{}\", expected BSH, BSND, BNSD, one of these with _BNSD, "
      "_BSND or _NBSD, TND, NTD, NTD_TND, TND_NTD or NSD",
      acl::ReadText(call.args.inputLayout));
}

Status ReadFusedQuery(Call& call) {
  const int64_t heads = call.args.numHeads;
  if (heads <= 0) {
    return Contradiction("numHeads: {}, expected at least 1", heads);
  }
  if (call.args.numKeyValueHeads < 0) {
    return Contradiction("numKeyValueHeads: {}, expected at least 0",
                         call.args.numKeyValueHeads);
  }
  Result<int64_t> kv_heads =
      KeyHeads(heads, call.args.numKeyValueHeads, kMaxHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  call.kv_heads = *kv_heads;
  Result<TensorSpec> query = ReadRows(call, Call::kQuery);
  if (!query.ok()) return query.status();
  call.query = *query;
  if (call[Call::kQuery].empty()) {
    return Contradiction("query: shape {} has no elements",
                         ShapeText(call[Call::kQuery]));
  }
  FLASHACL_RETURN_IF_ERROR(CheckExtents("query", call.query, {.heads = heads}));
  const int64_t dim = call.query.dims[3];
  const int64_t most = dim % 16 == 0 ? kMaxSequences : 128;
  if (dim > kMaxDim || call.query.dims[0] > most) {
    return Contradiction(
        "query: {} sequences with head dim {}, expected at most {} and {}",
        call.query.dims[0], dim, most, kMaxDim);
  }
  return ReadQueryRope(call);
}

Status LowerFusedResults(const Call& call, acl::Lowered& lowered) {
  const Result<TensorSpec> out = OutSpec(call);
  if (!out.ok()) return out.status();
  lowered.problem[Slot::kOut] = *out;
  lowered.Bind(call.arguments, Call::kOut, Slot::kOut);
  if (!call.fused.softmaxLseFlag) return {};
  const Result<TensorSpec> lse = LseSpec(call);
  if (!lse.ok()) return lse.status();
  lowered.problem[Slot::kLse] = *lse;
  lowered.Bind(call.arguments, Call::kLse, Slot::kLse);
  return {};
}

acl::Lowered WithoutKeys(const Call& call) {
  // Axes in any order, for all rows are cleared: the fewest are the heads.
  const auto spec = [&](int row) {
    const Tensor& tensor = call[row];
    TensorSpec rows{.dtype = tensor.dtype(), .dims = {1, 1, 1, 1}};
    const size_t from = 4 - std::min<size_t>(tensor.rank, 4);
    for (size_t axis = from; axis < 4; ++axis) {
      rows.dims[axis] = tensor.dims[axis - from];
      rows.strides[axis] = tensor.strides[axis - from];
    }
    return rows;
  };
  const auto exchange = [](TensorSpec& rows, size_t a, size_t b) {
    std::swap(rows.dims[a], rows.dims[b]);
    std::swap(rows.strides[a], rows.strides[b]);
  };
  acl::Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  TensorSpec out = spec(Call::kOut);
  exchange(out, 2,
           static_cast<size_t>(std::ranges::min_element(out.dims) -
                               out.dims.begin()));
  problem.heads = problem.kv_heads = out.dims[2];
  problem.v_dim = out.dims[3];
  problem[Slot::kOut] = out;
  const bool bytes = out.dtype == DType::kI8;
  const DType type = bytes ? DType::kF16 : out.dtype;
  if (bytes) {  // a scale there must be, but no row has one
    problem[Slot::kOutScale] = {.dtype = DType::kF32, .dims = {1, 1, 1, 1}};
    lowered.Bind(call.arguments, Call::kOut, Slot::kOutScale);
  }
  problem[Slot::kQuery] = problem[Slot::kKey] =
      DenseSpec(type, {0, 0, problem.heads, 0});
  problem[Slot::kValue] = DenseSpec(type, {0, 0, problem.heads, problem.v_dim});
  lowered.Bind(call.arguments, Call::kQuery, Slot::kQuery);
  for (const auto& [row, slot] : {std::pair{Call::kKey, Slot::kKey},
                                  std::pair{Call::kValue, Slot::kValue}}) {
    lowered.uses.push_back({row, 0, slot, false, 0});
  }
  lowered.Bind(call.arguments, Call::kOut, Slot::kOut);
  if (!call.fused.softmaxLseFlag) return lowered;
  TensorSpec lse = spec(Call::kLse);
  exchange(lse, 1,
           static_cast<size_t>(std::ranges::max_element(lse.dims) -
                               lse.dims.begin()));
  problem[Slot::kLse] = lse;
  lowered.Bind(call.arguments, Call::kLse, Slot::kLse);
  return lowered;
}

}  // namespace flashacl::ops
