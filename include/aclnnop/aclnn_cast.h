// SPDX-License-Identifier: Apache-2.0
//
// Elements as another type. Source: CANN operator documentation, "aclnnCast".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans out = self as `dtype`.
//   self     FLOAT, FLOAT16, BFLOAT16, DOUBLE, integers of 8, 16, 32 and 64
//            bits with and without sign, BOOL; COMPLEX64 and COMPLEX128 to the
//            same type only
//   dtype    one of these
//   out      of this type, with self's shape
// Floats are rounded to nearest even; floats become integers by truncation, NaN
// 0, what is beyond the range its end; integers wrap; BOOL is whether a number
// is not 0. Any strides; inputs may repeat with stride 0. At most 8 axes.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: an argument is null; 161002: type or shape.
__attribute__((visibility("default"))) aclnnStatus aclnnCastGetWorkspaceSize(
    const aclTensor* self, const aclDataType dtype, aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnCast(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
