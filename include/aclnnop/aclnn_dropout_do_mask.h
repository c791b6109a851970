// SPDX-License-Identifier: Apache-2.0
//
// Elements that a mask keeps. Source: CANN operator documentation,
// "aclnnDropoutDoMask".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans out[g] = bit g of mask ? self[g] / (1 - prob) : 0, where g counts the
// elements in order of the shape.
//   self  FLOAT, FLOAT16 or BFLOAT16, n elements; at most 8 axes
//   mask  UINT8, 16 * ceil(n / 128) elements or more, as
//         aclnnDropoutGenMask makes them; not read where prob is 0 or 1
//   prob  0 to 1. 0: a copy; 1: zeros
//   out   self's shape; one of self's types or DOUBLE. It may be self
// What is dropped is 0, NaN or not. Computed in fp32, rounded once. Any
// strides; self and mask may repeat with stride 0. Without elements nothing is
// done. *workspaceSize is in bytes. The executor is the second phase's; it
// keeps nothing of the arguments but the addresses of device memory. 161001: an
// argument is null; 161002: type, shape, prob, too small a mask.
__attribute__((visibility("default"))) aclnnStatus
aclnnDropoutDoMaskGetWorkspaceSize(const aclTensor* self, const aclTensor* mask,
                                   double prob, aclTensor* out,
                                   uint64_t* workspaceSize,
                                   aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutDoMask(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
