// SPDX-License-Identifier: Apache-2.0
//
// Copies of elements. Source: CANN operator documentation,
// "aclnnInplaceCopy".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans selfRef = src, broadcast to selfRef's shape and converted to its type.
//   selfRef  FLOAT, FLOAT16, BFLOAT16, DOUBLE, integers of 8, 16, 32 and 64
//            bits with and without sign, BOOL; COMPLEX64 and COMPLEX128 to the
//            same type only
//   src      the same; a shape that broadcasts to selfRef's, from the last axis
//            on
// Floats are rounded to nearest even; floats become integers by truncation, NaN
// 0, what is beyond the range its end; integers wrap; BOOL is whether a number
// is not 0. Any strides; inputs may repeat with stride 0. At most 8 axes.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: an argument is null; 161002: type or shape.
__attribute__((visibility("default"))) aclnnStatus
aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                 uint64_t* workspaceSize,
                                 aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnInplaceCopy(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
