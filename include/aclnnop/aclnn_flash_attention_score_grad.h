// SPDX-License-Identifier: Apache-2.0
//
// Attention backward for training. Source: CANN operator documentation,
// "FlashAttentionScoreGrad", "FlashAttentionUnpaddingScoreGrad" and their later
// versions.
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans the gradients of attention over B sequences of one length. Shapes are
// given for layout "BNSD".
//   query                     [B, N, Sq, D]; FLOAT16, BF16 or FLOAT, as all
//                             tensors for which nothing else is said
//   keyIn, value              [B, Nkv, Skv, D], [B, Nkv, Skv, Dv]; Nkv divides
//                             N, Dv is at most D
//   dy, attentionInOptional   [B, N, Sq, Dv]: the output's gradient, and the
//                             output; both required
//   pseShiftOptional          [B|1, N, Sq|1, Skv], or its last 1024 rows
//   dropMaskOptional          UINT8: one bit per score in the order [B, N, Sq,
//                             Skv], 1 keeps; required with keepProb below 1
//   paddingMaskOptional,      reserved, ignored
//   softmaxInOptional
//   attenMaskOptional         BOOL or UINT8, 1 hides: [Sq, Skv], [1, 1, Sq,
//                             Skv], [B, 1, Sq, Skv] or [B, N, Sq, Skv]; 2048 x
//                             2048 for sparse modes 2, 3, 4; 3072 x 2048 for 6
//   softmaxMaxOptional,       FLOAT, [B, N, Sq, 8] in every layout, as the
//   softmaxSumOptional        forward wrote them; required
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   scaleValue, keepProb      usually 1 / sqrt(D); in (0, 1]
//   preTokens, nextTokens     the band's reach to the left and to the right
//   headNum, innerPrecise     N; no effect
//   inputLayout               "BNSD"; "BSND" [B, S, N, D]; "BSH" [B, S, N * D];
//                             "SBH" [S, B, N * D]
//   sparseMode                0 to 6; only with a mask
//   dqOut, dkOut, dvOut       gradients, each shaped like its operand
//   dpseOut                   may be null; written if it has pseShift's shape
//                             and type, else left alone
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus aclnnFlashAttentionScoreGrad(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream);

// The same with a choice of how pse entered a score:
//   pseType                   1: scale * (q.k + pse), as the first version;
//                             0: scale * q.k + pse; 2: scale * q.k - slope *
//                             |distance|; 3: with the root of |distance|
//   pseShiftOptional          pseType 2, 3: slopes, FLOAT, [N] or [B, N];
//                             required unless pseType is 1
//   qStartIdxOptional,        pseType 2, 3: distance is j + kvStart - i -
//   kvStartIdxOptional        qStart; one number each, null is 0
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGradV2(void* workspace, uint64_t workspaceSize,
                               aclOpExecutor* executor,
                               const aclrtStream stream);

// As V2, and
//   sinkInOptional            FLOAT, [N]: a further score of every row, part of
//                             the softmax sums already; query not FLOAT
//   dsinkOut                  FLOAT, [N]: its gradient; may be null
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionScoreGradV3(void* workspace, uint64_t workspaceSize,
                               aclOpExecutor* executor,
                               const aclrtStream stream);

