// SPDX-License-Identifier: Apache-2.0
//
// Attention of one new token per sequence for inference. Source: CANN operator
// documentation, "aclnnIncreFlashAttention".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = softmax(mask(scale * q k^T)) v for one query token
// in each of B sequences.
//   query              FLOAT16 or BF16, one token: [B, 1, H], [B, 1, N, D] or
//                      [B, N, 1, D]
//   key, value         lists of one tensor with B sequences, or of B tensors
//                      with one each; query's type
//   pseShift           reserved, ignored
//   attenMask          BOOL, INT8 or UINT8, 1 hides: [B, S], [B, 1, S] or
//                      [B, 1, 1, S]
//   actualSeqLengths   valid keys of each sequence; null: all; one number: for
//                      all sequences
//   numHeads           query heads
//   scaleValue         usually 1 / sqrt(D)
//   inputLayout        "BSH", "BNSD" or "BSND"
//   numKeyValueHeads   key heads, a divisor of numHeads; 0: numHeads
//   attentionOut       as query
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type; 561002: shape, layout or
// value, or arguments that contradict each other.
__attribute__((visibility("default"))) aclnnStatus
aclnnIncreFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnIncreFlashAttention(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
