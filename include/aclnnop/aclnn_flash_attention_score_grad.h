// SPDX-License-Identifier: Apache-2.0
//
// Attention backward for training. Source: CANN operator documentation,
// "aclnnFlashAttentionUnpaddingScoreGradV5".
#pragma once

#include "aclnn/aclnn_base.h"

extern "C" {

// Plans the gradients of attention over sequences of different length packed
// one after the other: layout "TND".
//   query, queryRope          [Tq, N, D], [Tq, N, Dr]; FLOAT16, BF16 or FLOAT,
//                             as all tensors for which nothing else is said
//   keyIn, keyInRope, value   [Tkv, Nkv, D], [Tkv, Nkv, Dr], [Tkv, Nkv, Dv];
//                             ropes both or none; Nkv divides N
//   dy, attentionInOptional   [Tq, N, Dv]: the output's gradient, the output
//   pseShiftOptional          pseType 0, 1: Sq x Skv per sequence and head
//                             packed, or its last 1024 rows, [B|1, N, 1024,
//                             Skv]; pseType 2, 3: slopes, FLOAT, [B, N] or [N]
//   dropMaskOptional          UINT8: one bit per score, 1 keeps; not with rope
//   paddingMaskOptional,      reserved, ignored
//   softmaxInOptional
//   attenMaskOptional         BOOL or UINT8, 1 hides: Sq x Skv with leading
//                             dimensions B and N or 1, or compressed 2048^2
//   softmaxMaxOptional,       FLOAT, [Tq, N, 8], as the forward wrote them
//   softmaxSumOptional
//   sinkInOptional            FLOAT, [N]: a further score of every row
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   actualSeqQLenOptional,    required, where sequences end: [2, 2, 0, 2] is
//   actualSeqKvLenOptional    passed as [2, 4, 4, 6]; both of one size
//   qStartIdxOptional,        pseType 2, 3: positions of the first row and
//   kvStartIdxOptional        column, one number each
//   scaleValue, keepProb      usually 1 / sqrt(D); in (0, 1]
//   preTokens, nextTokens     the band's reach to the left and to the right
//   headNum, innerPrecise     N; no effect
//   sparseMode                0 to 8 but 5; 6 not with rope
//   pseType                   0 added after scaling, 1 before; 2 ALiBi from the
//                             slopes, 3 its square root
//   softmaxInLayout           order of max and sum: "same_as_input" [Tq, N, 8];
//                             "" or null: sequence by sequence [N, Sq, 8]
//   dqOut, dqRopeOut, dkOut,  gradients, each shaped like its operand; rope
//   dkRopeOut, dvOut          gradients are required with ropes
//   dpseOut                   may be null, else written
//   dsinkOut                  FLOAT, [N]; required with sinkInOptional
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// The same arguments; a workspace large enough whatever the lengths say, as
// long as the shapes stay. Refuses a drop mask (161002).
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5(void* workspace, uint64_t workspaceSize,
                                        aclOpExecutor* executor,
                                        const aclrtStream stream);

}  // extern "C"
