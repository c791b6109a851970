// SPDX-License-Identifier: Apache-2.0
//
// Products of elements. Source: CANN operator documentation,
// "aclnnMul&aclnnInplaceMul".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans out = self * other.
//   self, other  FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT8, INT16, INT32, INT64,
//                UINT8 or BOOL; they promote to one type as in PyTorch, and
//                broadcast, from the last axis on; at most 8 axes
//   out          the broadcast shape; a type that the promoted one converts to:
//                floats to floats, integers to all but BOOL, BOOL to all. It
//                may be self or other, element for element
// 16-bit floats are computed with in fp32 and rounded once; integers wrap; of
// BOOL a product is "and". Any strides; inputs may repeat with stride 0.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: an argument is null; 161002: type or shape.
__attribute__((visibility("default"))) aclnnStatus aclnnMulGetWorkspaceSize(
    const aclTensor* self, const aclTensor* other, aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnMul(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

// The same with selfRef for self and out: the broadcast shape must be its own,
// and the result must convert to its type.
__attribute__((visibility("default"))) aclnnStatus
aclnnInplaceMulGetWorkspaceSize(aclTensor* selfRef, const aclTensor* other,
                                uint64_t* workspaceSize,
                                aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnInplaceMul(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
