// SPDX-License-Identifier: Apache-2.0
// The list of operators: what tests, fuzzing and documents iterate over.
#pragma once

#include <span>

#include "acl/executor.h"

namespace flashacl::ops {

extern const acl::Operator kFlashAttentionScore;
extern const acl::Operator kFlashAttentionScoreV2;
extern const acl::Operator kFlashAttentionScoreV3;
extern const acl::Operator kFlashAttentionVarLenScore;
extern const acl::Operator kFlashAttentionVarLenScoreV2;
extern const acl::Operator kFlashAttentionVarLenScoreV3;
extern const acl::Operator kFlashAttentionVarLenScoreV4;
extern const acl::Operator kFlashAttentionVarLenScoreV5;
extern const acl::Operator kFlashAttentionScoreGrad;
extern const acl::Operator kFlashAttentionScoreGradV2;
extern const acl::Operator kFlashAttentionScoreGradV3;
extern const acl::Operator kFlashAttentionUnpaddingScoreGrad;
extern const acl::Operator kFlashAttentionUnpaddingScoreGradV2;
extern const acl::Operator kFlashAttentionUnpaddingScoreGradV3;
extern const acl::Operator kFlashAttentionUnpaddingScoreGradV4;
extern const acl::Operator kFlashAttentionUnpaddingScoreGradV5;
extern const acl::Operator kPromptFlashAttention;
extern const acl::Operator kPromptFlashAttentionV2;
extern const acl::Operator kPromptFlashAttentionV3;
extern const acl::Operator kIncreFlashAttention;
extern const acl::Operator kIncreFlashAttentionV2;
extern const acl::Operator kIncreFlashAttentionV3;
extern const acl::Operator kIncreFlashAttentionV4;
extern const acl::Operator kFusedInferAttentionScore;
extern const acl::Operator kFusedInferAttentionScoreV2;
extern const acl::Operator kFusedInferAttentionScoreV3;
extern const acl::Operator kFusedInferAttentionScoreV4;
extern const acl::Operator kFusedInferAttentionScoreV5;
extern const acl::Operator kSparseFlashAttention;
extern const acl::Operator kSparseFlashAttentionV2;
extern const acl::Operator kSparseFlashAttentionGrad;
extern const acl::Operator kLightningIndexer;
extern const acl::Operator kLightningIndexerGrad;
extern const acl::Operator kAdd;
extern const acl::Operator kInplaceAdd;
extern const acl::Operator kMul;
extern const acl::Operator kInplaceMul;
extern const acl::Operator kInplaceCopy;
extern const acl::Operator kCast;
extern const acl::Operator kDropoutGenMask;
extern const acl::Operator kDropoutGenMaskV2;
extern const acl::Operator kDropoutGenMaskV2Tensor;
extern const acl::Operator kDropoutDoMask;
extern const acl::Operator kDropout;
extern const acl::Operator kDropoutBackward;
extern const acl::Operator kAttentionUpdate;
extern const acl::Operator kRingAttentionUpdate;
extern const acl::Operator kRingAttentionUpdateV2;
extern const acl::Operator kScatterPaKvCache;
extern const acl::Operator kGatherPaKvCache;

std::span<const acl::Operator* const> AllOperators();

}  // namespace flashacl::ops
