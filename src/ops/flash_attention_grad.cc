// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of one length, backward:
// aclnnFlashAttentionScoreGrad, V2 and V3.
// With P = exp(S - max) / sum from the caller's max and sum, dP = dropout(dY
// V^T), delta = sum(dY * out):
//   dS = P * (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
//   dV = dropout(P)^T dY,  dsink = -sum(P * dP * exp(sink - max) / sum).
// docs/operators/flash_attention_grad.md has arguments and limits.

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
constexpr backward::Table kWithSink =
    Without(backward::kTable, {backward::kQueryRope, backward::kKeyRope,
                               backward::kDqRope, backward::kDkRope});

}  // namespace

const acl::Operator kFlashAttentionScoreGrad{"aclnnFlashAttentionScoreGrad",
                                             kPlain, kContradictory};
const acl::Operator kFlashAttentionScoreGradV2{"aclnnFlashAttentionScoreGradV2",
                                               kPlain, kContradictory};
const acl::Operator kFlashAttentionScoreGradV3{"aclnnFlashAttentionScoreGradV3",
                                               kWithSink, kContradictory};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionScoreGrad,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional, dqOut, dkOut,
       dvOut, dpseOut},
      {Sequences::kDense, prefixOptional, kNoArrays, kNoArrays, scaleValue,
       keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise,
       sparseMode},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScoreGrad)

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionScoreGradV2,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional, dqOut, dkOut,
       dvOut, dpseOut},
      {Sequences::kDense, prefixOptional, kNoArrays,
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScoreGradV2)

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return backward::PrepareBackward(
      kFlashAttentionScoreGradV3,
      {query, keyIn, value, dy, pseShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOptional,
       softmaxSumOptional, softmaxInOptional, attentionInOptional,
       sinkInOptional, dqOut, dkOut, dvOut, dpseOut, dsinkOut},
      {Sequences::kDense, prefixOptional, kNoArrays,
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValue, keepProb,
       preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
       pseType},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScoreGradV3)
