// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, forward: aclnnFlashAttentionVarLenScore, V2
// to V5.
//   out = dropout(softmax(mask(scale * (q k^T + pse)))) v
// docs/operators/flash_attention_varlen.md has the arguments and the limits.

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
constexpr forward::Table kWithRope = Without(forward::kTable, {forward::kSink});
constexpr forward::Table kWithAll = Without(forward::kTable, {});

}  // namespace

const acl::Operator kFlashAttentionVarLenScore{"aclnnFlashAttentionVarLenScore",
                                               kPlain, kContradictory};
const acl::Operator kFlashAttentionVarLenScoreV2{
    "aclnnFlashAttentionVarLenScoreV2", kPlain, kContradictory};
const acl::Operator kFlashAttentionVarLenScoreV3{
    "aclnnFlashAttentionVarLenScoreV3", kWithRope, kContradictory};
const acl::Operator kFlashAttentionVarLenScoreV4{
    "aclnnFlashAttentionVarLenScoreV4", kPlain, kContradictory};
const acl::Operator kFlashAttentionVarLenScoreV5{
    "aclnnFlashAttentionVarLenScoreV5", kWithAll, kContradictory};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionVarLenScore,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOut, softmaxSumOut,
       softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional), kNoArrays,
       scaleValueOptional, keepProbOptional, preTokensOptional,
       nextTokensOptional, headNum, inputLayout, innerPreciseOptional,
       sparseModeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionVarLenScore)

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionVarLenScoreV2,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOut, softmaxSumOut,
       softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionVarLenScoreV2)

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionVarLenScoreV3,
      {query, queryRope, key, keyRope, value, realShiftOptional,
       dropMaskOptional, paddingMaskOptional, attenMaskOptional, softmaxMaxOut,
       softmaxSumOut, softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionVarLenScoreV3)

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionVarLenScoreV4,
      {query, key, value, realShiftOptional, dropMaskOptional,
       paddingMaskOptional, attenMaskOptional, softmaxMaxOut, softmaxSumOut,
       softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional), kNoArrays,
       scaleValueOptional, keepProbOptional, preTokensOptional,
       nextTokensOptional, headNum, inputLayout, innerPreciseOptional,
       sparseModeOptional, TrainingArgs::kPseTypeUnlessSaid, softmaxOutLayout},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionVarLenScoreV4)

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return forward::PrepareForward(
      kFlashAttentionVarLenScoreV5,
      {query, queryRope, key, keyRope, value, realShiftOptional,
       dropMaskOptional, paddingMaskOptional, attenMaskOptional, sinkOptional,
       softmaxMaxOut, softmaxSumOut, softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional,
       softmaxOutLayout},
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return forward::PrepareForwardForMaxLengths(
      kFlashAttentionVarLenScoreV5,
      {query, queryRope, key, keyRope, value, realShiftOptional,
       dropMaskOptional, paddingMaskOptional, attenMaskOptional, sinkOptional,
       softmaxMaxOut, softmaxSumOut, softmaxOutOut, attentionOutOut},
      {Sequences::kPacked, prefixOptional,
       ArrayPair(actualSeqQLenOptional, actualSeqKvLenOptional),
       ArrayPair(qStartIdxOptional, kvStartIdxOptional), scaleValueOptional,
       keepProbOptional, preTokensOptional, nextTokensOptional, headNum,
       inputLayout, innerPreciseOptional, sparseModeOptional, pseTypeOptional,
       softmaxOutLayout},
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnFlashAttentionVarLenScoreV5)
