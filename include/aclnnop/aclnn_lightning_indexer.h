// SPDX-License-Identifier: Apache-2.0
//
// Choosing the keys of sparse attention. Source: CANN operator documentation,
// "aclnnLightningIndexer".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans, for each query token t of a sequence and its keys j,
//   score(t, j) = sum_h weights[t, h] * max(0, query[t, h] . key[j])
// and the list of the K keys with the highest scores, best first, of equal
// scores the lower key first, then -1: what aclnnSparseFlashAttention takes.
//   query              [B, S1, N, D] or [T1, N, D]; FLOAT16 or BF16
//   key                [B, S2, 1, D], [T2, 1, D] or, for "PA_BSND", blocks of
//                      [blocks, blockSize, 1, D]; as query
//   weights            [B, S1, N] or [T1, N]; as query, or FLOAT
//   actualSeqLengthsQueryOptional,  INT32 or INT64, [B], device memory: "TND",
//   actualSeqLengthsKeyOptional     where sequences end, required; else how
//                                   long they are, of keys required with
//                                   "PA_BSND"; null: all
//   blockTableOptional INT32, [B, blocks]: which blocks hold a sequence's keys;
//                      with "PA_BSND" only, and then required
//   layoutQueryOptional  "BSND" or "TND"; null: "BSND"
//   layoutKeyOptional  as layoutQuery, or "PA_BSND"; null: "BSND"
//   sparseCount        K, 1 or more
//   sparseMode         0: every key may be chosen; 3: none beyond the diagonal
//                      that ends at the last query and the last key
//   preTokens, nextTokens  9223372036854775807 or 2147483647
//   returnValues       whether sparseValuesOut is written
//   sparseIndicesOut   INT32, [B, S1, 1, K] or [T1, 1, K]; counted within the
//                      sequence
//   sparseValuesOut    the scores of the list, then -infinity; as query, shape
//                      as sparseIndicesOut. Untouched without returnValues, and
//                      then null or of any shape
// Scores are fp32; a NaN is above all others. Any strides.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, layout or value; 561002:
// shapes, or a table without pages.
__attribute__((visibility("default"))) aclnnStatus
aclnnLightningIndexerGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* weights,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthsKeyOptional,
    const aclTensor* blockTableOptional, char* layoutQueryOptional,
    char* layoutKeyOptional, int64_t sparseCount, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, bool returnValues,
    const aclTensor* sparseIndicesOut, const aclTensor* sparseValuesOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnLightningIndexer(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
