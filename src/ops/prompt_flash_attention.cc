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
#include "ops/canonical.h"
#include "ops/inference.h"
#include "ops/operators.h"
#include "ops/prompt.h"
#include "ops/prompt_lengths.h"
#include "ops/prompt_mask.h"
#include "ops/prompt_scales.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Bit;
using acl::Lowered;
using acl::Need;
using acl::Tensor;

constexpr acl::DTypeSet kRows = acl::kHalves | Bit(DType::kI8);
constexpr acl::DTypeSet kWhole = Bit(DType::kU64) | Bit(DType::kF32);
constexpr acl::DTypeSet kScales = Bit(DType::kF32) | Bit(DType::kBf16);

constexpr Argument MayBeEmpty(std::string_view name, acl::DTypeSet dtypes) {
  return {.name = name, .need = Need::kMayBeEmpty, .dtypes = dtypes};
}

// What a version lacks is never passed; pseShift is, and ignored before V3.
using Table = std::array<Argument, Prompt::kRows>;
constexpr Table TableWith(Need pse) {
  return {{
      {.name = "query", .need = Need::kRequired, .dtypes = kRows},
      {.name = "key", .need = Need::kRequired, .dtypes = kRows},
      {.name = "value", .need = Need::kRequired, .dtypes = kRows},
      {.name = "pseShift", .need = pse, .dtypes = acl::kHalves},
      // FLOAT16 passes the type check and is refused later, as on the device.
      MayBeEmpty("attenMask", acl::kMaskBytes | Bit(DType::kF16)),
      MayBeEmpty("deqScale1", kWhole),
      MayBeEmpty("quantScale1", acl::kF32Only),
      MayBeEmpty("deqScale2", kWhole),
      MayBeEmpty("quantScale2", kScales),
      MayBeEmpty("quantOffset2", kScales),
      {.name = "attentionOut",
       .need = Need::kRequired,
       .dtypes = kRows,
       .output = true},
  }};
}
constexpr Table kWithoutPse = TableWith(Need::kIgnored);
constexpr Table kWithPse = TableWith(Need::kMayBeEmpty);

// A type that passes here has a meaning in some version of this operator.
Status CheckTypes(const Prompt& prompt) {
  FLASHACL_RETURN_IF_ERROR(prompt.arguments.CheckTypes());
  const DType type = prompt[Prompt::kQuery].dtype();
  for (const int row : {Prompt::kKey, Prompt::kValue}) {
    if (prompt[row].dtype() == type) continue;
    return Invalid("{}: data type {} does not match query's {}",
                   prompt.name(row), acl::TypeText(prompt[row].acl_dtype),
                   acl::TypeText(prompt[Prompt::kQuery].acl_dtype));
  }
  // The bias of INT8 is FLOAT16.
  const DType pse = type == DType::kI8 ? DType::kF16 : type;
  if (prompt.has(Prompt::kPse) && prompt[Prompt::kPse].dtype() != pse) {
    return Invalid("pseShift: data type {} does not go with query's {}",
                   acl::TypeText(prompt[Prompt::kPse].acl_dtype),
                   acl::TypeText(prompt[Prompt::kQuery].acl_dtype));
  }
  const DType out = prompt[Prompt::kOut].dtype();
  const bool from_int8 = type == DType::kI8 && out == DType::kF16;
  if (out != type && out != DType::kI8 && !from_int8) {
    return Invalid("attentionOut: data type {} does not go with query's {}",
                   acl::TypeText(prompt[Prompt::kOut].acl_dtype),
                   acl::TypeText(prompt[Prompt::kQuery].acl_dtype));
  }
  const Tensor* mask = prompt.arguments.at(Prompt::kMask);
  if (mask != nullptr && mask->dtype() == DType::kF16 && type == DType::kI8) {
    return Invalid("attenMask: data type FLOAT16 does not go with INT8 query");
  }
  return {};
}

// By prefix: whatever follows a known name is not looked at, except that
// BNSD_BSND is a name of its own.
Status ReadLayout(Prompt& prompt) {
  const char* const text = prompt.args.inputLayout;
  const bool first = prompt.args.first_version;
  if (first && StartsWith(text, "TND")) {
    return Contradiction(
        "inputLayout: TND needs lengths of keys, which this version lacks");
  }
  for (const Layout& layout : {kBsh, kBsnd, kBnsd, kNsd, kSh, kTnd, kNtd}) {
    if (!StartsWith(text, layout.name)) continue;
    if (first && layout.name == kNtd.name) break;
    prompt.layout = prompt.out_layout = layout;
    if (Equals(text, "BNSD_BSND")) prompt.out_layout = kBsnd;
    return {};
  }
  return Invalid("inputLayout: \"{}\", expected BSH, BSND, BNSD, BNSD_BSND, {}",
                 acl::ReadText(text),
                 first ? "NSD or SH" : "NSD, SH, TND or NTD");
}

