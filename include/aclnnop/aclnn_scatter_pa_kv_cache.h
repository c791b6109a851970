// SPDX-License-Identifier: Apache-2.0
//
// New keys and values into the pages of a cache. Source: CANN operator
// documentation, "aclnnScatterPaKvCache".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans to write token i to row slot % bs of block slot / bs of the caches,
// where slot = slotMapping[i] and bs is the number of rows of a block.
//   key, value            [tokens, N, Dk], [tokens, N, Dv]: FLOAT16, BFLOAT16,
//                         INT8 or another type of as many bytes. value may be
//                         null or of rank 0, and its cache, too, but with
//                         "PA_NZ"
//   keyCacheRef, valueCacheRef  as key and value, in place; [blocks, bs, N, D],
//                         or as cacheMode and scatterMode say
//   slotMapping           [tokens], INT32 or INT64, read when the task runs.
//                         Tokens whose slot is negative or beyond the cache are
//                         skipped; of tokens with one slot the last is kept
//   compressLensOptional, compressSeqOffsetOptional, seqLensOptional  for
//                         compressed caches, which are refused; not looked at
//   cacheModeOptional     null, "" or "Norm"; "PA_NZ": caches [blocks, N * D /
//                         u, bs, u] or [blocks, N, D / u, bs, u], where u
//                         elements are 32 bytes; key may be INT8 beside a value
//                         of 2 bytes. Copied
//   scatterModeOptional   null, "" or "None"; "NHSD": caches [blocks, N, bs,
//                         D]; "Nct": row i of key and value begins offset + i *
//                         stride elements after the tensor's first. Not looked
//                         at with "PA_NZ". Copied
//   stridesOptional, offsetsOptional  of key and of value, for "Nct"; null or
//                         empty: those of the tensors, and 0. Copied
// What no token goes to keeps its bits. Any strides. Without key or cache
// elements nothing is done.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: key, keyCacheRef or slotMapping is null, or valueCacheRef beside
// value; 161002: a type, the rank of key or value; 561002: a mode, shapes that
// do not match, more tokens than the cache has rows, numbers for "Nct".
__attribute__((visibility("default"))) aclnnStatus
aclnnScatterPaKvCacheGetWorkspaceSize(
    const aclTensor* key, aclTensor* keyCacheRef, const aclTensor* slotMapping,
    const aclTensor* value, aclTensor* valueCacheRef,
    const aclTensor* compressLensOptional,
    const aclTensor* compressSeqOffsetOptional,
    const aclTensor* seqLensOptional, char* cacheModeOptional,
    char* scatterModeOptional, const aclIntArray* stridesOptional,
    const aclIntArray* offsetsOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0. 161001: null executor.
__attribute__((visibility("default"))) aclnnStatus aclnnScatterPaKvCache(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
