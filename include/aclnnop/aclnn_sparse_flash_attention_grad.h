// SPDX-License-Identifier: Apache-2.0
//
// Backward of attention over chosen keys. Source: CANN operator documentation,
// "aclnnSparseFlashAttentionGrad".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans the gradients of attention in which every query token sees only the
// blocks of keys its list names. All heads of a token share its list, and there
// is one key head.
//   query, dOut, out   [B, S1, N, D] or [T1, N, D]; FLOAT16 or BF16, as all
//                      tensors for which nothing else is said
//   key, value         [B, S2, 1, D] or [T2, 1, D]
//   sparseIndices      INT32 or INT64, [B, S1, 1, K] or [T1, 1, K]: numbers of
//                      blocks; the first negative one ends the list
//   softmaxMax,        FLOAT, [B, 1, S1, N] or [1, T1, N], as the forward wrote
//   softmaxSum         them
//   actualSeqLengthsQueryOptional,  INT32 or INT64, [B], device memory: where
//   actualSeqLengthskvOptional      sequences end; required for "TND"
//   queryRopeOptional,  [B, S1, N, Dr] or [T1, N, Dr]; [B, S2, 1, Dr] or
//   keyRopeOptional     [T2, 1, Dr]; both or none
//   scaleValue         usually 1 / sqrt(D)
//   sparseBlockSize    keys in one block: 1, 8, 16, 32 or 64
//   layoutOptional     "BSND" or "TND"; null: "BSND"
//   sparseMode         0: every key may be chosen; 3: none beyond the diagonal
//                      that ends at the last query and the last key
//   preTokens, nextTokens  no effect in these modes
//   deterministic      accepted; the result always is
//   dQueryOut, dKeyOut, dValueOut   as query, key, value
//   dQueryRopeOutOptional,  as queryRopeOptional and keyRopeOptional; required
//   dKeyRopeOutOptional     with them
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnSparseFlashAttentionGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* sparseIndices, const aclTensor* dOut, const aclTensor* out,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthskvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutOptional,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens,
    bool deterministic, const aclTensor* dQueryOut, const aclTensor* dKeyOut,
    const aclTensor* dValueOut, const aclTensor* dQueryRopeOutOptional,
    const aclTensor* dKeyRopeOutOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnSparseFlashAttentionGrad(void* workspace, uint64_t workspaceSize,
                              aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
