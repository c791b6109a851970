// SPDX-License-Identifier: Apache-2.0
//
// Attention over whole prompts for inference, with lengths of keys, sparse
// modes, INT8 and a bias. Source: CANN operator documentation,
// "aclnnPromptFlashAttentionV3".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = softmax(mask(scale * q k^T + pse)) v. With INT8 query,
// key and value, products are of integers:
//   attentionOut = sum_j int8(quantScale1 * p_j) v_j * deqScale2 / sum_j p_j
//   p_j = exp(s_j - max_j s_j),  s = scaleValue * deqScale1 * q k^T + pse
//   query, key, value  FLOAT16, BF16 or INT8, shaped as inputLayout says
//   pseShift           added to the scaled scores: [1 or B, N, Sq, Skv] or
//                      larger, query's type (FLOAT16 with INT8); may be null
//   attenMask          BOOL, INT8 or UINT8, 1 hides: [Sq, Skv] or larger with
//                      leading dimensions of 1, or of B; for sparseMode 2 to 4
//                      [2048, 2048], whose contents are not read
//   actualSeqLengths   valid query tokens of each sequence; null: all. For TND
//                      and NTD: where each sequence ends
//   actualSeqLengthsKv the same of keys
//   deqScale1,         FLOAT or UINT64, one number each: with INT8 query only
//   deqScale2
//   quantScale1        FLOAT, one number: with INT8 query only
//   quantScale2,       FLOAT, or BF16 with BF16 query; one number or one per
//   quantOffset2       channel: make attentionOut INT8; the offset may be null
//   numHeads           query heads
//   scaleValue         usually 1 / sqrt(D)
//   preTokens,         the band's reach to the left and to the right, may be
//   nextTokens         negative; with a mask in sparseMode 0, and in sparseMode
//                      4, where it is measured from the bottom right corner
//   inputLayout        "BSH", "BSND", "BNSD", "BNSD_BSND", "NSD", "SH", "TND"
//                      or "NTD"
//   numKeyValueHeads   key heads, a divisor of numHeads; 0: numHeads
//   sparseMode         0: mask and band; 1: mask; 2: causal from the top left
//                      corner; 3: from the bottom right; 4: band
//   innerPrecise       0 to 3, not negative: if odd and bf16, probs may
//                      be rounded to bf16, where that is faster
//   attentionOut       as query with value's D; FLOAT16 or INT8 with INT8 query
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, layout or heads; 561103:
// arguments that contradict each other.
__attribute__((visibility("default"))) aclnnStatus
aclnnPromptFlashAttentionV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, const aclIntArray* actualSeqLengthsKv,
    const aclTensor* deqScale1, const aclTensor* quantScale1,
    const aclTensor* deqScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnPromptFlashAttentionV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
