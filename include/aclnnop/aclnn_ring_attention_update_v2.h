// SPDX-License-Identifier: Apache-2.0
//
// Merging attention to two parts of the keys, version 2. Source: CANN operator
// documentation, "aclnnRingAttentionUpdateV2".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// As aclnnRingAttentionUpdate, and
//   inputSoftmaxLayoutOptional  how memory has the statistics of "TND": "TND":
//                               as their shape says; "", "SBH" or null: as in
//                               the first version. Not looked at for "SBH".
//                               Copied
// 561002: inputSoftmaxLayoutOptional is another text.
__attribute__((visibility("default"))) aclnnStatus
aclnnRingAttentionUpdateV2GetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
    const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
    const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional,
    char* inputSoftmaxLayoutOptional, aclTensor* attnOutOut,
    aclTensor* softmaxMaxOut, aclTensor* softmaxSumOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnRingAttentionUpdateV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
