// SPDX-License-Identifier: Apache-2.0
//
// Attention of one new token per sequence for inference. Source: CANN operator
// documentation, "aclnnIncreFlashAttentionV3".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = softmax(mask(scale * q k^T + pse)) v for one query token
// in each of B sequences.
//   query              FLOAT16 or BF16, one token: [B, 1, H], [B, 1, N, D] or
//                      [B, N, 1, D]
//   key, value         lists of one tensor with B sequences, or of B tensors
//                      with one each; query's type or INT8. With blocktable:
//                      one tensor of blocks
//   pseShift           query's type, [B, N, 1, S] or [1, N, 1, S]
//   attenMask          BOOL, INT8 or UINT8, 1 hides: [B, S], [B, 1, S] or
//                      [B, 1, 1, S]
//   actualSeqLengths   valid keys of each sequence; null: all; one number: for
//                      all sequences
//   dequantScale1,     scales of an all-INT8 attention, which is refused: null
//   quantScale1,
//   dequantScale2
//   quantScale2,       FLOAT or BF16, one number or one per channel: makes
//   quantOffset2       attentionOut INT8
//   antiquantScale,    for INT8 keys and values: [2], or per channel [2, H],
//   antiquantOffset    [2, N, D] or [2, N, 1, D]; the offset may be null
//   blocktable         INT32, [B, blocks]: which blocks hold a sequence's keys
//   numHeads           query heads
//   scaleValue         usually 1 / sqrt(D)
//   inputLayout        "BSH", "BNSD" or "BSND"
//   numKeyValueHeads   key heads, a divisor of numHeads; 0: numHeads
//   blockSize          keys in one block; with blocktable
//   innerPrecise       0 or 1: with 1 and bf16, probs may be
//                      rounded to bf16, where that is faster; with 1 and
//                      INT8 keys, queries and probs to 16 bits of the
//                      greatest of their row
//   attentionOut       as query, or INT8
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type; 561002: shape, layout or
// value, or arguments that contradict each other.
__attribute__((visibility("default"))) aclnnStatus
aclnnIncreFlashAttentionV3GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, const aclTensor* antiquantScale,
    const aclTensor* antiquantOffset, const aclTensor* blocktable,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise,
    const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnIncreFlashAttentionV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
