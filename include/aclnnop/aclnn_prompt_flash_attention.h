// SPDX-License-Identifier: Apache-2.0
//
// Attention over whole prompts for inference. Source: CANN operator
// documentation, "aclnnPromptFlashAttention".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = softmax(mask(scale * q k^T)) v.
//   query, key, value  FLOAT16 or BF16, shaped as inputLayout says
//   pseShift           reserved, ignored
//   attenMask          BOOL, INT8 or UINT8, 1 hides: [Sq, Skv] or larger with
//                      leading dimensions of 1, or of B
//   actualSeqLengths   valid query tokens of each sequence; null: all. For SH:
//                      how long sequences are that lie one after the other
//   numHeads           query heads
//   scaleValue         usually 1 / sqrt(D)
//   preTokens,         the band's reach to the left and to the right, may be
//   nextTokens         negative; only with a mask; 2147483647 and 0 are usual
//   inputLayout        "BSH", "BSND", "BNSD", "BNSD_BSND", "NSD" or "SH"
//   numKeyValueHeads   key heads, a divisor of numHeads; 0: numHeads
//   attentionOut       as query with value's D
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, layout or heads; 561103:
// arguments that contradict each other.
__attribute__((visibility("default"))) aclnnStatus
aclnnPromptFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnPromptFlashAttention(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
