// SPDX-License-Identifier: Apache-2.0
//
// Attention over a key-value cache with scales of each token and shared
// prefixes. Source: CANN operator documentation,
// "aclnnFusedInferAttentionScoreV2".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// As aclnnFusedInferAttentionScore, and
//   key, value            also INT4: INT32 with a last dimension of an eighth,
//                         eight numbers to an element, the first in its lowest
//                         bits; or INT4 itself. No mode 2, 4 or 5, no [1], no
//                         padding
//   keyAntiquantScale,    for INT8 and INT4 keys and values, in place of
//   keyAntiquantOffset,   antiquantScale and antiquantOffset; both scales or
//   valueAntiquantScale,  neither, both offsets or neither. Mode 0: query's
//   valueAntiquantOffset  type, [1] or one per channel of the key heads; 1:
//                         FLOAT, [B, Skv] or [1, B, Skv]; 2: query's type,
//                         [Nkv]; 3: FLOAT, [B, Nkv, Skv]; 4: FLOAT, [blocks,
//                         blockSize]; 5: FLOAT, [blocks, Nkv, blockSize]
//   keySharedPrefix,      keys and values that come before those of every
//   valueSharedPrefix     sequence: as key and value, one sequence
//   actualSharedPrefixLen one number: keys of the prefix; null: all
//   keyAntiquantMode,     0 to 5, the same, or 0 for keys and 1 for values
//   valueAntiquantMode
// Ownership and errors are as there.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
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
    const aclIntArray* actualSharedPrefixLen, int64_t numHeads,
    double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    int64_t keyAntiquantMode, int64_t valueAntiquantMode,
    const aclTensor* attentionOut, const aclTensor* softmaxLse,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As aclnnFusedInferAttentionScoreGetMaxWorkspaceSize.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV2GetMaxWorkspaceSize(
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
    const aclIntArray* actualSharedPrefixLen, int64_t numHeads,
    double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    int64_t keyAntiquantMode, int64_t valueAntiquantMode,
    const aclTensor* attentionOut, const aclTensor* softmaxLse,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreV2(void* workspace, uint64_t workspaceSize,
                                aclOpExecutor* executor,
                                const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
