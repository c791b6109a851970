// SPDX-License-Identifier: Apache-2.0
// Attention of one new token per sequence: aclnnIncreFlashAttention, V2 to V4.
//   out = softmax(scale * q k^T + pse where the mask lets see) v
// over the valid keys of a cache, which may be INT8: scale * (key + offset).
// docs/operators/incre_flash_attention.md has the arguments and the limits.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "aclnnop/aclnn_incre_flash_attention.h"
#include "aclnnop/aclnn_incre_flash_attention_v2.h"
#include "aclnnop/aclnn_incre_flash_attention_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "ops/inference.h"
#include "ops/inference_lengths.h"
#include "ops/inference_mask.h"
#include "ops/inference_scales.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Bit;
using acl::Lowered;
using acl::Need;
using acl::Tensor;
using Call = InferenceCall;

constexpr InferenceTable kTable = OneStage({{
    Required("query", acl::kHalves),
    {.name = "key", .need = Need::kRequired, .dtypes = kRowTypes, .list = true},
    {.name = "value",
     .need = Need::kRequired,
     .dtypes = kRowTypes,
     .list = true},
    MayBeEmpty("pseShift", acl::kHalves),
    MayBeEmpty("attenMask", acl::kMaskBytes),
    MayBeEmpty("dequantScale1", kDeqTypes),
    MayBeEmpty("quantScale1", kScaleTypes),
    MayBeEmpty("dequantScale2", kDeqTypes),
    MayBeEmpty("quantScale2", kScaleTypes),
    MayBeEmpty("quantOffset2", kScaleTypes),
    MayBeEmpty("antiquantScale", acl::kFloats),
    MayBeEmpty("antiquantOffset", acl::kFloats),
    MayBeEmpty("blocktable", Bit(DType::kI32)),
    MayBeEmpty("kvPaddingSize", Bit(DType::kI64)),
    Output("attentionOut", kRowTypes),
}});
constexpr InferenceTable kThird = Without(kTable, {Call::kKvPadding});
constexpr InferenceTable kSecond =
    Without(Ignoring(kThird, Call::kPse),
            {Call::kAntiquantScale, Call::kAntiquantOffset, Call::kBlockTable});
constexpr InferenceTable kFirst =
    Without(kSecond, {Call::kDeqScale1, Call::kQuantScale1, Call::kDeqScale2,
                      Call::kQuantScale2, Call::kQuantOffset2});

// Types that may stand together, beyond what the table says of each.
Status CheckTypes(const InferenceCall& call) {
  FLASHACL_RETURN_IF_ERROR(call.arguments.CheckTypes());
  const Tensor& query = call[Call::kQuery];
  const auto differs = [&](std::string_view name, const Tensor& tensor) {
    return Invalid("{}: data type {} does not go with query's {}", name,
                   acl::TypeText(tensor.acl_dtype),
                   acl::TypeText(query.acl_dtype));
  };
  const std::span<const acl::Entry> keys = call.arguments.list(Call::kKey);
  for (const int row : {Call::kKey, Call::kValue}) {
    for (const acl::Entry& entry : call.arguments.list(row)) {
      const DType type = entry->dtype();
      if (type != query.dtype() && type != DType::kI8) {
        return differs(call.name(row), *entry.tensor);
      }
      if (keys.empty() || type == keys[0]->dtype()) continue;
      return Invalid("{}: data type {} does not match key's {}", call.name(row),
                     acl::TypeText(entry->acl_dtype),
                     acl::TypeText(keys[0]->acl_dtype));
    }
  }
  const DType out = call[Call::kOut].dtype();
  if (out != query.dtype() && out != DType::kI8) {
    return differs(call.name(Call::kOut), call[Call::kOut]);
  }
  if (call.has(Call::kPse) && call[Call::kPse].dtype() != query.dtype()) {
    return differs(call.name(Call::kPse), call[Call::kPse]);
  }
  return {};
}

Status ReadLayout(InferenceCall& call) {
  for (const Layout& layout : {kBsh, kBsnd, kBnsd}) {
    if (!Equals(call.args.inputLayout, layout.name)) continue;
    call.layout = layout;
    return {};
  }
  return Contradiction("inputLayout: \"{}\", expected BSH, BSND or BNSD",
                       acl::ReadText(call.args.inputLayout));
}

Status CheckScalars(const InferenceCall& call) {
  if (call.args.numHeads <= 0) {
    return Contradiction("numHeads: {}, expected at least 1",
                         call.args.numHeads);
  }
  if (call.args.innerPrecise != 0 && call.args.innerPrecise != 1) {
    return Contradiction("innerPrecise: {}, expected 0 or 1",
                         call.args.innerPrecise);
  }
  return {};
}