Status CheckDims(const Prompt& prompt) {
  if (prompt.query.dims[3] == 0) {
    return Invalid("query: 0 channels per head in shape {}",
                   ShapeText(prompt[Prompt::kQuery]));
  }
  for (const auto& [name, spec] :
       {std::pair<std::string_view, const TensorSpec&>{"query", prompt.query},
        std::pair<std::string_view, const TensorSpec&>{"value",
                                                       prompt.value}}) {
    if (spec.dims[3] <= kMostDim) continue;
    return Invalid("{}: head dim {}, expected at most {}", name, spec.dims[3],
                   kMostDim);
  }
  if (prompt[Prompt::kOut].dtype() == DType::kI8 &&
      prompt.value.dims[3] < prompt.query.dims[3]) {
    return Invalid("value: head dim {} is less than query's {}",
                   prompt.value.dims[3], prompt.query.dims[3]);
  }
  return {};
}

// Ranks, heads and dims; afterwards the three specs say all of the shapes.
Status ReadShapes(Prompt& prompt) {
  const int64_t heads = prompt.args.numHeads;
  for (const int row : {Prompt::kQuery, Prompt::kKey, Prompt::kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(prompt.name(row), prompt[row], prompt.layout, 1));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRank("query", prompt[Prompt::kQuery], prompt.layout, heads));
  Result<int64_t> kv_heads = KeyHeads(heads, prompt.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  prompt.kv_heads = *kv_heads;
  for (const int row : {Prompt::kKey, Prompt::kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(prompt.name(row), prompt[row], prompt.layout, *kv_heads));
  }
  prompt.query = Canonical(prompt[Prompt::kQuery], prompt.layout, heads, 1);
  prompt.key = Canonical(prompt[Prompt::kKey], prompt.layout, *kv_heads, 1);
  prompt.value = Canonical(prompt[Prompt::kValue], prompt.layout, *kv_heads, 1);
  return CheckDims(prompt);
}

Status CheckShapes(const Prompt& prompt) {
  const int64_t dim = prompt.query.dims[3];
  if (prompt.query.dims[2] != prompt.args.numHeads) {
    return Contradiction("numHeads: {}, but query has {} heads",
                         prompt.args.numHeads, prompt.query.dims[2]);
  }
  FLASHACL_RETURN_IF_ERROR(CheckExtents("key", prompt.key,
                                        {.sequences = prompt.query.dims[0],
                                         .heads = prompt.kv_heads,
                                         .dim = dim}));
  FLASHACL_RETURN_IF_ERROR(CheckExtents("value", prompt.value,
                                        {.sequences = prompt.query.dims[0],
                                         .rows = prompt.key.dims[1],
                                         .heads = prompt.kv_heads}));
  const bool int8 = prompt.int8() || prompt[Prompt::kOut].dtype() == DType::kI8;
  const int64_t most = dim % (int8 ? 32 : 16) == 0 ? kMostSequences : 128;
  if (prompt.query.dims[0] > most) {
    return Contradiction(
        "query: {} sequences, expected at most {} with head dim {}",
        prompt.query.dims[0], most, dim);
  }
  return {};
}

// What packed sequences may be on the NPU.
Status CheckPackedLimits(const Prompt& prompt) {
  constexpr int64_t kMostRows = 65536;
  constexpr int64_t kMostPacked = 4096;
  const auto refuse = [&](std::string_view what) {
    return Contradiction("inputLayout: {}, with which the NPU takes no {}",
                         prompt.layout.name, what);
  };
  if (prompt[Prompt::kQuery].dtype() != DType::kBf16) {
    return refuse("data type but BFLOAT16");
  }
  if (prompt.query.dims[1] > kMostRows) return refuse("more than 65536 rows");
  if (prompt.count() > kMostPacked) return refuse("more than 4096 sequences");
  if (prompt.has(Prompt::kPse)) return refuse("pseShift");
  if (prompt.has(Prompt::kQuantScale2)) return refuse("quantScale2");
  return {};
}

// Documented limits that only cost the NPU a warning. Strict mode only.
Status CheckHardwareLimits(const Prompt& prompt) {
  if (!acl::TheEnvironment().strict) return {};
  constexpr int64_t kMostRows = 20971520;
  for (const auto& [name, rows] : {std::pair{"query", prompt.query.dims[1]},
                                   std::pair{"key", prompt.key.dims[1]}}) {
    if (rows <= kMostRows) continue;
    return Contradiction("{}: {} rows, the NPU takes at most {}", name, rows,
                         kMostRows);
  }
  if (prompt.Is(kTnd) || prompt.Is(kNtd)) return CheckPackedLimits(prompt);
  const int64_t width = prompt.args.numHeads * prompt.query.dims[3];
  const bool wide =
      prompt.layout.name == kBsh.name || prompt.layout.name == kBsnd.name;
  if (wide && width >= 65535) {
    return Contradiction(
        "query: {} channels in all heads, the NPU takes less "
        "than 65535 in layout {}",
        width, prompt.layout.name);
  }
  return {};
}

// As the query, with the value's head dim, in the output's order of axes. One
// element is one element whatever its axes.
Result<TensorSpec> OutSpec(const Prompt& prompt) {
  const Tensor& out = prompt[Prompt::kOut];
  const int64_t heads = prompt.args.numHeads;
  const int64_t v_dim = prompt.value.dims[3];
  std::array<int64_t, 4> dims = prompt.query.dims;
  dims[3] = v_dim;
  if (out.elements() == 1 && dims == std::array<int64_t, 4>{1, 1, 1, 1}) {
    return TensorSpec{.dtype = out.dtype(), .dims = dims};
  }
  if (static_cast<int>(out.rank) == prompt.out_layout.rank &&
      (!prompt.out_layout.folded_heads ||
       out.dims[out.rank - 1] == heads * v_dim)) {
    const TensorSpec spec = Canonical(out, prompt.out_layout, heads, dims[0]);
    if (spec.dims == dims) return spec;
  }
  return Invalid(
      "attentionOut: shape {}, expected {} rows of {} heads with {} channels "
      "for {} sequences in layout {}",
      ShapeText(out), dims[1], heads, v_dim, dims[0], prompt.out_layout.name);
}

// Rows without keys are bytes of 0, not the 0 an offset makes: leave them to
// whoever clears the rows of nobody.
std::vector<Sequence> WithKeys(std::vector<Sequence> sequences) {
  for (Sequence& sequence : sequences) {
    if (sequence.columns() == 0) sequence.queries.last = sequence.queries.first;
  }
  return sequences;
}

Status PlaceGrids(const Prompt& prompt, const PromptMask& mask,
                  Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  problem.mask = mask.rules;
  if (mask.compressed) lowered.compressed_mask = Prompt::kMask;
  if (mask.grid.present()) {
    problem[Slot::kMask] = mask.grid;
    lowered.Bind(prompt.arguments, Prompt::kMask, Slot::kMask);
  }
  if (!prompt.has(Prompt::kPse)) return {};
  const Result<TensorSpec> grid = PseGrid(prompt);
  if (!grid.ok()) return grid.status();
  problem.score.bias = Score::Bias::kAfterScale;
  problem[Slot::kBias] = *grid;
  lowered.Bind(prompt.arguments, Prompt::kPse, Slot::kBias);
  return {};
}

// Everything but the result, whose shape is looked at last.
Result<Lowered> LowerInputs(const Prompt& prompt) {
  Lowered lowered;
  const Result<PromptMask> mask = ReadMask(prompt);
  if (!mask.ok()) return mask.status();
  FLASHACL_RETURN_IF_ERROR(PlaceGrids(prompt, *mask, lowered));
  FLASHACL_RETURN_IF_ERROR(CheckScales(prompt));
  FLASHACL_RETURN_IF_ERROR(PlaceScales(prompt, lowered));
  AttentionProblem& problem = lowered.problem;
  problem.heads = prompt.args.numHeads;
  problem.kv_heads = prompt.kv_heads;
  problem.qk_dim = prompt.query.dims[3];
  problem.v_dim = prompt.value.dims[3];
  problem.lengths.sequences = WithKeys(prompt.sequences);
  problem.score.scale = static_cast<float>(prompt.args.scaleValue);
  problem[Slot::kQuery] = prompt.query;
  problem[Slot::kKey] = prompt.key;
  problem[Slot::kValue] = prompt.value;
  lowered.Bind(prompt.arguments, Prompt::kQuery, Slot::kQuery);
  lowered.Bind(prompt.arguments, Prompt::kKey, Slot::kKey);
  lowered.Bind(prompt.arguments, Prompt::kValue, Slot::kValue);
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const PromptArgs& args) {
  Prompt prompt{arguments, args};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  if (arguments[Prompt::kOut].empty()) {
    Lowered lowered;
    lowered.nothing = true;
    return lowered;
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(prompt));
  if (args.numHeads <= 0) {
    return Invalid("numHeads: {}, expected at least 1", args.numHeads);
  }
  FLASHACL_RETURN_IF_ERROR(ReadLayout(prompt));
  FLASHACL_RETURN_IF_ERROR(ReadShapes(prompt));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(prompt));
  FLASHACL_RETURN_IF_ERROR(ReadSequences(prompt));
  if (args.innerPrecise < 0) {
    return Contradiction("innerPrecise: {}, expected at least 0",
                         args.innerPrecise);
  }
  Result<Lowered> lowered = LowerInputs(prompt);
  if (!lowered.ok()) return lowered;
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(prompt));
  const Result<TensorSpec> out = OutSpec(prompt);
  if (!out.ok()) return out.status();
  lowered->problem[Slot::kOut] = *out;
  lowered->Bind(arguments, Prompt::kOut, Slot::kOut);
  return lowered;
}

}  // namespace

