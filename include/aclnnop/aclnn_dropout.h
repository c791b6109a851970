// SPDX-License-Identifier: Apache-2.0
//
// Dropout: a mask, and what it keeps. Source: CANN operator documentation,
// "aclnnDropout".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans a mask as of aclnnDropoutGenMask, and what aclnnDropoutDoMask makes of
// `input` and this mask.
//   input    FLOAT, FLOAT16 or BFLOAT16, n elements; at most 8 axes
//   p        that an element is dropped, 0 to 1
//   train    false: out is a copy of the input
//   out      input's shape; one of its types or DOUBLE. It may be the input
//   maskOut  UINT8, 16 * ceil(n / 128) elements; not written where p is 0 or 1
//            or train is false
// Any strides. Without elements nothing is done.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a tensor is null; 161002: type, shape, p, maskOut's elements.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutGetWorkspaceSize(
    const aclTensor* input, double p, bool train, int64_t seed, int64_t offset,
    aclTensor* out, aclTensor* maskOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropout(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
