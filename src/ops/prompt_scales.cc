// SPDX-License-Identifier: Apache-2.0
// deqScale1 brings q.k back to numbers, quantScale1 the weights to 8 bits,
// deqScale2 their product with v back; quantScale2 and its offset make the
// result one of 8 bits.
#include "ops/prompt_scales.h"

#include "ops/inference_factors.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;

constexpr int kInside[] = {Prompt::kDeqScale1, Prompt::kQuantScale1,
                           Prompt::kDeqScale2};

Status CheckInputScales(const Prompt& prompt) {
  if (prompt.int8() && prompt.args.first_version) {
    return Contradiction(
        "query: data type INT8 needs deqScale1, quantScale1 "
        "and deqScale2, which this version lacks");
  }
  for (const int row : kInside) {
    if (prompt.has(row) != prompt.int8()) {
      return prompt.int8() ? Contradiction("{}: absent, but query is INT8",
                                           prompt.name(row))
                           : Contradiction("{}: given, but query is not INT8",
                                           prompt.name(row));
    }
    if (!prompt.int8() || prompt[row].elements() == 1) continue;
    return Contradiction("{}: shape {}, expected one number", prompt.name(row),
                         ShapeText(prompt[row]));
  }
  if (!prompt.int8()) return {};
  if (prompt[Prompt::kDeqScale1].dtype() !=
      prompt[Prompt::kDeqScale2].dtype()) {
    return Contradiction(
        "deqScale2: data type {} does not match deqScale1's {}",
        acl::TypeText(prompt[Prompt::kDeqScale2].acl_dtype),
        acl::TypeText(prompt[Prompt::kDeqScale1].acl_dtype));
  }
  if (prompt.key.dims[1] == 0) {
    return Contradiction("key: shape {} has no keys, expected some with INT8",
                         ShapeText(prompt[Prompt::kKey]));
  }
  return {};
}

// The NPU writes 32 channels at a time.
Status CheckChannels(const Prompt& prompt) {
  if (!prompt.has(Prompt::kQuantScale2)) return {};
  const int64_t dim = prompt.value.dims[3];
  const int64_t given = prompt[Prompt::kQuantScale2].elements();
  const bool each = given != 1 && given == prompt.args.numHeads * dim;
  if (!each || dim % 32 == 0) return {};
  return Contradiction(
      "quantScale2: one number for each of {} channels per head, expected a "
      "multiple of 32",
      dim);
}

Status PlaceFactor(const Prompt& prompt, int row, Slot slot,
                   acl::Lowered& lowered) {
  if (!prompt.has(row)) return {};
  const Result<TensorSpec> spec =
      FactorSpec(prompt.name(row), prompt[row],
                 {.heads = prompt.args.numHeads, .dim = prompt.value.dims[3]});
  if (!spec.ok()) return spec.status();
  lowered.problem[slot] = *spec;
  lowered.Bind(prompt.arguments, row, slot);
  return {};
}

}  // namespace

Status CheckScales(const Prompt& prompt) {
  FLASHACL_RETURN_IF_ERROR(CheckInputScales(prompt));
  if (prompt[Prompt::kOut].dtype() == DType::kI8 && prompt.args.first_version) {
    return Contradiction(
        "attentionOut: data type INT8 needs quantScale2, "
        "which this version lacks");
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckOutScales(prompt.arguments, {.scale = Prompt::kQuantScale2,
                                        .offset = Prompt::kQuantOffset2,
                                        .query = Prompt::kQuery,
                                        .out = Prompt::kOut}));
  return CheckChannels(prompt);
}

Status PlaceScales(const Prompt& prompt, acl::Lowered& lowered) {
  if (prompt.int8()) {
    for (const auto& [row, slot] :
         {std::pair{Prompt::kDeqScale1, Slot::kKeyScale},
          std::pair{Prompt::kQuantScale1, Slot::kWeightScale},
          std::pair{Prompt::kDeqScale2, Slot::kValueScale}}) {
      lowered.problem[slot] = {.dtype = prompt[row].dtype(),
                               .dims = {1, 1, 1, 1}};
      lowered.Bind(prompt.arguments, row, slot);
    }
  }
  FLASHACL_RETURN_IF_ERROR(
      PlaceFactor(prompt, Prompt::kQuantScale2, Slot::kOutScale, lowered));
  return PlaceFactor(prompt, Prompt::kQuantOffset2, Slot::kOutOffset, lowered);
}

}  // namespace flashacl::ops
