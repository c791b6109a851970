// SPDX-License-Identifier: Apache-2.0
//
// Attention forward for training. Source: CANN operator documentation,
// "FlashAttentionScore", "FlashAttentionVarLenScore" and their later versions.
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = dropout(softmax(mask(scale * (q k^T + pse)))) v over B
// sequences of one length. Shapes are given for layout "BNSD".
//   query                     [B, N, Sq, D]; FLOAT16, BF16 or FLOAT, as the
//                             next three and attentionOutOut
//   key, value                [B, Nkv, Skv, D], [B, Nkv, Skv, Dv]; Nkv divides
//                             N, Dv is at most D, D at most 768
//   realShiftOptional         pse: [B|1, N, Sq|1, Skv], or its last 1024 rows
//   dropMaskOptional          UINT8: one bit per score in the order [B, N, Sq,
//                             Skv], 1 keeps
//   paddingMaskOptional       reserved, ignored
//   attenMaskOptional         BOOL or UINT8, 1 hides: [Sq, Skv], [1, 1, Sq,
//                             Skv], [B, 1, Sq, Skv] or [B, N, Sq, Skv]; 2048 x
//                             2048 for sparse modes 2, 3, 4; 3072 x 2048 for 6
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   scaleValueOptional        usually 1 / sqrt(D)
//   keepProbOptional          in (0, 1]; of the drop mask
//   preTokensOptional,        the band's reach to the left and to the right;
//   nextTokensOptional        sparse modes 0 and 4
//   headNum                   N
//   inputLayout               "BNSD"; "BSND" [B, S, N, D]; "BSH" [B, S, N * D];
//                             "SBH" [S, B, N * D]; small letters too
//   innerPreciseOptional      0, 1 or 2: with 1 and bf16, probs may
//                             be rounded to bf16, where that is faster
//   sparseModeOptional        0 to 6; only with a mask
//   softmaxMaxOut,            FLOAT, [B, N, Sq, 8] in every layout: greatest
//   softmaxSumOut             score and sum of exponentials of each row, eight
//                             times
//   softmaxOutOut             reserved, ignored
//   attentionOutOut           [B, N, Sq, Dv]
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value;
// 561103: arguments that contradict one another.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnFlashAttentionScore(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

// The same with a choice of how pse enters a score:
//   pseTypeOptional           1: scale * (q.k + pse), as the first version;
//                             0: scale * q.k + pse; 2: scale * q.k - slope *
//                             |distance|; 3: with the root of |distance|; the
//                             last two need Sq = Skv
//   realShiftOptional         pseType 2, 3: slopes, FLOAT, [N] or [B, N];
//                             required unless pseType is 1
//   qStartIdxOptional,        pseType 2, 3: distance is j + kvStart - i -
//   kvStartIdxOptional        qStart; one number each, null is 0
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus aclnnFlashAttentionScoreV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

// As V2, and
//   sinkOptional              FLOAT, [N]: a further score of every row of a
//                             head, neither scaled nor masked, with no value
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus aclnnFlashAttentionScoreV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

// Plans attentionOut = dropout(softmax(mask(scale * (q k^T + pse)))) v over
// sequences of different length packed one after the other: layout "TND".
//   query                     [Tq, N, D]; FLOAT16, BF16 or FLOAT, as the next
//                             four and attentionOutOut
//   key, value                [Tkv, Nkv, D], [Tkv, Nkv, Dv]; Nkv divides N, Dv
//                             is at most D, D at most 768
//   realShiftOptional         pse: one [N, Sq, Skv] or [N, 1, Skv] for each
//                             sequence, all in one dimension; or the last 1024
//                             rows of the longest, [B|1, N, 1024, maxSkv]
//   dropMaskOptional          UINT8: one bit per score, sequence by sequence in
//                             the order [N, Sq, Skv], 1 keeps
//   paddingMaskOptional       reserved, ignored
//   attenMaskOptional         BOOL or UINT8, 1 hides: [maxSq, maxSkv], [1, 1,
//                             maxSq, maxSkv], [B, N|1, maxSq, maxSkv] or [sum
//                             of Sq, sum of Skv]; 2048 x 2048 for sparse modes
//                             2, 3, 4, 7, 8; 3072 x 2048 for 6
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   actualSeqQLenOptional     required, where sequences end: [2, 2, 0, 2] is
//   actualSeqKvLenOptional    passed as [2, 4, 4, 6]; both of one size
//   scaleValueOptional        usually 1 / sqrt(D)
//   keepProbOptional          in (0, 1]; of the drop mask
//   preTokensOptional,        the band's reach to the left and to the right;
//   nextTokensOptional        sparse modes 0, 4, 7, 8
//   headNum                   N
//   inputLayout               "TND"
//   innerPreciseOptional      0, 1 or 2: with 1 and bf16, probs may
//                             be rounded to bf16, where that is faster
//   sparseModeOptional        0 to 4, 6, 7, 8; only with a mask
//   softmaxMaxOut,            FLOAT, [Tq, N, 8]: greatest score and sum of
//   softmaxSumOut             exponentials of each row, eight times; sequence
//                             by sequence in the order [N, Sq, 8]
//   softmaxOutOut             reserved, ignored
//   attentionOutOut           [Tq, N, Dv]
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value;
// 561103: arguments that contradict one another.
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

// The same with a choice of how pse enters a score:
//   pseTypeOptional           1: scale * (q.k + pse), as the first version;
//                             0: scale * q.k + pse; 2: scale * q.k - slope *
//                             |distance|; 3: with the root of |distance|
//   realShiftOptional         pseType 2, 3: slopes, FLOAT, [N] or [B, N];
//                             required unless pseType is 1
//   qStartIdxOptional,        pseType 2, 3: distance is j + kvStart - i -
//   kvStartIdxOptional        qStart; one number each, null is 0
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV2(void* workspace, uint64_t workspaceSize,
                                 aclOpExecutor* executor,
                                 const aclrtStream stream);

// As V2, and with rope: further channels of query and key, for scores only.
//   queryRope, keyRope        [Tq, N, Dr], [Tkv, Nkv, Dr], Dr at most D; BF16,
//                             and so are query, key and value; both or none.
//                             Need attenMaskOptional (161001), exclude
//                             realShift, dropMask, keepProb below 1, sparse
//                             mode 6 (161002)
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV3(void* workspace, uint64_t workspaceSize,
                                 aclOpExecutor* executor,
                                 const aclrtStream stream);

// As the first version, and
//   softmaxOutLayout          memory order of softmaxMax and softmaxSum:
//                             "same_as_input": [Tq, N, 8]; anything else or
//                             null: sequence by sequence [N, Sq, 8]
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t innerPreciseOptional, int64_t sparseModeOptional,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV4(void* workspace, uint64_t workspaceSize,
                                 aclOpExecutor* executor,
                                 const aclrtStream stream);

// As V3, with softmaxOutLayout as in V4, and
//   sinkOptional              FLOAT, [N]: a further score of every row of a
//                             head, neither scaled nor masked, with no value
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// The same arguments; a workspace large enough whatever the lengths say, as
// long as the shapes stay.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t innerPreciseOptional, int64_t sparseModeOptional,
    int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionVarLenScoreV5(void* workspace, uint64_t workspaceSize,
                                 aclOpExecutor* executor,
                                 const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
