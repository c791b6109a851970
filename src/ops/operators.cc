// SPDX-License-Identifier: Apache-2.0
// The list of operators.
#include "ops/operators.h"

namespace flashacl::ops {

std::span<const acl::Operator* const> AllOperators() {
  static constexpr const acl::Operator* kAll[] = {
      &kFlashAttentionScore,
      &kFlashAttentionScoreV2,
      &kFlashAttentionScoreV3,
      &kFlashAttentionVarLenScore,
      &kFlashAttentionVarLenScoreV2,
      &kFlashAttentionVarLenScoreV3,
      &kFlashAttentionVarLenScoreV4,
      &kFlashAttentionVarLenScoreV5,
      &kPromptFlashAttention,
      &kPromptFlashAttentionV2,
      &kPromptFlashAttentionV3,
      &kIncreFlashAttention,
      &kIncreFlashAttentionV2,
      &kIncreFlashAttentionV3,
      &kIncreFlashAttentionV4,
      &kFusedInferAttentionScore,
      &kFusedInferAttentionScoreV2,
      &kFusedInferAttentionScoreV3,
      &kFusedInferAttentionScoreV4,
      &kFusedInferAttentionScoreV5,
      &kFlashAttentionScoreGrad,
      &kFlashAttentionScoreGradV2,
      &kFlashAttentionScoreGradV3,
      &kFlashAttentionUnpaddingScoreGrad,
      &kFlashAttentionUnpaddingScoreGradV2,
      &kFlashAttentionUnpaddingScoreGradV3,
      &kFlashAttentionUnpaddingScoreGradV4,
      &kFlashAttentionUnpaddingScoreGradV5,
      &kSparseFlashAttention,
      &kSparseFlashAttentionV2,
      &kSparseFlashAttentionGrad,
      &kLightningIndexer,
      &kLightningIndexerGrad,
      &kAdd,
      &kInplaceAdd,
      &kMul,
      &kInplaceMul,
      &kInplaceCopy,
      &kCast,
      &kDropoutGenMask,
      &kDropoutGenMaskV2,
      &kDropoutGenMaskV2Tensor,
      &kDropoutDoMask,
      &kDropout,
      &kDropoutBackward,
      &kAttentionUpdate,
      &kRingAttentionUpdate,
      &kRingAttentionUpdateV2,
      &kScatterPaKvCache,
      &kGatherPaKvCache,
  };
  return kAll;
}

}  // namespace flashacl::ops
