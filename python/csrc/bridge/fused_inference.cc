// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "aclnnop/aclnn_fused_infer_attention_score_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
#include "bridge/adapters_kernel.h"
#include "bridge/allocation.h"
#include "bridge/fused_attention.h"
#include "bridge/keeping.h"
#include "bridge/kept_calls.h"
#include "bridge/npu_storage.h"

namespace flashacl::bridge {
namespace {

using at::OptionalIntArrayRef;
using at::OptionalSymIntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Sizes = c10::SmallVector<int64_t, 4>;

constexpr TensorArgument kNone = nullptr;

bool NoneGiven(std::initializer_list<const OptionalTensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const auto* one) { return Given(*one) == nullptr; });
}

// Lists as C has them; none where a number is a symbol.
struct Integers {
  explicit Integers(const OptionalSymIntArrayRef& numbers) {
    if (!numbers.has_value()) return;
    list.numbers = c10::asIntArrayRefSlowOpt(*numbers);
    known = list.numbers.has_value();
  }
  IntegersArgument list;
  bool known = true;
};

bool SameTypes(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.scalar_type() == k.scalar_type() &&
         q.scalar_type() == v.scalar_type() && q.is_floating_point();
}

// npu_fused_infer_attention_score.

using FusedResults = std::tuple<Tensor, Tensor>;
using FusedSignature = FusedResults(
    const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
    const OptionalTensor&, OptionalSymIntArrayRef, OptionalSymIntArrayRef,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, OptionalSymIntArrayRef, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, int64_t, double, int64_t,
    int64_t, c10::string_view, int64_t, int64_t, int64_t, int64_t, int64_t,
    int64_t, int64_t, bool);

AdaptersKernel<FusedSignature>& FusedAdapters() {
  static auto& kernel = *new AdaptersKernel<FusedSignature>;
  return kernel;
}

// Channels of a head of the values; 0: not of a form that is known here.
int64_t ValueChannels(const Tensor& q, const Tensor& v, bool flat, bool paged,
                      int64_t kv_heads) {
  if (paged) {
    if (v.dim() == 3) return kv_heads == 0 ? 0 : v.size(2) / kv_heads;
    return v.dim() == 4 ? v.size(3) : 0;
  }
  if (v.dim() != q.dim()) return 0;
  if (flat) return kv_heads == 0 ? 0 : v.size(2) / kv_heads;
  return v.size(v.dim() - 1);
}

struct FusedShapes {
  Sizes out;
  Sizes lse;
};

std::optional<FusedShapes> FusedShapesOf(const Tensor& q, const Tensor& v,
                                         std::string_view layout, bool paged,
                                         int64_t heads, int64_t kv_heads) {
  const bool flat = layout == "BSH", packed = layout == "TND";
  const bool four =
      layout == "BSND" || layout == "BNSD" || layout == "BNSD_BSND";
  if (!(flat || packed || four) || q.dim() != (four ? 4 : 3)) {
    return std::nullopt;
  }
  const int64_t dim = ValueChannels(q, v, flat, paged, kv_heads);
  if (dim == 0) return std::nullopt;
  const int64_t a = q.size(0), b = q.size(1), c = q.size(2);
  if (flat) return FusedShapes{{a, b, heads * dim}, {a, heads, b, 1}};
  if (packed) return FusedShapes{{a, b, dim}, {a, b, 1}};
  if (layout == "BSND") return FusedShapes{{a, b, c, dim}, {a, c, b, 1}};
  if (layout == "BNSD") return FusedShapes{{a, b, c, dim}, {a, b, c, 1}};
  return FusedShapes{{a, c, b, dim}, {a, b, c, 1}};
}

// What an ordinary call is about.
struct FusedCall {
  const Tensor &q, &k, &v;
  TensorArgument pse, mask, table, q_rope, k_rope;
  Integers rows, keys;
  int64_t heads;
  double scale;
  int64_t before, after;
  std::string layout;
  int64_t kv_heads, sparse_mode, inner_precise, block_size, antiquant_mode,
      key_mode, value_mode;
  bool with_lse;
};

