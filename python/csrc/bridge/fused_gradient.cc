// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "bridge/adapters_kernel.h"
#include "bridge/allocation.h"
#include "bridge/fused_attention.h"
#include "bridge/keeping.h"
#include "bridge/kept_calls.h"
#include "bridge/npu_storage.h"

namespace flashacl::bridge {
namespace {

using at::OptionalIntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

using Signature = Results(const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, int64_t, c10::string_view,
                          const OptionalTensor&, const OptionalTensor&,
                          const OptionalTensor&, const OptionalTensor&,
                          const OptionalTensor&, const OptionalTensor&,
                          const OptionalTensor&, double, double, int64_t,
                          int64_t, int64_t, int64_t, int64_t, int64_t,
                          OptionalIntArrayRef, OptionalIntArrayRef,
                          OptionalIntArrayRef, int64_t, bool, bool,
                          c10::string_view, const OptionalTensor&);

AdaptersKernel<Signature>& Adapters() {
  static auto& kernel = *new AdaptersKernel<Signature>;
  return kernel;
}

Tensor NewLike(const Tensor& tensor) {
  return NewTensor(tensor.sizes(), tensor.scalar_type());
}

bool IsDense(c10::string_view layout) {
  return layout == "BNSD" || layout == "BSND" || layout == "BSH" ||
         layout == "SBH";
}

Results FusionAttentionGrad(
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
    int64_t heads, c10::string_view layout, const OptionalTensor& pse,
    const OptionalTensor& padding, const OptionalTensor& mask,
    const OptionalTensor& most, const OptionalTensor& total,
    const OptionalTensor& softmax, const OptionalTensor& out, double scale,
    double keep_prob, int64_t before, int64_t after, int64_t inner_precise,
    int64_t seed, int64_t offset, int64_t numels, OptionalIntArrayRef prefix,
    OptionalIntArrayRef ends_q, OptionalIntArrayRef ends_k, int64_t sparse_mode,
    bool parallel, bool sync, c10::string_view softmax_layout,
    const OptionalTensor& sink) {
  const bool ordinary = keep_prob == 1.0 && softmax_layout.empty() &&
                        IsDense(layout) && !ends_q.has_value() &&
                        !ends_k.has_value() && Given(pse) == nullptr &&
                        Given(padding) == nullptr && Given(sink) == nullptr &&
                        Given(most) != nullptr && Given(total) != nullptr &&
                        Given(out) != nullptr;
  if (ordinary && MayKeep() &&
      ArePlain({&q, &k, &v, &dy, Given(mask), Given(most), Given(total),
                Given(out)})) {
    const Tensor dq = NewLike(q), dk = NewLike(k), dv = NewLike(v);
    const TensorArgument none = nullptr;
    const std::string text(layout);
    if (CallKept(&aclnnFlashAttentionScoreGradGetWorkspaceSize,
                 &aclnnFlashAttentionScoreGrad, &q, &k, &v, &dy, none, none,
                 none, Given(mask), Given(most), Given(total), none, Given(out),
                 IntegersArgument{prefix, true}, scale, keep_prob, before,
                 after, heads, TextArgument{text.c_str()}, inner_precise,
                 sparse_mode, &dq, &dk, &dv, none)) {
      return {dq, dk, dv, Tensor(), NewTensor({0}, at::kFloat)};
    }
  }
  return Adapters()(q, k, v, dy, heads, layout, pse, padding, mask, most, total,
                    softmax, out, scale, keep_prob, before, after,
                    inner_precise, seed, offset, numels, prefix, ends_q, ends_k,
                    sparse_mode, parallel, sync, softmax_layout, sink);
}

}  // namespace

void RegisterFusedGradient() {
  RegisterOver("npu_fusion_attention_grad", Adapters(),
               TORCH_FN(FusionAttentionGrad));
}

}  // namespace flashacl::bridge
