// SPDX-License-Identifier: Apache-2.0
//
// Masks of random bits for dropout. Source: CANN operator documentation,
// "aclnnDropoutGenMask", "aclnnDropoutGenMaskV2".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans a mask for the elements of `shape`, n of them.
//   shape         host array, copied; its product n counts, no more. Empty: 1
//   prob          that an element is dropped, 0 to 1
//   seed, offset  choose the mask: it is a pure function of these and prob, and
//                 the mask of fewer elements begins that of more
//   out           UINT8, 16 * ceil(n / 128) elements, any rank and strides
// Element g is bit g % 8, counted from the lowest, of byte g / 8; a set bit
// keeps. Bits after the last element are random, too. This is what dropMask of
// the attention operators wants. Bits are those of Philox4x32-10 with the key
// `seed` and the counters (block, offset).
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: an argument is null; 161002: a negative axis, prob, out's type or
// number of elements.
__attribute__((visibility("default"))) aclnnStatus
aclnnDropoutGenMaskGetWorkspaceSize(const aclIntArray* shape, double prob,
                                    int64_t seed, int64_t offset,
                                    aclTensor* out, uint64_t* workspaceSize,
                                    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutGenMask(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

// The same mask. `probDataType`, the type of what will be dropped, must be
// ACL_FLOAT, ACL_FLOAT16 or ACL_BF16 (161002), and does not count otherwise:
// prob is not rounded to it.
__attribute__((visibility("default"))) aclnnStatus
aclnnDropoutGenMaskV2GetWorkspaceSize(const aclIntArray* shape, double prob,
                                      int64_t seed, int64_t offset,
                                      aclDataType probDataType, aclTensor* out,
                                      uint64_t* workspaceSize,
                                      aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutGenMaskV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

// The same with a seed that is seedTensor's element, and an offset that is the
// sum of offsetTensor's and `offset`, modulo 2^64. Both are INT64 tensors of
// one element, which is read when the task runs: a graph that is replayed draws
// another mask when they have changed.
__attribute__((visibility("default"))) aclnnStatus
aclnnDropoutGenMaskV2TensorGetWorkspaceSize(
    const aclIntArray* shape, double prob, const aclTensor* seedTensor,
    const aclTensor* offsetTensor, int64_t offset, aclDataType probDataType,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnDropoutGenMaskV2Tensor(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