// Plans the gradients of attention over sequences of different length packed
// one after the other: layout "TND".
//   query                     [Tq, N, D]; FLOAT16, BF16 or FLOAT, as all
//                             tensors for which nothing else is said
//   keyIn, value              [Tkv, Nkv, D], [Tkv, Nkv, Dv]; Nkv divides N, Dv
//                             is at most D
//   dy, attentionInOptional   [Tq, N, Dv]: the output's gradient, the output;
//                             both required
//   pseShiftOptional          one [N, Sq, Skv] or [N, 1, Skv] per sequence, all
//                             in one dimension; or the last 1024 rows of the
//                             longest, [B|1, N, 1024, maxSkv]
//   dropMaskOptional          UINT8: one bit per score, sequence by sequence in
//                             the order [N, Sq, Skv], 1 keeps; required with
//                             keepProb below 1
//   paddingMaskOptional,      reserved, ignored
//   softmaxInOptional
//   attenMaskOptional         BOOL or UINT8, 1 hides: [maxSq, maxSkv], [1, 1,
//                             maxSq, maxSkv], [B, N|1, maxSq, maxSkv] whose
//                             memory is one block per sequence, or [sum of Sq,
//                             sum of Skv]; 2048 x 2048 for sparse modes 2, 3,
//                             4, 7, 8; 3072 x 2048 for 6
//   softmaxMaxOptional,       FLOAT, [Tq, N, 8], as the forward wrote them,
//   softmaxSumOptional        sequence by sequence in the order [N, Sq, 8];
//                             required
//   prefixOptional            sparse mode 6: keys every row sees, per sequence
//   actualSeqQLenOptional,    required, where sequences end: [2, 2, 0, 2] is
//   actualSeqKvLenOptional    passed as [2, 4, 4, 6]; both of one size
//   scaleValue, keepProb      usually 1 / sqrt(D); in (0, 1]
//   preTokens, nextTokens     the band's reach to the left and to the right
//   headNum, innerPrecise     N; no effect
//   inputLayout               "TND"
//   sparseMode                0 to 8 but 5; only with a mask
//   dqOut, dkOut, dvOut       gradients, each shaped like its operand
//   dpseOut                   may be null; written if it has pseShift's shape
//                             and type, else left alone
// *workspaceSize is in bytes. The executor is the second phase's; it keeps
// nothing of the arguments but the addresses of device memory.
// 161001: a required argument is null; 161002: type, shape, layout or value.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGrad(void* workspace, uint64_t workspaceSize,
                                      aclOpExecutor* executor,
                                      const aclrtStream stream);

// The same with a choice of how pse entered a score:
//   pseType                   1: scale * (q.k + pse), as the first version;
//                             0: scale * q.k + pse; 2: scale * q.k - slope *
//                             |distance|; 3: with the root of |distance|
//   pseShiftOptional          pseType 2, 3: slopes, FLOAT, [N] or [B, N];
//                             required unless pseType is 1
//   qStartIdxOptional,        pseType 2, 3: distance is j + kvStart - i -
//   kvStartIdxOptional        qStart; one number each, null is 0
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV2(void* workspace, uint64_t workspaceSize,
                                        aclOpExecutor* executor,
                                        const aclrtStream stream);

// As V2, and with rope: further channels of query and key, for scores only.
//   queryRope, keyInRope      [Tq, N, Dr], [Tkv, Nkv, Dr], Dr at most D; BF16,
//                             and so are all others; both or none. Need
//                             attenMaskOptional (161001), exclude pseShift,
//                             dropMask, keepProb below 1, sparse mode 6
//                             (161002)
//   dqRopeOut, dkRopeOut      their gradients; required with rope
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV3(void* workspace, uint64_t workspaceSize,
                                        aclOpExecutor* executor,
                                        const aclrtStream stream);

// As the first version, and
//   softmaxInLayout           order of softmaxMax and softmaxSum in memory:
//                             "same_as_input": [Tq, N, 8]; "" or null: sequence
//                             by sequence [N, Sq, 8]; others are refused
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, char* softmaxInLayout, uint64_t* workspaceSize,
    aclOpExecutor** executor);

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV4(void* workspace, uint64_t workspaceSize,
                                        aclOpExecutor* executor,
                                        const aclrtStream stream);

// As V3, with softmaxInLayout as in V4 but of any text (as ""), and
//   sinkInOptional            FLOAT, [N]: a further score of every row, part of
//                             the softmax sums already; query not FLOAT
//   dsinkOut                  FLOAT, [N]: its gradient; may be null
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

// As the second phase of the first version.
__attribute__((visibility("default"))) aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5(void* workspace, uint64_t workspaceSize,
                                        aclOpExecutor* executor,
                                        const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