const acl::Operator kPromptFlashAttention{"aclnnPromptFlashAttention",
                                          kWithoutPse, 561103};
const acl::Operator kPromptFlashAttentionV2{"aclnnPromptFlashAttentionV2",
                                            kWithoutPse, 561103};
const acl::Operator kPromptFlashAttentionV3{"aclnnPromptFlashAttentionV3",
                                            kWithPse, 561103};

}  // namespace flashacl::ops

namespace {

using PassedTensors =
    std::array<flashacl::acl::Passed, flashacl::ops::Prompt::kRows>;

aclnnStatus Prepare(const flashacl::acl::Operator& op,
                    const PassedTensors& passed,
                    const flashacl::ops::PromptArgs& args,
                    flashacl::acl::PhaseOne answer) {
  return flashacl::acl::Prepare(
      op, passed,
      [&](const flashacl::acl::Arguments& arguments) {
        return flashacl::ops::Lower(arguments, args);
      },
      answer);
}

const aclTensor* const kNone = nullptr;

}  // namespace

extern "C" aclnnStatus aclnnPromptFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(flashacl::ops::kPromptFlashAttention,
                 {query, key, value, pseShift, attenMask, kNone, kNone, kNone,
                  kNone, kNone, attentionOut},
                 {.actualSeqLengths = actualSeqLengths,
                  .numHeads = numHeads,
                  .scaleValue = scaleValue,
                  .preTokens = preTokens,
                  .nextTokens = nextTokens,
                  .inputLayout = inputLayout,
                  .numKeyValueHeads = numKeyValueHeads,
                  .first_version = true},
                 {workspaceSize, executor});
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
      flashacl::ops::kPromptFlashAttentionV2,
      {query, key, value, pseShift, attenMask, deqScale1, quantScale1,
       deqScale2, quantScale2, quantOffset2, attentionOut},
      {actualSeqLengths, actualSeqLengthsKv, numHeads, scaleValue, preTokens,
       nextTokens, inputLayout, numKeyValueHeads, sparseMode},
      {workspaceSize, executor});
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
      flashacl::ops::kPromptFlashAttentionV3,
      {query, key, value, pseShift, attenMask, deqScale1, quantScale1,
       deqScale2, quantScale2, quantOffset2, attentionOut},
      {actualSeqLengths, actualSeqLengthsKv, numHeads, scaleValue, preTokens,
       nextTokens, inputLayout, numKeyValueHeads, sparseMode, innerPrecise},
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnPromptFlashAttention(void* workspace,
                                                 uint64_t workspaceSize,
                                                 aclOpExecutor* executor,
                                                 const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnPromptFlashAttentionV2(void* workspace,
                                                   uint64_t workspaceSize,
                                                   aclOpExecutor* executor,
                                                   const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnPromptFlashAttentionV3(void* workspace,
                                                   uint64_t workspaceSize,
                                                   aclOpExecutor* executor,
                                                   const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
