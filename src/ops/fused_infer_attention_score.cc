// SPDX-License-Identifier: Apache-2.0
// The entry points of fused inference: aclnnFusedInferAttentionScore to V5. A
// version is the table without what it lacks. Its lowering is fused_infer.cc.
#include <algorithm>
#include <initializer_list>

#include "acl/executor.h"
#include "aclnnop/aclnn_fused_infer_attention_score.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v3.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v4.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v5.h"
#include "ops/fused_infer.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Bit;
using Call = FusedInferCall;

// INT32 holds eight INT4, which may also be passed as what they are.
constexpr acl::DTypeSet kKeyTypes =
    kRowTypes | Bit(DType::kI32) | Bit(DType::kI4x8);

constexpr acl::Argument KeyList(std::string_view name) {
  acl::Argument row = Required(name, kKeyTypes);
  row.list = true;
  return row;
}

constexpr InferenceTable kTable{{
    Required("query", kRowTypes),
    KeyList("key"),
    KeyList("value"),
    MayBeEmpty("pseShift", acl::kHalves),
    MayBeEmpty("attenMask", acl::kMaskBytes),
    MayBeEmpty("deqScale1", kDeqTypes),
    MayBeEmpty("quantScale1", acl::kF32Only),
    MayBeEmpty("deqScale2", kDeqTypes),
    MayBeEmpty("quantScale2", kScaleTypes),
    MayBeEmpty("quantOffset2", kScaleTypes),
    MayBeEmpty("antiquantScale", acl::kFloats),
    MayBeEmpty("antiquantOffset", acl::kFloats),
    MayBeEmpty("blockTable", Bit(DType::kI32)),
    MayBeEmpty("queryPaddingSize", Bit(DType::kI64)),
    MayBeEmpty("kvPaddingSize", Bit(DType::kI64)),
    MayBeEmpty("keyAntiquantScale", acl::kFloats),
    MayBeEmpty("keyAntiquantOffset", acl::kFloats),
    MayBeEmpty("valueAntiquantScale", acl::kFloats),
    MayBeEmpty("valueAntiquantOffset", acl::kFloats),
    MayBeEmpty("keySharedPrefix", kKeyTypes),
    MayBeEmpty("valueSharedPrefix", kKeyTypes),
    MayBeEmpty("queryRope", acl::kHalves),
    MayBeEmpty("keyRope", acl::kHalves),
    MayBeEmpty("keyRopeAntiquantScale", acl::kAnyType),
    MayBeEmpty("dequantScaleQuery", acl::kF32Only),
    // Other types than these two are refused later, with another status.
    MayBeEmpty("learnableSink", acl::kAnyType),
    Output("attentionOut", kRowTypes),
    {.name = "softmaxLse",
     .need = acl::Need::kMayBeEmpty,
     .dtypes = acl::kF32Only,
     .output = true},
}};
constexpr InferenceTable kThird =
    Without(kTable, {Call::kDequantScaleQuery, Call::kSink});
constexpr InferenceTable kSecond = Without(
    kThird, {Call::kQueryRope, Call::kKeyRope, Call::kKeyRopeAntiquantScale});
constexpr InferenceTable kFirst =
    Without(kSecond, {Call::kKeyAntiquantScale, Call::kKeyAntiquantOffset,
                      Call::kValueAntiquantScale, Call::kValueAntiquantOffset,
                      Call::kKeyPrefix, Call::kValuePrefix});

// The same where nobody asks for softmaxLse: it may be anything.
constexpr InferenceTable kFirstNoLse = Ignoring(kFirst, Call::kLse);
constexpr InferenceTable kSecondNoLse = Ignoring(kSecond, Call::kLse);
constexpr InferenceTable kThirdNoLse = Ignoring(kThird, Call::kLse);
constexpr InferenceTable kTableNoLse = Ignoring(kTable, Call::kLse);

// A version with and without softmaxLse.
struct Version {
  const acl::Operator& with_lse;
  acl::Operator without_lse;

  const acl::Operator& Of(const FusedInferArgs& args) const {
    return args.softmaxLseFlag ? with_lse : without_lse;
  }
};

constexpr aclnnStatus kContradictionStatus = 561002;

aclnnStatus Plan(const Version& version, Tensors tensors,
                 const FusedInferArgs& args, acl::PhaseOne answer) noexcept {
  return Prepare(version.Of(args), tensors, args, LowerFusedInfer, answer);
}

// As phase 1, where only the number of lengths is known for sure: the executor
// is for those that were given, if they can be, else for the greatest.
aclnnStatus PlanAny(const Version& version, Tensors tensors,
                    const FusedInferArgs& args, acl::PhaseOne answer) noexcept {
  uint64_t most = 0;
  const auto lower =
      [&](const acl::Arguments& arguments) -> Result<acl::Lowered> {
    FusedInferArgs widest = args;
    widest.any_lengths = true;
    Result<acl::Lowered> any = LowerFusedInfer(arguments, widest);
    if (!any.ok() || any->nothing) return any;
    const Result<uint64_t> bytes = acl::MostWorkspaceBytes(any->problem);
    if (!bytes.ok()) return bytes.status();
    most = *bytes;
    Result<acl::Lowered> given = LowerFusedInfer(arguments, args);
    if (given.ok()) return given;
    // Masks and biases are for lengths that nobody knows.
    any->problem[Slot::kMask] = any->problem[Slot::kBias] = {};
    any->problem.score.bias = Score::Bias::kNone;
    return any;
  };
  const aclnnStatus status = acl::Prepare(
      version.Of(args), {tensors.begin(), tensors.size()}, lower, answer);
  if (status == 0) {
    *answer.workspace_size = std::max(*answer.workspace_size, most);
  }
  return status;
}

}  // namespace

const acl::Operator kFusedInferAttentionScore{"aclnnFusedInferAttentionScore",
                                              kFirst, kContradictionStatus};
const acl::Operator kFusedInferAttentionScoreV2{
    "aclnnFusedInferAttentionScoreV2", kSecond, kContradictionStatus};
const acl::Operator kFusedInferAttentionScoreV3{
    "aclnnFusedInferAttentionScoreV3", kThird, kContradictionStatus};
const acl::Operator kFusedInferAttentionScoreV4{
    "aclnnFusedInferAttentionScoreV4", kTable, kContradictionStatus};
const acl::Operator kFusedInferAttentionScoreV5{
    "aclnnFusedInferAttentionScoreV5", kTable, kContradictionStatus};

namespace {

const Version kVersion1{
    kFusedInferAttentionScore,
    {"aclnnFusedInferAttentionScore", kFirstNoLse, kContradictionStatus}};
const Version kVersion2{
    kFusedInferAttentionScoreV2,
    {"aclnnFusedInferAttentionScoreV2", kSecondNoLse, kContradictionStatus}};
const Version kVersion3{
    kFusedInferAttentionScoreV3,
    {"aclnnFusedInferAttentionScoreV3", kThirdNoLse, kContradictionStatus}};
const Version kVersion4{
    kFusedInferAttentionScoreV4,
    {"aclnnFusedInferAttentionScoreV4", kTableNoLse, kContradictionStatus}};
const Version kVersion5{
    kFusedInferAttentionScoreV5,
    {"aclnnFusedInferAttentionScoreV5", kTableNoLse, kContradictionStatus}};

}  // namespace

}  // namespace flashacl::ops

using namespace flashacl::ops;

// Parameters that versions share, and the tensors among them.
#define FUSED_HEAD                                                       \
  const aclTensor *query, const aclTensorList *key,                      \
      const aclTensorList *value, const aclTensor *pseShift,             \
      const aclTensor *attenMask, const aclIntArray *actualSeqLengths,   \
      const aclIntArray *actualSeqLengthsKv, const aclTensor *deqScale1, \
      const aclTensor *quantScale1, const aclTensor *deqScale2,          \
      const aclTensor *quantScale2, const aclTensor *quantOffset2,       \
      const aclTensor *antiquantScale, const aclTensor *antiquantOffset, \
      const aclTensor *blockTable, const aclTensor *queryPaddingSize,    \
      const aclTensor *kvPaddingSize
#define FUSED_HEAD_TENSORS                                                    \
  query, key, value, pseShift, attenMask, deqScale1, quantScale1, deqScale2,  \
      quantScale2, quantOffset2, antiquantScale, antiquantOffset, blockTable, \
      queryPaddingSize, kvPaddingSize
#define FUSED_PREFIX                                                           \
  const aclTensor *keyAntiquantScale, const aclTensor *keyAntiquantOffset,     \
      const aclTensor *valueAntiquantScale,                                    \
      const aclTensor *valueAntiquantOffset, const aclTensor *keySharedPrefix, \
      const aclTensor *valueSharedPrefix,                                      \
      const aclIntArray *actualSharedPrefixLen
#define FUSED_PREFIX_TENSORS                                  \
  keyAntiquantScale, keyAntiquantOffset, valueAntiquantScale, \
      valueAntiquantOffset, keySharedPrefix, valueSharedPrefix
#define FUSED_ROPE                                      \
  const aclTensor *queryRope, const aclTensor *keyRope, \
      const aclTensor *keyRopeAntiquantScale
#define FUSED_ROPE_TENSORS queryRope, keyRope, keyRopeAntiquantScale
#define FUSED_SINK \
  const aclTensor *dequantScaleQuery, const aclTensor *learnableSink
#define FUSED_SINK_TENSORS dequantScaleQuery, learnableSink
#define FUSED_ATTRIBUTES                                                      \
  int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens, \
      char *inputLayout, int64_t numKeyValueHeads, int64_t sparseMode,        \
      int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode,         \
      bool softmaxLseFlag
#define FUSED_MODES int64_t keyAntiquantMode, int64_t valueAntiquantMode
#define FUSED_ANSWER                                          \
  const aclTensor *attentionOut, const aclTensor *softmaxLse, \
      uint64_t *workspaceSize, aclOpExecutor **executor

// What both kinds of phase 1 do with the parameters that every version has.
#define FUSED_COMMON                                                         \
  {                                                                          \
    actualSeqLengths, actualSeqLengthsKv, numHeads, scaleValue, preTokens,   \
        nextTokens, inputLayout, numKeyValueHeads, sparseMode, innerPrecise, \
        blockSize                                                            \
  }

// Both kinds of phase 1 of a version, and phase 2. `more` is what follows
// FUSED_COMMON in FusedInferArgs.
#define FLASHACL_FUSED_INFER(name, version, parameters, tensors, more) \
  extern "C" aclnnStatus name##GetWorkspaceSize parameters {           \
    return Plan(version, Tensors tensors, FusedInferArgs more,         \
                {workspaceSize, executor});                            \
  }                                                                    \
  extern "C" aclnnStatus name##GetMaxWorkspaceSize parameters {        \
    return PlanAny(version, Tensors tensors, FusedInferArgs more,      \
                   {workspaceSize, executor});                         \
  }                                                                    \
  FLASHACL_PHASE_TWO(name)

FLASHACL_FUSED_INFER(aclnnFusedInferAttentionScore, kVersion1,
                     (FUSED_HEAD, FUSED_ATTRIBUTES, FUSED_ANSWER),
                     ({FUSED_HEAD_TENSORS, attentionOut, softmaxLse}),
                     ({FUSED_COMMON, nullptr, antiquantMode, 0, 0, 0, 0,
                       softmaxLseFlag}))

FLASHACL_FUSED_INFER(
    aclnnFusedInferAttentionScoreV2, kVersion2,
    (FUSED_HEAD, FUSED_PREFIX, FUSED_ATTRIBUTES, FUSED_MODES, FUSED_ANSWER),
    ({FUSED_HEAD_TENSORS, FUSED_PREFIX_TENSORS, attentionOut, softmaxLse}),
    ({FUSED_COMMON, actualSharedPrefixLen, antiquantMode, keyAntiquantMode,
      valueAntiquantMode, 0, 0, softmaxLseFlag}))

FLASHACL_FUSED_INFER(aclnnFusedInferAttentionScoreV3, kVersion3,
                     (FUSED_HEAD, FUSED_PREFIX, FUSED_ROPE, FUSED_ATTRIBUTES,
                      FUSED_MODES, FUSED_ANSWER),
                     ({FUSED_HEAD_TENSORS, FUSED_PREFIX_TENSORS,
                       FUSED_ROPE_TENSORS, attentionOut, softmaxLse}),
                     ({FUSED_COMMON, actualSharedPrefixLen, antiquantMode,
                       keyAntiquantMode, valueAntiquantMode, 0, 0,
                       softmaxLseFlag}))

FLASHACL_FUSED_INFER(
    aclnnFusedInferAttentionScoreV4, kVersion4,
    (FUSED_HEAD, FUSED_PREFIX, FUSED_ROPE, FUSED_SINK, FUSED_ATTRIBUTES,
     FUSED_MODES, int64_t queryQuantMode, FUSED_ANSWER),
    ({FUSED_HEAD_TENSORS, FUSED_PREFIX_TENSORS, FUSED_ROPE_TENSORS,
      FUSED_SINK_TENSORS, attentionOut, softmaxLse}),
    ({FUSED_COMMON, actualSharedPrefixLen, antiquantMode, keyAntiquantMode,
      valueAntiquantMode, queryQuantMode, 0, softmaxLseFlag}))

FLASHACL_FUSED_INFER(
    aclnnFusedInferAttentionScoreV5, kVersion5,
    (FUSED_HEAD, FUSED_PREFIX, FUSED_ROPE, FUSED_SINK, const aclIntArray*,
     const aclIntArray*, FUSED_ATTRIBUTES, FUSED_MODES, int64_t queryQuantMode,
     int64_t pseType, FUSED_ANSWER),
    ({FUSED_HEAD_TENSORS, FUSED_PREFIX_TENSORS, FUSED_ROPE_TENSORS,
      FUSED_SINK_TENSORS, attentionOut, softmaxLse}),
    ({FUSED_COMMON, actualSharedPrefixLen, antiquantMode, keyAntiquantMode,
      valueAntiquantMode, queryQuantMode, pseType, softmaxLseFlag}))
