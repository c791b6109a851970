// SPDX-License-Identifier: Apache-2.0
//
// Attention over a key-value cache with sinks. Source: CANN
// operator documentation, "aclnnFusedInferAttentionScoreV4".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// As aclnnFusedInferAttentionScoreV3, and
//   dequantScaleQuery  query's shape without its channels, in BSH [B,S,N],
//                      FLOAT: of INT8 query beside INT8 key and value, a scale
//                      per row and head. Then queryRope and keyRope are BF16
//                      and not scaled, attentionOut is BF16, and
//                      keyAntiquantScale and valueAntiquantScale are one FLOAT
//                      each, without offsets
//   learnableSink      [N], BF16, or FLOAT16 with FLOAT16 query: the score of a
//                      key that each row of a head sees and whose value is 0
//   queryQuantMode     3 with dequantScaleQuery, else 0
// Ownership and errors are as there.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclIntArray* actualSeqLengthsKv, const aclTensor* deqScale1,
    const aclTensor* quantScale1, const aclTensor* deqScale2,
    const aclTensor* quantScale2, const aclTensor* quantOffset2,
    const aclTensor* antiquantScale, const aclTensor* antiquantOffset,
    const aclTensor* blockTable, const aclTensor* queryPaddingSize,
    const aclTensor* kvPaddingSize, const aclTensor* keyAntiquantScale,
    const aclTensor* keyAntiquantOffset, const aclTensor* valueAntiquantScale,
    const aclTensor* valueAntiquantOffset, const aclTensor* keySharedPrefix,
    const aclTensor* valueSharedPrefix,
    const aclIntArray* actualSharedPrefixLen, const aclTensor* queryRope,
    const aclTensor* keyRope, const aclTensor* keyRopeAntiquantScale,
    const aclTensor* dequantScaleQuery, const aclTensor* learnableSink,
    int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens,
    char* inputLayout, int64_t numKeyValueHeads, int64_t sparseMode,
    int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode,
    bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode,
    int64_t queryQuantMode, const aclTensor* attentionOut,
    const aclTensor* softmaxLse, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As aclnnFusedInferAttentionScoreGetMaxWorkspaceSize.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV4GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclIntArray* actualSeqLengthsKv, const aclTensor* deqScale1,
    const aclTensor* quantScale1, const aclTensor* deqScale2,
    const aclTensor* quantScale2, const aclTensor* quantOffset2,
    const aclTensor* antiquantScale, const aclTensor* antiquantOffset,
    const aclTensor* blockTable, const aclTensor* queryPaddingSize,
    const aclTensor* kvPaddingSize, const aclTensor* keyAntiquantScale,
    const aclTensor* keyAntiquantOffset, const aclTensor* valueAntiquantScale,
    const aclTensor* valueAntiquantOffset, const aclTensor* keySharedPrefix,
    const aclTensor* valueSharedPrefix,
    const aclIntArray* actualSharedPrefixLen, const aclTensor* queryRope,
    const aclTensor* keyRope, const aclTensor* keyRopeAntiquantScale,
    const aclTensor* dequantScaleQuery, const aclTensor* learnableSink,
    int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens,
    char* inputLayout, int64_t numKeyValueHeads, int64_t sparseMode,
    int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode,
    bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode,
    int64_t queryQuantMode, const aclTensor* attentionOut,
    const aclTensor* softmaxLse, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV4(void* workspace, uint64_t workspaceSize,
                                aclOpExecutor* executor,
                                const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
