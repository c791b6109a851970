// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, backward:
// aclnnFlashAttentionUnpaddingScoreGrad, V2 to V5.
// With P = exp(S - max) / sum from the caller's max and sum, dP = dropout(dY
// V^T), delta = sum(dY * out):
//   dS = P * (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
//   dV = dropout(P)^T dY,  dsink = -sum(P * dP * exp(sink - max) / sum).
// docs/operators/flash_attention_varlen_grad.md has arguments and limits.

#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "ops/entry.h"
#include "ops/operators.h"
#include "ops/training_backward.h"

namespace flashacl::ops {
namespace {

// Also what the device finds late and answers otherwise.
constexpr aclnnStatus kContradictory = 161002;

constexpr backward::Table kPlain =
    Without(backward::kTable,
            {backward::kQueryRope, backward::kKeyRope, backward::kDqRope,
             backward::kDkRope, backward::kSink, backward::kDsink});
constexpr backward::Table kWithRope =
    Without(backward::kTable, {backward::kSink, backward::kDsink});
constexpr backward::Table kWithAll = Without(backward::kTable, {});

}  // namespace

const acl::Operator kFlashAttentionUnpaddingScoreGrad{
    "aclnnFlashAttentionUnpaddingScoreGrad", kPlain, kContradictory};
const acl::Operator kFlashAttentionUnpaddingScoreGradV2{
    "aclnnFlashAttentionUnpaddingScoreGradV2", kPlain, kContradictory};
const acl::Operator kFlashAttentionUnpaddingScoreGradV3{
    "aclnnFlashAttentionUnpaddingScoreGradV3", kWithRope, kContradictory};
const acl::Operator kFlashAttentionUnpaddingScoreGradV4{
    "aclnnFlashAttentionUnpaddingScoreGradV4", kPlain, kContradictory};
const acl::Operator kFlashAttentionUnpaddingScoreGradV5{
    "aclnnFlashAttentionUnpaddingScoreGradV5", kWithAll, kContradictory};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionUnpaddingScoreGrad,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional, dqOut, dkOut,
       dvOut, dpseOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional), kNoArrays,
       scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout,
       innerPrecise, sparseMode},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionUnpaddingScoreGrad)

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionUnpaddingScoreGradV2,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional, dqOut, dkOut,
       dvOut, dpseOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionUnpaddingScoreGradV2)

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionUnpaddingScoreGradV3,
      {query,
       queryRope,
       keyIn,
       keyInRope,
       value,
       dy,
       pseShiftOptional,
       dropMaskOptional,
       paddingMaskOptional,
       attenMaskOptional,
       softmaxMaxOptional,
       softmaxSumOptional,
       softmaxInOptional,
       attentionInOptional,
       dqOut,
       dqRopeOut,
       dkOut,
       dkRopeOut,
       dvOut,
       dpseOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionUnpaddingScoreGradV3)

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, char* softmaxInLayout, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionUnpaddingScoreGradV4,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional, dqOut, dkOut,
       dvOut, dpseOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional), kNoArrays,
       scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout,
       innerPrecise, sparseMode, TrainingArgs::kPseTypeUnlessSaid,
       softmaxInLayout, TrainingArgs::kOnlyKnownLayouts},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionUnpaddingScoreGradV4)

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionUnpaddingScoreGradV5,
      {query,
       queryRope,
       keyIn,
       keyInRope,
       value,
       dy,
       pseShiftOptional,
       dropMaskOptional,
       paddingMaskOptional,
       attenMaskOptional,
       softmaxMaxOptional,
       softmaxSumOptional,
       softmaxInOptional,
       attentionInOptional,
       sinkInOptional,
       dqOut,
       dqRopeOut,
       dkOut,
       dkRopeOut,
       dvOut,
       dpseOut,
       dsinkOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType, softmaxInLayout},
      {workspaceSize, executor});
}

extern "C" aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return backward::PrepareBackwardForMaxLengths(
      kFlashAttentionUnpaddingScoreGradV5,
      {query,
       queryRope,
       keyIn,
       keyInRope,
       value,
       dy,
       pseShiftOptional,
       dropMaskOptional,
       paddingMaskOptional,
       attenMaskOptional,
       softmaxMaxOptional,
       softmaxSumOptional,
       softmaxInOptional,
       attentionInOptional,
       sinkInOptional,
       dqOut,
       dqRopeOut,
       dkOut,
       dkRopeOut,
       dvOut,
       dpseOut,
       dsinkOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType, softmaxInLayout},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionUnpaddingScoreGradV5)
