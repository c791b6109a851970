// SPDX-License-Identifier: Apache-2.0
#include "bridge/attention.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bridge/faces.h"

namespace flashacl::bridge {
namespace {

// The mask of the operator's compressed modes has this many rows and columns.
constexpr int64_t kCompressed = 2048;
constexpr int64_t kUpperLeftCausal = 2;

struct Options {
  std::optional<at::Tensor> mask;
  double dropout;
  bool causal;
  std::optional<double> scale;
  bool shared_heads;
};

// Calls an operator with some arguments by name, and the others' defaults.
c10::IValue CallNamed(const c10::OperatorHandle& op,
                      std::vector<std::pair<std::string, c10::IValue>> given) {
  torch::jit::Stack stack;
  for (const auto& argument : op.schema().arguments()) {
    c10::IValue value = argument.default_value().value_or(c10::IValue());
    for (auto& [name, one] : given) {
      if (name == argument.name()) value = std::move(one);
    }
    stack.push_back(std::move(value));
  }
  op.callBoxed(stack);
  return stack.front();
}

void Check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           const Options& options) {
  TORCH_CHECK(
      q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
      "Expected query, key, and value to have the same dtype, but got "
      "query.dtype: ",
      q.scalar_type(), " key.dtype: ", k.scalar_type(),
      " and value.dtype: ", v.scalar_type(), " instead.");
  TORCH_CHECK(q.device() == k.device() && q.device() == v.device(),
              "Expected query, key, and value to have the same device type, "
              "but got query.device: ",
              q.device(), " key.device: ", k.device(),
              " and value.device: ", v.device(), " instead.");
  TORCH_CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
              "Expected query, key, and value to all be at least 2 "
              "dimensional, but got query.dim: ",
              q.dim(), ", key.dim: ", k.dim(), " and value.dim: ", v.dim());
  if (!options.mask.has_value()) return;
  const at::ScalarType type = options.mask->scalar_type();
  TORCH_CHECK(
      type == at::kBool || type == at::kFloat || type == q.scalar_type(),
      "Expected attn_mask dtype to be bool or float or to match query "
      "dtype, but got attn_mask.dtype: ",
      type, " and query.dtype: ", q.scalar_type(), " instead.");
  TORCH_CHECK(!options.causal,
              "Explicit attn_mask should not be set when is_causal=True");
}

bool IsFused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const Options& options) {
  const at::ScalarType type = q.scalar_type();
  // What sdpa_kernel(SDPBackend.MATH) leaves on.
  const auto& context = at::globalContext();
  const bool wanted = context.userEnabledFlashSDP() ||
                      context.userEnabledMemEfficientSDP() ||
                      context.userEnabledOverrideableSDP();
  const bool typed =
      type == at::kHalf || type == at::kBFloat16 || type == at::kFloat;
  const bool shaped = q.dim() == 4 && k.dim() == 4 && v.dim() == 4 &&
                      q.numel() > 0 && k.numel() > 0 && v.numel() > 0;
  if (!wanted || !typed || !shaped) return false;
  const int64_t heads = k.size(1);
  const bool grouped = q.size(1) == heads || options.shared_heads;
  return grouped && q.size(1) % heads == 0 && v.size(1) == heads &&
         q.size(0) == k.size(0) && q.size(0) == v.size(0) &&
         q.size(3) == k.size(3) && k.size(2) == v.size(2) &&
         (!options.mask.has_value() ||
          options.mask->scalar_type() == at::kBool);
}

// True where a key is hidden, in a shape that the operator takes: rows and
// columns whole, batch and heads whole or 1.
at::Tensor Hidden(const at::Tensor& seen, const at::Tensor& q,
                  const at::Tensor& k) {
  at::Tensor mask = seen;
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  const bool heads = mask.size(1) != 1;
  const bool batch = heads || mask.size(0) != 1;
  mask = mask.expand(
      {batch ? q.size(0) : 1, heads ? q.size(1) : 1, q.size(2), k.size(2)});
  return at::logical_not(mask);
}

// Kept: every call of a model would make it again.
std::mutex masks_mutex;
std::vector<at::Tensor>& masks = *new std::vector<at::Tensor>;

at::Tensor CausalMask(c10::Device device) {
  const std::lock_guard<std::mutex> lock(masks_mutex);
  const auto index = static_cast<size_t>(device.index());
  if (masks.size() <= index) masks.resize(index + 1);
  if (!masks[index].defined()) {
    masks[index] =
        at::triu(at::ones({kCompressed, kCompressed},
                          at::TensorOptions().dtype(at::kBool).device(device)),
                 1);
  }
  return masks[index];
}

// The adapter's operator; found when the bridge is installed.
std::optional<c10::OperatorHandle> fusion;

at::Tensor Fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const Options& options) {
  std::vector<std::pair<std::string, c10::IValue>> given = {
      {"query", q},
      {"key", k},
      {"value", v},
      {"head_num", q.size(1)},
      {"input_layout", std::string("BNSD")},
      {"scale",
       options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))))},
      {"keep_prob", 1.0 - options.dropout}};
  if (options.causal) {
    given.emplace_back("atten_mask", CausalMask(q.device()));
    given.emplace_back("sparse_mode", kUpperLeftCausal);
    given.emplace_back("next_tockens", int64_t{0});
  } else if (options.mask.has_value()) {
    given.emplace_back("atten_mask", Hidden(*options.mask, q, k));
  }
  return CallNamed(*fusion, std::move(given)).toTensor();
}

at::Tensor Attention(const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v, const std::optional<at::Tensor>& mask,
                     double dropout, bool causal, std::optional<double> scale,
                     bool shared_heads) {
  const bool masked = mask.has_value() && mask->defined();
  const Options options = {masked ? mask : std::nullopt, dropout, causal, scale,
                           shared_heads};
  Check(q, k, v, options);
  if (IsFused(q, k, v, options)) return Fused(q, k, v, options);
  std::optional<at::Tensor> added = options.mask;
  if (masked && mask->scalar_type() == at::kBool) {
    added = at::zeros(mask->sizes(), q.options())
                .masked_fill_(at::logical_not(*mask),
                              -std::numeric_limits<double>::infinity());
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(
      q, k, v, added, dropout, causal, std::nullopt, scale, shared_heads));
}

}  // namespace

void RegisterAttention(torch::Library& npu, torch::Library& autograd) {
  fusion = c10::Dispatcher::singleton().findSchemaOrThrow(
      "npu::npu_fusion_attention", "");
  constexpr const char* kName = "aten::scaled_dot_product_attention";
  npu.impl(kName, TORCH_FN(Attention));
  autograd.impl(kName, TORCH_FN(Attention));
}

}  // namespace flashacl::bridge
