// SPDX-License-Identifier: Apache-2.0
// Attention over whole prompts for inference: aclnnPromptFlashAttention, V2,
// V3.
//   out = softmax(scale * q k^T + pse where the mask and its band let see) v
// docs/operators/prompt_flash_attention.md has the arguments and the limits.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "acl/environment.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_prompt_flash_attention_v2.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
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
    Required("query", kRowTypes),
    Required("key", kRowTypes),
    Required("value", kRowTypes),
    MayBeEmpty("pseShift", acl::kHalves),
    // FLOAT16 passes the type check and is refused later, as on the device.
    MayBeEmpty("attenMask", acl::kMaskBytes | Bit(DType::kF16)),
    MayBeEmpty("deqScale1", kDeqTypes),
    MayBeEmpty("quantScale1", acl::kF32Only),
    MayBeEmpty("deqScale2", kDeqTypes),
    MayBeEmpty("quantScale2", kScaleTypes),
    MayBeEmpty("quantOffset2", kScaleTypes),
    kNoArgument,
    kNoArgument,
    kNoArgument,
    kNoArgument,
    Output("attentionOut", kRowTypes),
}});
constexpr InferenceTable kWithoutPse = Ignoring(kTable, Call::kPse);
constexpr InferenceTable kFirst = Without(
    kWithoutPse, {Call::kDeqScale1, Call::kQuantScale1, Call::kDeqScale2,
                  Call::kQuantScale2, Call::kQuantOffset2});

// It has no lengths of keys and no scales.
bool IsFirstVersion(const InferenceCall& call) {
  return call.lacks(Call::kQuantScale2);
}

