// SPDX-License-Identifier: Apache-2.0
//
// Merging attention to parts of the keys. Source: CANN operator documentation,
// "aclnnAttentionUpdate".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans, row by row,
//   top = max_p lse_p,  lse = top + ln sum_p exp(lse_p - top),
//   out = sum_p exp(lse_p - lse) localOut_p
//   lse         P tensors [R], FLOAT: the log-sum-exp of each part's scores;
//               +infinity, or -infinity, where a part saw no key
//   localOut    P tensors [R, D] of one type: FLOAT, FLOAT16 or BFLOAT16
//   updateType  0: out alone; 1: lseOut, too
//   out         [R, D], one of these types; it may be a member of localOut
//   lseOut      [R], FLOAT; null for updateType 0
// A part that saw no key weighs nothing, whatever its row holds. Where all saw
// none, out is 0 and lseOut +infinity, so that results can be merged again.
// Computed in fp32, rounded once. Any strides. Without rows nothing is done.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a list, a member or out is null; 161002: updateType, or lseOut that
// does not go with it (checked first); type, shape, number of members.
__attribute__((visibility("default"))) aclnnStatus
aclnnAttentionUpdateGetWorkspaceSize(const aclTensorList* lse,
                                     const aclTensorList* localOut,
                                     int64_t updateType, aclTensor* out,
                                     aclTensor* lseOut, uint64_t* workspaceSize,
                                     aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnAttentionUpdate(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
