// SPDX-License-Identifier: Apache-2.0
//
// Keys and values out of the pages of a cache. Source: CANN operator
// documentation, "aclnnGatherPaKvCache".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans to write row t of sequence b, one sequence after the other, from row
// t % bs of block blockTables[b][seqOffset[b] / bs + t / bs], where bs is the
// number of rows of a block.
//   keyCache, valueCache  "Norm": [blocks, bs, N, D]; "PA_NZ": [blocks, N * D /
//                         u, bs, u], where u elements are 32 bytes. FLOAT16,
//                         BFLOAT16, INT8 or another type of as many bytes; D of
//                         keys and values may differ
//   blockTables           [B, M]: INT32 or INT64, as seqLens and seqOffset. All
//                         three are read when the task runs
//   seqLens               [B]; with isSeqLensCumsum [B + 1], beginning with 0
//   keyRef, valueRef      "Norm": [rows, N, D]; "PA_NZ": [rows, N * D]; of the
//                         caches' types, but that with "PA_NZ" keys may be INT8
//                         beside values of 2 bytes
//   seqOffsetOptional     [B]: rows to leave out before each sequence, rounded
//                         down to whole blocks; null: none
//   cacheMode             "Norm" or "PA_NZ"; copied
// Lengths end where the results do. Rows of columns that blockTables does not
// have and of blocks that the caches do not have keep their bits, and so do
// rows after the last sequence. Any strides.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: anything but seqOffsetOptional is null; 161002: types, ranks; 561002:
// cacheMode, axes that do not match.
__attribute__((visibility("default"))) aclnnStatus
aclnnGatherPaKvCacheGetWorkspaceSize(
    const aclTensor* keyCache, const aclTensor* valueCache,
    const aclTensor* blockTables, const aclTensor* seqLens, aclTensor* keyRef,
    aclTensor* valueRef, const aclTensor* seqOffsetOptional, char* cacheMode,
    bool isSeqLensCumsum, uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnGatherPaKvCache(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