// A type that passes here has a meaning in some version of this operator.
Status CheckTypes(const InferenceCall& call) {
  FLASHACL_RETURN_IF_ERROR(call.arguments.CheckTypes());
  const DType type = call[Call::kQuery].dtype();
  for (const int row : {Call::kKey, Call::kValue}) {
    if (call[row].dtype() == type) continue;
    return Invalid("{}: data type {} does not match query's {}", call.name(row),
                   acl::TypeText(call[row].acl_dtype),
                   acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  // The bias of INT8 is FLOAT16.
  const DType pse = type == DType::kI8 ? DType::kF16 : type;
  if (call.has(Call::kPse) && call[Call::kPse].dtype() != pse) {
    return Invalid("pseShift: data type {} does not go with query's {}",
                   acl::TypeText(call[Call::kPse].acl_dtype),
                   acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  const DType out = call[Call::kOut].dtype();
  const bool from_int8 = type == DType::kI8 && out == DType::kF16;
  if (out != type && out != DType::kI8 && !from_int8) {
    return Invalid("attentionOut: data type {} does not go with query's {}",
                   acl::TypeText(call[Call::kOut].acl_dtype),
                   acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  const Tensor* mask = call.arguments.at(Call::kMask);
  if (mask != nullptr && mask->dtype() == DType::kF16 && type == DType::kI8) {
    return Invalid("attenMask: data type FLOAT16 does not go with INT8 query");
  }
  return {};
}

// By prefix: whatever follows a known name is not looked at, except that
// BNSD_BSND is a name of its own.
Status ReadLayout(InferenceCall& call) {
  const char* const text = call.args.inputLayout;
  const bool first = IsFirstVersion(call);
  if (first && StartsWith(text, "TND")) {
    return Contradiction(
        "inputLayout: TND needs lengths of keys, which this version lacks");
  }
  for (const Layout& layout : {kBsh, kBsnd, kBnsd, kNsd, kSh, kTnd, kNtd}) {
    if (!StartsWith(text, layout.name)) continue;
    if (first && layout.name == kNtd.name) break;
    call.layout = call.out_layout = layout;
    if (Equals(text, "BNSD_BSND")) call.out_layout = kBsnd;
    return {};
  }
  return Invalid("inputLayout: \"{}\", expected BSH, BSND, BNSD, BNSD_BSND, {}",
                 acl::ReadText(text),
                 first ? "NSD or SH" : "NSD, SH, TND or NTD");
}

Status CheckDims(const InferenceCall& call) {
  if (call.query.dims[3] == 0) {
    return Invalid("query: 0 channels per head in shape {}",
                   ShapeText(call[Call::kQuery]));
  }
  for (const auto& [name, spec] :
       {std::pair<std::string_view, const TensorSpec&>{"query", call.query},
        std::pair<std::string_view, const TensorSpec&>{"value",
                                                       call.cache.value}}) {
    if (spec.dims[3] <= kMaxDim) continue;
    return Invalid("{}: head dim {}, expected at most {}", name, spec.dims[3],
                   kMaxDim);
  }
  if (call.int8_out() && call.v_dim() < call.query.dims[3]) {
    return Invalid("value: head dim {} is less than query's {}", call.v_dim(),
                   call.query.dims[3]);
  }
  return {};
}

// Ranks, heads and dims; afterwards the three specs say all of the shapes.
Status ReadShapes(InferenceCall& call) {
  const int64_t heads = call.args.numHeads;
  for (const int row : {Call::kQuery, Call::kKey, Call::kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(call.name(row), call[row], call.layout, 1));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRank("query", call[Call::kQuery], call.layout, heads));
  Result<int64_t> kv_heads = KeyHeads(heads, call.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  call.kv_heads = *kv_heads;
  for (const int row : {Call::kKey, Call::kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(call.name(row), call[row], call.layout, *kv_heads));
  }
  call.query = Canonical(call[Call::kQuery], call.layout, heads, 1);
  call.cache.key = Canonical(call[Call::kKey], call.layout, *kv_heads, 1);
  call.cache.value = Canonical(call[Call::kValue], call.layout, *kv_heads, 1);
  call.cache.max_columns = call.cache.key.dims[1];
  return CheckDims(call);
}

Status CheckShapes(const InferenceCall& call) {
  if (call.query.dims[2] != call.args.numHeads) {
    return Contradiction("numHeads: {}, but query has {} heads",
                         call.args.numHeads, call.query.dims[2]);
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckExtents("key", call.cache.key,
                   {.sequences = call.query.dims[0], .heads = call.kv_heads}));
  FLASHACL_RETURN_IF_ERROR(CheckKeyDim(call[Call::kKey], call.cache.key,
                                       call.layout.folded_heads,
                                       HeadTermsOf(call)));
  FLASHACL_RETURN_IF_ERROR(CheckExtents("value", call.cache.value,
                                        {.sequences = call.query.dims[0],
                                         .rows = call.cache.key.dims[1],
                                         .heads = call.kv_heads}));
  const bool int8 = call.int8() || call.int8_out();
  const int64_t dim = call.query.dims[3];
  const int64_t most = dim % (int8 ? 32 : 16) == 0 ? kMaxSequences : 128;
  if (call.query.dims[0] > most) {
    return Contradiction(
        "query: {} sequences, expected at most {} with head dim {}",
        call.query.dims[0], most, dim);
  }
  return {};
}

// What packed sequences may be on the NPU.
Status CheckPackedLimits(const InferenceCall& call) {
  constexpr int64_t kMaxRows = 65536;
  constexpr int64_t kMaxPacked = 4096;
  const auto refuse = [&](std::string_view what) {
    return Contradiction("inputLayout: {}, with which the NPU takes no {}",
                         call.layout.name, what);
  };
  if (call[Call::kQuery].dtype() != DType::kBf16) {
    return refuse("data type but BFLOAT16");
  }
  if (call.query.dims[1] > kMaxRows) return refuse("more than 65536 rows");
  if (call.count() > kMaxPacked) return refuse("more than 4096 sequences");
  if (call.has(Call::kPse)) return refuse("pseShift");
  if (call.has(Call::kQuantScale2)) return refuse("quantScale2");
  return {};
}

// Documented limits that only cost the NPU a warning. Strict mode only.
Status CheckHardwareLimits(const InferenceCall& call) {
  if (!acl::TheEnvironment().strict) return {};
  constexpr int64_t kMaxRows = 20971520;
  for (const auto& [name, rows] : {std::pair{"query", call.query.dims[1]},
                                   std::pair{"key", call.cache.key.dims[1]}}) {
    if (rows <= kMaxRows) continue;
    return Contradiction("{}: {} rows, the NPU takes at most {}", name, rows,
                         kMaxRows);
  }
  if (call.Is(kTnd) || call.Is(kNtd)) return CheckPackedLimits(call);
  const int64_t width = call.args.numHeads * call.query.dims[3];
  const bool wide =
      call.layout.name == kBsh.name || call.layout.name == kBsnd.name;
  if (wide && width >= 65535) {
    return Contradiction(
        "query: {} channels in all heads, the NPU takes less "
        "than 65535 in layout {}",
        width, call.layout.name);
  }
  return {};
}

// As the query, with the value's head dim, in the output's order of axes. One
// element is one element whatever its axes.
Result<TensorSpec> OutSpec(const InferenceCall& call) {
  const Tensor& out = call[Call::kOut];
  const int64_t heads = call.args.numHeads;
  const int64_t v_dim = call.v_dim();
  std::array<int64_t, 4> dims = call.query.dims;
  dims[3] = v_dim;
  if (out.elements() == 1 && dims == std::array<int64_t, 4>{1, 1, 1, 1}) {
    return TensorSpec{.dtype = out.dtype(), .dims = dims};
  }
  if (static_cast<int>(out.rank) == call.out_layout.rank &&
      (!call.out_layout.folded_heads ||
       out.dims[out.rank - 1] == heads * v_dim)) {
    const TensorSpec spec = Canonical(out, call.out_layout, heads, dims[0]);
    if (spec.dims == dims) return spec;
  }
  return Invalid(
      "attentionOut: shape {}, expected {} rows of {} heads with {} channels "
      "for {} sequences in layout {}",
      ShapeText(out), dims[1], heads, v_dim, dims[0], call.out_layout.name);
}

// What the first version cannot be told.
Status CheckFirstVersion(const InferenceCall& call) {
  if (!IsFirstVersion(call)) return {};
  if (call.int8()) {
    return Contradiction(
        "query: data type INT8 needs deqScale1, quantScale1 "
        "and deqScale2, which this version lacks");
  }
  if (!call.int8_out()) return {};
  return Contradiction(
      "attentionOut: data type INT8 needs quantScale2, "
      "which this version lacks");
}

// The NPU writes 32 channels at a time.
Status CheckOutChannels(const InferenceCall& call) {
  if (!call.has(Call::kQuantScale2)) return {};
  const int64_t dim = call.v_dim();
  const int64_t given = call[Call::kQuantScale2].elements();
  const bool each = given != 1 && given == call.args.numHeads * dim;
  if (!each || dim % 32 == 0) return {};
  return Contradiction(
      "quantScale2: one number for each of {} channels per head, expected a "
      "multiple of 32",
      dim);
}

// Rows without keys are bytes of 0, not the 0 an offset makes: leave them to
// whoever clears the rows that no sequence owns.
void ForgetRowsWithoutKeys(std::vector<Sequence>& sequences) {
  for (Sequence& sequence : sequences) {
    if (sequence.columns() == 0) sequence.queries.last = sequence.queries.first;
  }
}

// Everything but the result, whose shape is looked at last.
Result<Lowered> LowerInputs(const InferenceCall& call) {
  Lowered lowered;
  FLASHACL_RETURN_IF_ERROR(LowerMask(call, lowered));
  FLASHACL_RETURN_IF_ERROR(CheckFirstVersion(call));
  FLASHACL_RETURN_IF_ERROR(CheckScales(call));
  FLASHACL_RETURN_IF_ERROR(CheckOutChannels(call));
  FLASHACL_RETURN_IF_ERROR(PlaceScales(call, lowered));
  PlaceQuery(call, lowered);
  PlaceKeys(call, lowered);
  ForgetRowsWithoutKeys(lowered.problem.lengths.sequences);
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const InferenceArgs& args) {
  Call call{.arguments = arguments,
            .args = args,
            .key_lengths_name = "actualSeqLengthsKv"};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  if (arguments[Call::kOut].empty()) {
    Lowered lowered;
    lowered.nothing = true;
    return lowered;
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(call));
  if (args.numHeads <= 0) {
    return Invalid("numHeads: {}, expected at least 1", args.numHeads);
  }
  FLASHACL_RETURN_IF_ERROR(ReadLayout(call));
  FLASHACL_RETURN_IF_ERROR(ReadShapes(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  FLASHACL_RETURN_IF_ERROR(ReadSequences(call));
  if (args.innerPrecise < 0) {
    return Contradiction("innerPrecise: {}, expected at least 0",
                         args.innerPrecise);
  }
  Result<Lowered> lowered = LowerInputs(call);
  if (!lowered.ok()) return lowered;
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(call));
  const Result<TensorSpec> out = OutSpec(call);
  if (!out.ok()) return out.status();
  lowered->problem[Slot::kOut] = *out;
  lowered->Bind(arguments, Call::kOut, Slot::kOut);
  return lowered;
}

}  // namespace

const acl::Operator kPromptFlashAttention{"aclnnPromptFlashAttention", kFirst,
                                          561103};
const acl::Operator kPromptFlashAttentionV2{"aclnnPromptFlashAttentionV2",
                                            kWithoutPse, 561103};
const acl::Operator kPromptFlashAttentionV3{"aclnnPromptFlashAttentionV3",
                                            kTable, 561103};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnPromptFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kPromptFlashAttention,
      {query, key, value, pseShift, attenMask, attentionOut},
      InferenceArgs{actualSeqLengths, nullptr, numHeads, scaleValue, preTokens,
                    nextTokens, inputLayout, numKeyValueHeads},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnPromptFlashAttentionV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, const aclIntArray* actualSeqLengthsKv,
    const aclTensor* deqScale1, const aclTensor* quantScale1,
    const aclTensor* deqScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kPromptFlashAttentionV2,
      {query, key, value, pseShift, attenMask, deqScale1, quantScale1,
       deqScale2, quantScale2, quantOffset2, attentionOut},
      InferenceArgs{actualSeqLengths, actualSeqLengthsKv, numHeads, scaleValue,
                    preTokens, nextTokens, inputLayout, numKeyValueHeads,
                    sparseMode},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnPromptFlashAttentionV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, const aclIntArray* actualSeqLengthsKv,
    const aclTensor* deqScale1, const aclTensor* quantScale1,
    const aclTensor* deqScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kPromptFlashAttentionV3,
      {query, key, value, pseShift, attenMask, deqScale1, quantScale1,
       deqScale2, quantScale2, quantOffset2, attentionOut},
      InferenceArgs{actualSeqLengths, actualSeqLengthsKv, numHeads, scaleValue,
                    preTokens, nextTokens, inputLayout, numKeyValueHeads,
                    sparseMode, innerPrecise},
      Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnPromptFlashAttention)

FLASHACL_PHASE_TWO(aclnnPromptFlashAttentionV2)

FLASHACL_PHASE_TWO(aclnnPromptFlashAttentionV3)
