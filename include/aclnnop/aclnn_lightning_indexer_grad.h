// SPDX-License-Identifier: Apache-2.0
//
// Backward of choosing the keys of sparse attention. Source: CANN operator
// documentation, "aclnnLightningIndexerGrad".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans the gradients of the scores that aclnnLightningIndexer gave to the keys
// it listed. For row t, entry u of its list with key j, and
// dot = query[t, h] . key[j]:
//   dWeights[t, h] += dy[t, u] * max(0, dot)
//   dQuery[t, h]   += dy[t, u] * weights[t, h] * key[j]       where dot > 0
//   dKey[j]        += dy[t, u] * weights[t, h] * query[t, h]  where dot > 0
//   query, dQuery      [B, S1, N, D] or [T1, N, D]; FLOAT16 or BF16, as all
//                      tensors for which nothing else is said
//   key, dKey          [B, S2, 1, D] or [T2, 1, D]
//   dy                 gradients of the listed scores, [B, S1, K],
//                      [B, S1, 1, K], [T1, K] or [T1, 1, K]
//   sparseIndices      INT32, of such a shape with the same K: the lists; the
//                      first negative entry ends one
//   weights, dWeights  [B, S1, N] or [T1, N]
//   actualSeqLengthsQuery,  INT32 or INT64, [B], device memory: where sequences
//   actualSeqLengthsKey     end; required for "TND", else not looked at
//   headNum            not looked at
//   layout             "BSND" or "TND"; null: "BSND"
//   sparseMode         0: every key may be listed; 3: none beyond the diagonal
//                      that ends at the last query and the last key
//   preTokens, nextTokens  not looked at
//   deterministic      accepted; the result always is
// Gradients are summed in fp32 and rounded once; all elements are written. Any
// strides.
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, layout or mode; 561002:
// shapes.
__attribute__((visibility("default"))) aclnnStatus
aclnnLightningIndexerGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* dy,
    const aclTensor* sparseIndices, const aclTensor* weights,
    const aclTensor* actualSeqLengthsQuery,
    const aclTensor* actualSeqLengthsKey, int64_t headNum, char* layout,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens,
    bool deterministic, const aclTensor* dQuery, const aclTensor* dKey,
    const aclTensor* dWeights, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnLightningIndexerGrad(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
