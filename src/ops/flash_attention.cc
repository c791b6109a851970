// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of one length, forward: aclnnFlashAttentionScore, V2
// and V3.
//   out = dropout(softmax(mask(scale * (q k^T + pse)))) v
// docs/operators/flash_attention.md has the arguments and the limits.

#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "ops/entry.h"
#include "ops/operators.h"
#include "ops/training_forward.h"

namespace flashacl::ops {
namespace {

// Shapes and numbers that contradict one another.
constexpr aclnnStatus kContradictory = 561103;

constexpr forward::Table kPlain = Without(
    forward::kTable, {forward::kQueryRope, forward::kKeyRope, forward::kSink});
constexpr forward::Table kWithSink =
    Without(forward::kTable, {forward::kQueryRope, forward::kKeyRope});

}  // namespace

const acl::Operator kFlashAttentionScore{"aclnnFlashAttentionScore", kPlain,
                                         kContradictory};
const acl::Operator kFlashAttentionScoreV2{"aclnnFlashAttentionScoreV2", kPlain,
                                           kContradictory};
const acl::Operator kFlashAttentionScoreV3{"aclnnFlashAttentionScoreV3",
                                           kWithSink, kContradictory};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionScore,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOut, softmaxSumOut,
       softmaxOutOut, attentionOutOut},
      {Sequences::kDense, prefixOptional, kNoArrays, kNoArrays,
       scaleValueOptional, keepProbOptional, preTokensOptional,
       nextTokensOptional, headNum, inputLayout, innerPreciseOptional,
       sparseModeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScore)

extern "C" aclnnStatus aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionScoreV2,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOut, softmaxSumOut,
       softmaxOutOut, attentionOutOut},
      {Sequences::kDense, prefixOptional, kNoArrays,
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScoreV2)

extern "C" aclnnStatus aclnnFlashAttentionScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionScoreV3,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, sinkOptional, softmaxMaxOut,
       softmaxSumOut, softmaxOutOut, attentionOutOut},
      {Sequences::kDense, prefixOptional, kNoArrays,
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionScoreV3)
