// SPDX-License-Identifier: Apache-2.0
//
// Attention forward for training. Source: CANN operator documentation,
// "FlashAttentionVarLenScore".
#pragma once

#include "aclnn/aclnn_base.h"

extern "C" {

// Plans attentionOut = dropout(softmax(mask(scale * (q k^T + pse)))) v over
// sequences of different length packed one after the other: layout "TND".
//   query                     [Tq, N, D]; FLOAT16, BF16 or FLOAT, as the next
//                             four and attentionOutOut
//   key, value                [Tkv, Nkv, D], [Tkv, Nkv, Dv]; Nkv divides N
//   realShiftOptional         pse: Sq x Skv per sequence and head packed, or
//                             its last 1024 rows, [B|1, N, 1024, Skv]
//   dropMaskOptional          UINT8: one bit per score, 1 keeps
//   paddingMaskOptional       reserved, ignored
//   attenMaskOptional         BOOL or UINT8, 1 hides: [maxSq, maxSkv], or
//                             2048 x 2048 for compressed modes
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   actualSeqQLenOptional     required, where sequences end: [2, 2, 0, 2] is
//   actualSeqKvLenOptional    passed as [2, 4, 4, 6]; both of one size
//   scaleValueOptional        usually 1 / sqrt(D)
//   keepProbOptional          in (0, 1]; of the drop mask
//   preTokensOptional,        the band's reach to the left and to the right;
//   nextTokensOptional        sparse modes 0, 4, 7, 8
//   headNum                   N
//   innerPreciseOptional      0, 1 or 2; no effect on results here
//   sparseModeOptional        0 to 4, 6, 7, 8; only with a mask
//   softmaxMaxOut,            FLOAT, [Tq, N, 8]: greatest score and sum of
//   softmaxSumOut             exponentials of each row, eight times; sequence
//                             by sequence in the order [N, Sq, 8]
//   softmaxOutOut             reserved, ignored
//   attentionOutOut           [Tq, N, Dv]
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize,
                               aclOpExecutor* executor,
                               const aclrtStream stream);

}  // extern "C"