std::optional<FusedResults> CallFused(const FusedCall& call) {
  if (!call.rows.known || !call.keys.known ||
      !SameTypes(call.q, call.k, call.v) ||
      !ArePlain({&call.q, &call.k, &call.v, call.pse, call.mask, call.table,
                 call.q_rope, call.k_rope})) {
    return std::nullopt;
  }
  const auto shapes = FusedShapesOf(
      call.q, call.v, call.layout, call.table != nullptr, call.heads,
      call.kv_heads == 0 ? call.heads : call.kv_heads);
  if (!shapes.has_value()) return std::nullopt;
  const Tensor out = NewTensor(shapes->out, call.q.scalar_type());
  const Tensor lse =
      NewTensor(call.with_lse ? shapes->lse : Sizes{0}, at::kFloat);
  const bool made = CallKept(
      &aclnnFusedInferAttentionScoreV3GetWorkspaceSize,
      &aclnnFusedInferAttentionScoreV3, &call.q, ListOfOne{&call.k},
      ListOfOne{&call.v}, call.pse, call.mask, call.rows.list, call.keys.list,
      kNone, kNone, kNone, kNone, kNone, kNone, kNone, call.table, kNone, kNone,
      kNone, kNone, kNone, kNone, kNone, kNone, IntegersArgument{}, call.q_rope,
      call.k_rope, kNone, call.heads, call.scale, call.before, call.after,
      TextArgument{call.layout.c_str()}, call.kv_heads, call.sparse_mode,
      call.inner_precise, call.block_size, call.antiquant_mode, call.with_lse,
      call.key_mode, call.value_mode, &out, &lse);
  return made ? std::optional(FusedResults(out, lse)) : std::nullopt;
}

FusedResults FusedInferAttention(
    const Tensor& q, const Tensor& k, const Tensor& v,
    const OptionalTensor& pse, const OptionalTensor& mask,
    OptionalSymIntArrayRef lengths, OptionalSymIntArrayRef kv_lengths,
    const OptionalTensor& dequant_scale1, const OptionalTensor& quant_scale1,
    const OptionalTensor& dequant_scale2, const OptionalTensor& quant_scale2,
    const OptionalTensor& quant_offset2, const OptionalTensor& antiquant_scale,
    const OptionalTensor& antiquant_offset, const OptionalTensor& key_scale,
    const OptionalTensor& key_offset, const OptionalTensor& value_scale,
    const OptionalTensor& value_offset, const OptionalTensor& table,
    const OptionalTensor& query_padding, const OptionalTensor& kv_padding,
    const OptionalTensor& key_prefix, const OptionalTensor& value_prefix,
    OptionalSymIntArrayRef prefix_length, const OptionalTensor& q_rope,
    const OptionalTensor& k_rope, const OptionalTensor& rope_scale,
    int64_t heads, double scale, int64_t before, int64_t after,
    c10::string_view layout, int64_t kv_heads, int64_t sparse_mode,
    int64_t inner_precise, int64_t block_size, int64_t antiquant_mode,
    int64_t key_mode, int64_t value_mode, bool with_lse) {
  const bool ordinary =
      !prefix_length.has_value() &&
      NoneGiven({&dequant_scale1, &quant_scale1, &dequant_scale2, &quant_scale2,
                 &quant_offset2, &antiquant_scale, &antiquant_offset,
                 &key_scale, &key_offset, &value_scale, &value_offset,
                 &query_padding, &kv_padding, &key_prefix, &value_prefix,
                 &rope_scale});
  if (ordinary && MayKeep()) {
    auto results = CallFused({q,
                              k,
                              v,
                              Given(pse),
                              Given(mask),
                              Given(table),
                              Given(q_rope),
                              Given(k_rope),
                              Integers(lengths),
                              Integers(kv_lengths),
                              heads,
                              scale,
                              before,
                              after,
                              std::string(layout),
                              kv_heads,
                              sparse_mode,
                              inner_precise,
                              block_size,
                              antiquant_mode,
                              key_mode,
                              value_mode,
                              with_lse});
    if (results.has_value()) return *std::move(results);
  }
  return FusedAdapters()(
      q, k, v, pse, mask, lengths, kv_lengths, dequant_scale1, quant_scale1,
      dequant_scale2, quant_scale2, quant_offset2, antiquant_scale,
      antiquant_offset, key_scale, key_offset, value_scale, value_offset, table,
      query_padding, kv_padding, key_prefix, value_prefix, prefix_length,
      q_rope, k_rope, rope_scale, heads, scale, before, after, layout, kv_heads,
      sparse_mode, inner_precise, block_size, antiquant_mode, key_mode,
      value_mode, with_lse);
}

// npu_prompt_flash_attention.

using PromptSignature = Tensor(const Tensor&, const Tensor&, const Tensor&,
                               const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, OptionalIntArrayRef,
                               const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, int64_t, double, int64_t,
                               int64_t, c10::string_view, int64_t,
                               OptionalIntArrayRef, int64_t);

AdaptersKernel<PromptSignature>& PromptAdapters() {
  static auto& kernel = *new AdaptersKernel<PromptSignature>;
  return kernel;
}

