// SPDX-License-Identifier: Apache-2.0
//
// Attention of prompts and of new tokens over a key-value cache, for inference.
// Source: CANN operator documentation, "aclnnFusedInferAttentionScore".
#pragma once

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Plans attentionOut = softmax(mask(scale * q k^T + pse)) v over prompts,
// single tokens and mixtures of both. B sequences, N query heads, Nkv key
// heads, D channels (Dv of value), T rows of all sequences together.
//   query              FLOAT16 or BF16 (INT8: below), shaped as inputLayout
//   says key, value         lists of one tensor, or, with "BSH", "BSND", "BNSD"
//   and
//                      "BNSD_BSND", of B tensors of one sequence each; query's
//                      type or INT8. With blockTable: one tensor of pages,
//                      [blocks, blockSize, Nkv * D], [blocks, Nkv, blockSize,
//                      D] or [blocks, Nkv, D / u, blockSize, u] with 32 bytes
//                      in u elements
//   pseShift           added to the scaled scores: [1 or B, N, Sq, Skv] or
//                      larger, query's type (FLOAT16 with INT8)
//   attenMask          BOOL, INT8 or UINT8, not 0 hides. sparseMode 0 and 1:
//                      [1 or B, Sq, Skv], [1 or B, 1, Sq, Skv] or larger, or
//                      [Sq, Skv], with one token [B, Skv]; 2 to 4: [2048, 2048]
//                      (leading dimensions of 1 allowed), not read; 9: a tree,
//                      [B, Sq, Sq], or the squares of all sequences in a row
//   actualSeqLengths   rows of each sequence; null: all; one number: for all.
//                      T in the layout: where each sequence ends
//   actualSeqLengthsKv the same of keys; with blockTable: keys of each sequence
//   deqScale1,         one number each, for query, key and value of INT8: FLOAT
//   quantScale1,       (deqScale1, deqScale2: or UINT64)
//   deqScale2
//   quantScale2,       FLOAT, or BF16 with BF16 query; one number or one per
//   quantOffset2       query head and channel: make attentionOut INT8
//   antiquantScale,    for INT8 keys and values, keys first. antiquantMode 0:
//   antiquantOffset    query's type, [2], [2, Nkv * D], [2, Nkv, D],
//                      [2, Nkv, 1, D] or [2, 1, Nkv, D]; 1: FLOAT, one per key,
//                      [2, B, Skv]. The offset may be null
//   blockTable         INT32, [B, pages]: which pages hold a sequence's keys
//   queryPaddingSize,  INT64, one number: rows after the last valid row, keys
//   kvPaddingSize      after the last valid key. Read when running
//   numHeads           query heads
//   scaleValue         usually 1 / sqrt(D); narrowed to FLOAT
//   preTokens,         the band's reach to the left and to the right: with a
//   nextTokens         mask in sparseMode 0, and in sparseMode 4
//   inputLayout        "BSH", "BSND", "BNSD", "NSD", "TND" or "NTD"; or query's
//                      and attentionOut's: "BNSD_BSND", "BSH_BNSD",
//                      "BSND_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD",
//                      "NTD_TND", "TND_NTD"
//   numKeyValueHeads   key heads, a divisor of numHeads; 0: numHeads
//   sparseMode         0: mask and band; 1: mask; 2: causal from the top left
//                      corner; 3: from the bottom right; 4: band from the
//                      bottom right; 9: tree. With one token, "BSH", "BSND" or
//                      "BNSD", D = Dv and no rope, not looked at: 0
//   innerPrecise       0 to 3 (4 is taken as 0): with 1 or 3 and bf16,
//                      probs may be rounded to bf16, where that is faster;
//                      with 1 or 3 and INT8 keys, queries and probs of few
//                      rows to 16 bits of the greatest of their row
//   blockSize          keys in one page; with blockTable
//   antiquantMode      0: scales of channels; 1: of keys
//   softmaxLseFlag     whether softmaxLse is written
//   attentionOut       query's type or INT8, query's shape with Dv, in the
//                      order of dimensions that inputLayout says
//   softmaxLse         FLOAT, ln(sum exp(s)): [B, N, Sq, 1], or [T, N, 1] with
//   a
//                      T in the layout; not looked at without the flag
// A row that sees no key is 0, and its softmaxLse +inf. Optional tensors are
// null, or have no elements. *workspaceSize is in bytes. The executor is the
// second phase's; it keeps nothing of the arguments but the addresses of device
// memory.
// 161001: a required argument is null; 161002: a type that an argument never
// has; 561002: shape, layout or value, or arguments that contradict each other.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclIntArray* actualSeqLengthsKv, const aclTensor* deqScale1,
    const aclTensor* quantScale1, const aclTensor* deqScale2,
    const aclTensor* quantScale2, const aclTensor* quantOffset2,
    const aclTensor* antiquantScale, const aclTensor* antiquantOffset,
    const aclTensor* blockTable, const aclTensor* queryPaddingSize,
    const aclTensor* kvPaddingSize, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    const aclTensor* attentionOut, const aclTensor* softmaxLse,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// As aclnnFusedInferAttentionScoreGetWorkspaceSize, for capturing graphs: what
// the arrays of lengths hold does not count, only how many numbers they have,
// and *workspaceSize suffices for all contents. The executor may be run or
// dropped. CANN exports this function and declares it in no public header.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScoreGetMaxWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclIntArray* actualSeqLengthsKv, const aclTensor* deqScale1,
    const aclTensor* quantScale1, const aclTensor* deqScale2,
    const aclTensor* quantScale2, const aclTensor* quantOffset2,
    const aclTensor* antiquantScale, const aclTensor* antiquantOffset,
    const aclTensor* blockTable, const aclTensor* queryPaddingSize,
    const aclTensor* kvPaddingSize, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
    int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    const aclTensor* attentionOut, const aclTensor* softmaxLse,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues what was planned; consumes the executor. `workspace` is device memory
// of the planned size, null if that is 0, and in use until the stream is done.
// 161001: null workspace or executor; 161002: workspace too small.
__attribute__((visibility("default"))) aclnnStatus
aclnnFusedInferAttentionScore(void* workspace, uint64_t workspaceSize,
                              aclOpExecutor* executor,
                              const aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
