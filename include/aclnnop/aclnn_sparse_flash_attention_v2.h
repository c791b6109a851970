// SPDX-License-Identifier: Apache-2.0
//
// Attention over chosen keys. Source: CANN operator documentation,
// "aclnnSparseFlashAttentionV2".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attention in which every query token sees only the blocks of keys its
// list names. All heads of a token share its list, and there is one key head.
//   query              [B, S1, N, D] or [T1, N, D]; FLOAT16 or BF16, as all
//                      tensors for which nothing else is said
//   key, value         [B, S2, 1, D], [T2, 1, D] or, for "PA_BSND", blocks of
//                      [blocks, blockSize, 1, D]; a null value is the key
//   sparseIndices      INT32 or INT64, [B, S1, 1, K] or [T1, 1, K]: numbers of
//                      blocks of sparseBlockSize keys, counted within the
//                      sequence; the first negative one ends the list
//   blockTableOptional INT32, [B, blocks]: which blocks hold a sequence's keys;
//                      with "PA_BSND" only, and then required
//   actualSeqLengthsQueryOptional,  INT32 or INT64, [B], device memory: "TND",
//   actualSeqLengthsKvOptional      where sequences end, required; else how
//                                   long they are, of keys required with
//                                   "PA_BSND"; null: all
//   queryRopeOptional,  [B, S1, N, Dr] or [T1, N, Dr]; as key with Dr; both or
//   keyRopeOptional     none
//   sinksOptional      FLOAT, [N]: for each head a score whose key has no
//                      value; not with "PA_BSND"
//   scaleValue         factor of the scores
//   sparseBlockSize    keys one entry of a list stands for
//   layoutQuery        "BSND" or "TND"; null: "BSND"
//   layoutKv           as layoutQuery, or "PA_BSND"; null: "BSND"
//   sparseMode         0: every key may be chosen; 3: none beyond the diagonal
//                      that ends at the last query and the last key
//   preTokens, nextTokens  9223372036854775807 or 2147483647
//   attentionMode      2
//   returnSoftmaxLse   whether softmaxMaxOut and softmaxSumOut are written; not
//                      with "PA_BSND"
//   attentionOut       as query, with value's D
//   softmaxMaxOut,     FLOAT, [B, 1, S1, N] or [1, T1, N]; untouched without
//   softmaxSumOut      returnSoftmaxLse, and then null or of any shape
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnSparseFlashAttentionV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* sparseIndices, const aclTensor* blockTableOptional,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthsKvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    const aclTensor* sinksOptional, double scaleValue, int64_t sparseBlockSize,
    char* layoutQuery, char* layoutKv, int64_t sparseMode, int64_t preTokens,
    int64_t nextTokens, int64_t attentionMode, bool returnSoftmaxLse,
    const aclTensor* attentionOut, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnSparseFlashAttentionV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