Status ReadQuery(InferenceCall& call) {
  const Tensor& query = call[Call::kQuery];
  const int64_t heads = call.args.numHeads;
  Result<int64_t> kv_heads = KeyHeads(heads, call.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  call.kv_heads = *kv_heads;
  if (Status rank = CheckRank("query", query, call.layout, heads); !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  call.query = Canonical(query, call.layout, heads, 1);
  if (query.empty()) {
    return Contradiction("query: shape {} has no elements", ShapeText(query));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckExtents("query", call.query, {.rows = 1, .heads = heads}));
  const int64_t dim = call.query.dims[3];
  if (call.query.dims[0] > kMaxSequences || dim > kMaxDim) {
    return Contradiction(
        "query: {} sequences with head dim {}, expected at most {} and {}",
        call.query.dims[0], dim, kMaxSequences, kMaxDim);
  }
  if (SameShape(call[Call::kOut], query)) return {};
  return Contradiction("attentionOut: shape {} does not match query's {}",
                       ShapeText(call[Call::kOut]), ShapeText(query));
}

// A table of shape [0] is none; one with empty axes lists no blocks, which no
// call with pages can mean.
const Tensor* BlockTable(const Arguments& arguments) {
  const Tensor* table = arguments.given(Call::kBlockTable);
  if (table == nullptr) return nullptr;
  return table->rank == 1 && table->empty() ? nullptr : table;
}

Status ReadKeys(InferenceCall& call) {
  const CacheTerms terms{.layout = call.layout,
                         .sequences = call.query.dims[0],
                         .kv_heads = call.kv_heads,
                         .heads = HeadTermsOf(call),
                         .block_table = BlockTable(call.arguments),
                         .block_size = call.args.blockSize};
  Result<Cache> cache = ReadCache(call.arguments.list(Call::kKey),
                                  call.arguments.list(Call::kValue), terms);
  if (!cache.ok()) return cache.status();
  call.cache = *std::move(cache);
  return {};
}

Status ReadLeftPadding(InferenceCall& call) {
  call.left_padded = call.has(Call::kKvPadding) && call.has_key_lengths &&
                     call.cache.source.rows == KvSource::Rows::kStrided;
  if (!call.left_padded || call[Call::kKvPadding].elements() == 1) return {};
  return Contradiction("kvPaddingSize: shape {}, expected one number",
                       ShapeText(call[Call::kKvPadding]));
}

Result<Lowered> Lower(const Arguments& arguments, const InferenceArgs& args) {
  Call call{.arguments = arguments,
            .args = args,
            .key_lengths_name = "actualSeqLengths",
            .decode = true};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(call));
  FLASHACL_RETURN_IF_ERROR(ReadLayout(call));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(call));
  FLASHACL_RETURN_IF_ERROR(ReadQuery(call));
  FLASHACL_RETURN_IF_ERROR(ReadKeys(call));
  FLASHACL_RETURN_IF_ERROR(ReadSequences(call));
  FLASHACL_RETURN_IF_ERROR(ReadLeftPadding(call));
  FLASHACL_RETURN_IF_ERROR(CheckScales(call));
  Lowered lowered;
  PlaceQuery(call, lowered);
  lowered.problem[Slot::kOut] =
      Canonical(call[Call::kOut], call.layout, args.numHeads, 1);
  lowered.Bind(arguments, Call::kOut, Slot::kOut);
  PlaceKeys(call, lowered);
  FLASHACL_RETURN_IF_ERROR(LowerMask(call, lowered));
  FLASHACL_RETURN_IF_ERROR(PlaceScales(call, lowered));
  return lowered;
}

}  // namespace

const acl::Operator kIncreFlashAttention{"aclnnIncreFlashAttention", kFirst,
                                         561002};
const acl::Operator kIncreFlashAttentionV2{"aclnnIncreFlashAttentionV2",
                                           kSecond, 561002};
const acl::Operator kIncreFlashAttentionV3{"aclnnIncreFlashAttentionV3", kThird,
                                           561002};
const acl::Operator kIncreFlashAttentionV4{"aclnnIncreFlashAttentionV4", kTable,
                                           561002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnIncreFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kIncreFlashAttention,
      {query, key, value, pseShift, attenMask, attentionOut},
      InferenceArgs{nullptr, actualSeqLengths, numHeads, scaleValue,
                    InferenceArgs::kAllTokens, InferenceArgs::kAllTokens,
                    inputLayout, numKeyValueHeads},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV2GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, int64_t numHeads, double scaleValue,
    char* inputLayout, int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kIncreFlashAttentionV2,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, attentionOut},
      InferenceArgs{nullptr, actualSeqLengths, numHeads, scaleValue,
                    InferenceArgs::kAllTokens, InferenceArgs::kAllTokens,
                    inputLayout, numKeyValueHeads},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV3GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, const aclTensor* antiquantScale,
    const aclTensor* antiquantOffset, const aclTensor* blocktable,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise,
    const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kIncreFlashAttentionV3,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, antiquantScale,
       antiquantOffset, blocktable, attentionOut},
      InferenceArgs{nullptr, actualSeqLengths, numHeads, scaleValue,
                    InferenceArgs::kAllTokens, InferenceArgs::kAllTokens,
                    inputLayout, numKeyValueHeads, 0, innerPrecise, blockSize},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV4GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, const aclTensor* antiquantScale,
    const aclTensor* antiquantOffset, const aclTensor* blocktable,
    const aclTensor* kvPaddingSize, int64_t numHeads, double scaleValue,
    char* inputLayout, int64_t numKeyValueHeads, int64_t blockSize,
    int64_t innerPrecise, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kIncreFlashAttentionV4,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, antiquantScale,
       antiquantOffset, blocktable, kvPaddingSize, attentionOut},
      InferenceArgs{nullptr, actualSeqLengths, numHeads, scaleValue,
                    InferenceArgs::kAllTokens, InferenceArgs::kAllTokens,
                    inputLayout, numKeyValueHeads, 0, innerPrecise, blockSize},
      Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnIncreFlashAttention)

FLASHACL_PHASE_TWO(aclnnIncreFlashAttentionV2)

FLASHACL_PHASE_TWO(aclnnIncreFlashAttentionV3)

FLASHACL_PHASE_TWO(aclnnIncreFlashAttentionV4)
