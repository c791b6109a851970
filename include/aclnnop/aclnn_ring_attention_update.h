// SPDX-License-Identifier: Apache-2.0
//
// Merging attention to two parts of the keys. Source: CANN operator
// documentation, "aclnnRingAttentionUpdate".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans, row by row,
//   m = max(m1, m2),  l = l1 exp(m1 - m) + l2 exp(m2 - m),
//   out = (out1 l1 exp(m1 - m) + out2 l2 exp(m2 - m)) / l
//   prevAttnOut, curAttnOut  FLOAT, FLOAT16 or BFLOAT16, of one type: for "SBH"
//                            [S, B, N * D], for "TND" [T, N, D]
//   *SoftmaxMax, *SoftmaxSum FLOAT, eight equal numbers a row, whose first is
//                            read: for "SBH" [B, N, S, 8], for "TND" [T, N, 8]
//                            by shape, in memory [N, S_b, 8] sequence by
//                            sequence
//   actualSeqQlenOptional    for "TND": INT64 device tensor of where sequences
//                            end, which begins with 0; not looked at for "SBH"
//   inputLayoutOptional      "SBH" or "TND"; copied
//   attnOutOut, softmaxMaxOut, softmaxSumOut
//                            as the inputs; all eight numbers are written.
//                            They may be the inputs' memory
// A part whose max is -FLT_MAX and sum FLT_MAX, as the forward operators leave
// rows that see no key, weighs nothing, whatever its row holds; of two of them
// the result is a row of zeros and the same two numbers. Computed in fp32,
// rounded once. Any strides.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a tensor is null; 161002: type, rank, layout, an axis of 0, a last
// axis that is not 8; 561002: shapes do not match.
__attribute__((visibility("default"))) aclnnStatus
aclnnRingAttentionUpdateGetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
    const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
    const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional,
    aclTensor* attnOutOut, aclTensor* softmaxMaxOut, aclTensor* softmaxSumOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnRingAttentionUpdate(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
