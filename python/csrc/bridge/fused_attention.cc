// SPDX-License-Identifier: Apache-2.0
#include "bridge/fused_attention.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "bridge/adapters_kernel.h"
#include "bridge/allocation.h"
#include "bridge/keeping.h"
#include "bridge/kept_calls.h"
#include "bridge/npu_storage.h"

namespace flashacl::bridge {
namespace {

using at::OptionalIntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Results =
    std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t, int64_t, int64_t>;

// Of the softmax's statistics, each eight times.
constexpr int64_t kLanes = 8;

using Signature = Results(const Tensor&, const Tensor&, const Tensor&, int64_t,
                          c10::string_view, const OptionalTensor&,
                          const OptionalTensor&, const OptionalTensor&, double,
                          double, int64_t, int64_t, int64_t,
                          OptionalIntArrayRef, OptionalIntArrayRef,
                          OptionalIntArrayRef, int64_t, bool, bool,
                          c10::string_view, const OptionalTensor&,
                          const OptionalTensor&, int64_t, int64_t);

AdaptersKernel<Signature>& Adapters() {
  static auto& kernel = *new AdaptersKernel<Signature>;
  return kernel;
}

using SecondSignature =
    Results(const Tensor&, const Tensor&, const Tensor&, int64_t,
            c10::string_view, const OptionalTensor&, const OptionalTensor&,
            const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
            double, double, int64_t, int64_t, int64_t, OptionalIntArrayRef,
            OptionalIntArrayRef, OptionalIntArrayRef, int64_t, bool, bool,
            int64_t, OptionalIntArrayRef, OptionalIntArrayRef, c10::string_view,
            const OptionalTensor&, const OptionalTensor&, int64_t, int64_t);

AdaptersKernel<SecondSignature>& SecondAdapters() {
  static auto& kernel = *new AdaptersKernel<SecondSignature>;
  return kernel;
}

// What an ordinary call is about.
struct Call {
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  int64_t heads;
  std::string_view layout;
  TensorArgument pse, mask;
  double scale;
  int64_t before, after, inner_precise;
  OptionalIntArrayRef prefix, ends_q, ends_k;
  int64_t sparse_mode;
  bool second = false;  // npu_fusion_attention_v2, which has these, too:
  int64_t pse_type = 1;
  OptionalIntArrayRef starts_q = {}, starts_k = {};
};

// Shapes of the results, and how many scores there are.
struct Shapes {
  c10::SmallVector<int64_t, 4> out;
  c10::SmallVector<int64_t, 4> statistics;
  int64_t scores = 0;
};

std::optional<Shapes> Packed(const Call& call) {
  if (call.q.dim() != 3 || call.v.dim() != 3 || !call.ends_q.has_value() ||
      !call.ends_k.has_value() || call.ends_q->empty() ||
      call.ends_q->size() != call.ends_k->size()) {
    return std::nullopt;
  }
  int64_t scores = 0, q_before = 0, k_before = 0;
  for (size_t i = 0; i < call.ends_q->size(); ++i) {
    const int64_t q_end = (*call.ends_q)[i], k_end = (*call.ends_k)[i];
    if (q_end < q_before || k_end < k_before) return std::nullopt;
    scores += call.heads * (q_end - q_before) * (k_end - k_before);
    q_before = q_end, k_before = k_end;
  }
  const int64_t rows = call.q.size(0), heads = call.q.size(1);
  // Rows after the last sequence are no kernel's.
  if (q_before != rows) return std::nullopt;
  return Shapes{{rows, heads, call.v.size(2)}, {rows, heads, kLanes}, scores};
}

// Layouts whose last axis has the channels of all heads.
std::optional<Shapes> Flat(const Call& call, int batch, int rows) {
  if (call.q.dim() != 3 || call.k.dim() != 3 || call.v.dim() != 3 ||
      call.heads <= 0 || call.q.size(2) % call.heads != 0) {
    return std::nullopt;
  }
  const int64_t dim = call.q.size(2) / call.heads;
  const int64_t kv_heads = dim == 0 ? 0 : call.k.size(2) / dim;
  if (kv_heads == 0 || call.v.size(2) % kv_heads != 0) return std::nullopt;
  Shapes shapes;
  shapes.out = {call.q.size(0), call.q.size(1),
                call.heads * (call.v.size(2) / kv_heads)};
  shapes.statistics = {call.q.size(batch), call.heads, call.q.size(rows),
                       kLanes};
  shapes.scores =
      call.q.size(batch) * call.heads * call.q.size(rows) * call.k.size(rows);
  return shapes;
}

std::optional<Shapes> FourAxes(const Call& call, int heads, int rows) {
  if (call.q.dim() != 4 || call.k.dim() != 4 || call.v.dim() != 4 ||
      call.q.size(heads) != call.heads) {
    return std::nullopt;
  }
  Shapes shapes;
  shapes.out.assign(call.q.sizes().begin(), call.q.sizes().end());
  shapes.out[3] = call.v.size(3);
  shapes.statistics = {call.q.size(0), call.heads, call.q.size(rows), kLanes};
  shapes.scores =
      call.q.size(0) * call.heads * call.q.size(rows) * call.k.size(rows);
  return shapes;
}

std::optional<Shapes> ShapesOf(const Call& call) {
  if (call.layout == "TND") return Packed(call);
  if (call.ends_q.has_value() || call.ends_k.has_value()) return std::nullopt;
  if (call.layout == "BNSD") return FourAxes(call, 1, 2);
  if (call.layout == "BSND") return FourAxes(call, 2, 1);
  if (call.layout == "BSH") return Flat(call, 0, 1);
  if (call.layout == "SBH") return Flat(call, 1, 0);
  return std::nullopt;
}

// Others the adapter refuses, also where there is no mask to apply them to.
bool IsKnownMode(int64_t mode, bool packed) {
  return packed ? mode >= 0 && mode <= 8 && mode != 5 : mode >= 0 && mode <= 6;
}

constexpr TensorArgument kNone = nullptr;
constexpr double kKeepAll = 1.0;

// Attention out, greatest scores, sums.
struct Outputs {
  Tensor out, most, total;
};

bool CallDense(const Call& c, const TextArgument& layout, const Outputs& to) {
  const IntegersArgument prefix = {c.prefix, true};
  if (!c.second) {
    return CallKept(&aclnnFlashAttentionScoreGetWorkspaceSize,
                    &aclnnFlashAttentionScore, &c.q, &c.k, &c.v, c.pse, kNone,
                    kNone, c.mask, prefix, c.scale, kKeepAll, c.before, c.after,
                    c.heads, layout, c.inner_precise, c.sparse_mode, &to.most,
                    &to.total, kNone, &to.out);
  }
  return CallKept(
      &aclnnFlashAttentionScoreV2GetWorkspaceSize, &aclnnFlashAttentionScoreV2,
      &c.q, &c.k, &c.v, c.pse, kNone, kNone, c.mask, prefix,
      IntegersArgument{c.starts_q, true}, IntegersArgument{c.starts_k, true},
      c.scale, kKeepAll, c.before, c.after, c.heads, layout, c.inner_precise,
      c.sparse_mode, c.pse_type, &to.most, &to.total, kNone, &to.out);
}

bool CallPacked(const Call& c, const TextArgument& layout, const Outputs& to) {
  const IntegersArgument prefix = {c.prefix, true};
  const IntegersArgument ends_q = {c.ends_q}, ends_k = {c.ends_k};
  if (!c.second) {
    return CallKept(&aclnnFlashAttentionVarLenScoreGetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScore, &c.q, &c.k, &c.v, c.pse,
                    kNone, kNone, c.mask, prefix, ends_q, ends_k, c.scale,
                    kKeepAll, c.before, c.after, c.heads, layout,
                    c.inner_precise, c.sparse_mode, &to.most, &to.total, kNone,
                    &to.out);
  }
  return CallKept(
      &aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize,
      &aclnnFlashAttentionVarLenScoreV2, &c.q, &c.k, &c.v, c.pse, kNone, kNone,
      c.mask, prefix, ends_q, ends_k, IntegersArgument{c.starts_q, true},
      IntegersArgument{c.starts_k, true}, c.scale, kKeepAll, c.before, c.after,
      c.heads, layout, c.inner_precise, c.sparse_mode, c.pse_type, &to.most,
      &to.total, kNone, &to.out);
}

// The results, where the library takes the call.
std::optional<Results> Attempt(const Call& call, int64_t seed, int64_t offset) {
  if (!IsKnownMode(call.sparse_mode, call.layout == "TND") ||
      !ArePlain({&call.q, &call.k, &call.v, call.pse, call.mask})) {
    return std::nullopt;
  }
  const auto shapes = ShapesOf(call);
  if (!shapes.has_value()) return std::nullopt;
  const Outputs outputs = {NewTensor(shapes->out, call.q.scalar_type()),
                           NewTensor(shapes->statistics, at::kFloat),
                           NewTensor(shapes->statistics, at::kFloat)};
  const std::string layout(call.layout);
  const TextArgument text = {layout.c_str()};
  const bool made = call.ends_q.has_value() ? CallPacked(call, text, outputs)
                                            : CallDense(call, text, outputs);
  if (!made) return std::nullopt;
  return Results(outputs.out, outputs.most, outputs.total,
                 NewTensor({0}, call.q.scalar_type()), seed, offset,
                 shapes->scores);
}

Results FusionAttention(
    const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
    c10::string_view layout, const OptionalTensor& pse,
    const OptionalTensor& padding, const OptionalTensor& mask, double scale,
    double keep_prob, int64_t before, int64_t after, int64_t inner_precise,
    OptionalIntArrayRef prefix, OptionalIntArrayRef ends_q,
    OptionalIntArrayRef ends_k, int64_t sparse_mode, bool parallel, bool sync,
    c10::string_view softmax_layout, const OptionalTensor& sink,
    const OptionalTensor& dropout_mask, int64_t seed, int64_t offset) {
  const bool ordinary = keep_prob == 1.0 && softmax_layout.empty() &&
                        Given(padding) == nullptr && Given(sink) == nullptr &&
                        Given(dropout_mask) == nullptr;
  if (ordinary && MayKeep()) {
    auto results =
        Attempt({q, k, v, heads, layout, Given(pse), Given(mask), scale, before,
                 after, inner_precise, prefix, ends_q, ends_k, sparse_mode},
                seed, offset);
    if (results.has_value()) return *std::move(results);
  }
  return Adapters()(q, k, v, heads, layout, pse, padding, mask, scale,
                    keep_prob, before, after, inner_precise, prefix, ends_q,
                    ends_k, sparse_mode, parallel, sync, softmax_layout, sink,
                    dropout_mask, seed, offset);
}

// The adapter refuses longer sequences in this version alone.
bool AreShort(OptionalIntArrayRef ends) {
  constexpr int64_t kLongest = 1000000;
  return !ends.has_value() || ends->empty() || ends->back() <= kLongest;
}

Results SecondFusionAttention(
    const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
    c10::string_view layout, const OptionalTensor& pse,
    const OptionalTensor& padding, const OptionalTensor& mask,
    const OptionalTensor& q_rope, const OptionalTensor& k_rope, double scale,
    double keep_prob, int64_t before, int64_t after, int64_t inner_precise,
    OptionalIntArrayRef prefix, OptionalIntArrayRef ends_q,
    OptionalIntArrayRef ends_k, int64_t sparse_mode, bool parallel, bool sync,
    int64_t pse_type, OptionalIntArrayRef starts_q,
    OptionalIntArrayRef starts_k, c10::string_view softmax_layout,
    const OptionalTensor& sink, const OptionalTensor& dropout_mask,
    int64_t seed, int64_t offset) {
  const bool ordinary = keep_prob == 1.0 && softmax_layout.empty() &&
                        AreShort(ends_q) && AreShort(ends_k) &&
                        Given(padding) == nullptr && Given(q_rope) == nullptr &&
                        Given(k_rope) == nullptr && Given(sink) == nullptr &&
                        Given(dropout_mask) == nullptr;
  if (ordinary && MayKeep()) {
    auto results =
        Attempt({q, k, v, heads, layout, Given(pse), Given(mask), scale, before,
                 after, inner_precise, prefix, ends_q, ends_k, sparse_mode,
                 true, pse_type, starts_q, starts_k},
                seed, offset);
    if (results.has_value()) return *std::move(results);
  }
  return SecondAdapters()(q, k, v, heads, layout, pse, padding, mask, q_rope,
                          k_rope, scale, keep_prob, before, after,
                          inner_precise, prefix, ends_q, ends_k, sparse_mode,
                          parallel, sync, pse_type, starts_q, starts_k,
                          softmax_layout, sink, dropout_mask, seed, offset);
}

}  // namespace

void RegisterFusedAttention() {
  RegisterOver("npu_fusion_attention", Adapters(), TORCH_FN(FusionAttention));
  RegisterOver("npu_fusion_attention_v2", SecondAdapters(),
               TORCH_FN(SecondFusionAttention));
}

}  // namespace flashacl::bridge
