// SPDX-License-Identifier: Apache-2.0
//
// The gradient of dropout. Source: CANN operator documentation,
// "aclnnDropoutBackward".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans out[g] = bit g of mask ? gradOutput[g] * scale : 0.
//   gradOutput  FLOAT, FLOAT16 or BFLOAT16, n elements; at most 8 axes
//   mask        UINT8, 16 * ceil(n / 128) elements, aclnnDropout's maskOut; not
//               read where scale is 0 or 1
//   scale       1 / (1 - p), at least 1, or 0 for p = 1. 1: a copy; 0: zeros
//   out         gradOutput's shape; one of its types or DOUBLE. It may be
//               gradOutput
// Computed in fp32, rounded once. Any strides. Without elements nothing is
// done. *workspaceSize is in bytes. The executor is the second phase's; it
// keeps nothing of the arguments but the addresses of device memory. 161001: a
// tensor is null; 161002: type, shape, scale, mask's elements.
__attribute__((visibility("default"))) aclnnStatus
aclnnDropoutBackwardGetWorkspaceSize(const aclTensor* gradOutput,
                                     const aclTensor* mask, double scale,
                                     aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutBackward(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