Tensor PromptAttention(
    const Tensor& q, const Tensor& k, const Tensor& v,
    const OptionalTensor& padding, const OptionalTensor& mask,
    const OptionalTensor& pse, OptionalIntArrayRef lengths,
    const OptionalTensor& dequant_scale1, const OptionalTensor& quant_scale1,
    const OptionalTensor& dequant_scale2, const OptionalTensor& quant_scale2,
    const OptionalTensor& quant_offset2, int64_t heads, double scale,
    int64_t before, int64_t after, c10::string_view layout, int64_t kv_heads,
    OptionalIntArrayRef kv_lengths, int64_t sparse_mode) {
  // Modes from 10 on say with another precision; other forms have other shapes.
  const bool ordinary =
      SameTypes(q, k, v) && sparse_mode < 10 &&
      (layout == "BSH" || layout == "BNSD" || layout == "BSND") &&
      NoneGiven({&padding, &dequant_scale1, &quant_scale1, &dequant_scale2,
                 &quant_scale2, &quant_offset2});
  if (ordinary && MayKeep() &&
      ArePlain({&q, &k, &v, Given(mask), Given(pse)})) {
    const Tensor out = NewTensor(q.sizes(), q.scalar_type());
    const std::string text(layout);
    constexpr int64_t kHighPerformance = 1;
    if (CallKept(&aclnnPromptFlashAttentionV3GetWorkspaceSize,
                 &aclnnPromptFlashAttentionV3, &q, &k, &v, Given(pse),
                 Given(mask), IntegersArgument{lengths, true},
                 IntegersArgument{kv_lengths, true}, kNone, kNone, kNone, kNone,
                 kNone, heads, scale, before, after, TextArgument{text.c_str()},
                 kv_heads, sparse_mode, kHighPerformance, &out)) {
      return out;
    }
  }
  return PromptAdapters()(q, k, v, padding, mask, pse, lengths, dequant_scale1,
                          quant_scale1, dequant_scale2, quant_scale2,
                          quant_offset2, heads, scale, before, after, layout,
                          kv_heads, kv_lengths, sparse_mode);
}

// npu_incre_flash_attention.

using TokenSignature = Tensor(const Tensor&, const Tensor&, const Tensor&,
                              const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, OptionalSymIntArrayRef,
                              const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, int64_t, double,
                              c10::string_view, int64_t, int64_t, int64_t);

AdaptersKernel<TokenSignature>& TokenAdapters() {
  static auto& kernel = *new AdaptersKernel<TokenSignature>;
  return kernel;
}

Tensor TokenAttention(
    const Tensor& q, const Tensor& k, const Tensor& v,
    const OptionalTensor& padding, const OptionalTensor& mask,
    const OptionalTensor& pse, OptionalSymIntArrayRef lengths,
    const OptionalTensor& antiquant_scale,
    const OptionalTensor& antiquant_offset, const OptionalTensor& table,
    const OptionalTensor& dequant_scale1, const OptionalTensor& quant_scale1,
    const OptionalTensor& dequant_scale2, const OptionalTensor& quant_scale2,
    const OptionalTensor& quant_offset2, const OptionalTensor& kv_padding,
    int64_t heads, double scale, c10::string_view layout, int64_t kv_heads,
    int64_t block_size, int64_t inner_precise) {
  const bool ordinary =
      SameTypes(q, k, v) &&
      (layout == "BSH" || layout == "BNSD" || layout == "BSND") &&
      NoneGiven({&padding, &antiquant_scale, &antiquant_offset, &dequant_scale1,
                 &quant_scale1, &dequant_scale2, &quant_scale2, &quant_offset2,
                 &kv_padding});
  const Integers keys(lengths);
  if (ordinary && keys.known && MayKeep() &&
      ArePlain({&q, &k, &v, Given(mask), Given(pse), Given(table)})) {
    const Tensor out = NewTensor(q.sizes(), q.scalar_type());
    const std::string text(layout);
    if (CallKept(&aclnnIncreFlashAttentionV4GetWorkspaceSize,
                 &aclnnIncreFlashAttentionV4, &q, ListOfOne{&k}, ListOfOne{&v},
                 Given(pse), Given(mask), keys.list, kNone, kNone, kNone, kNone,
                 kNone, kNone, kNone, Given(table), kNone, heads, scale,
                 TextArgument{text.c_str()}, kv_heads, block_size,
                 inner_precise, &out)) {
      return out;
    }
  }
  return TokenAdapters()(q, k, v, padding, mask, pse, lengths, antiquant_scale,
                         antiquant_offset, table, dequant_scale1, quant_scale1,
                         dequant_scale2, quant_scale2, quant_offset2,
                         kv_padding, heads, scale, layout, kv_heads, block_size,
                         inner_precise);
}

}  // namespace

void RegisterFusedInference() {
  RegisterOver("npu_fused_infer_attention_score", FusedAdapters(),
               TORCH_FN(FusedInferAttention));
  RegisterOver("npu_prompt_flash_attention", PromptAdapters(),
               TORCH_FN(PromptAttention));
  RegisterOver("npu_incre_flash_attention", TokenAdapters(),
               TORCH_FN(TokenAttention));
}

}  // namespace flashacl::bridge
