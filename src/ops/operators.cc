// SPDX-License-Identifier: Apache-2.0
// The list of operators.
#include "ops/operators.h"

namespace flashacl::ops {

std::span<const acl::Operator* const> AllOperators() {
  static constexpr const acl::Operator* kAll[] = {
      &kFlashAttentionVarLenScore,
      &kPromptFlashAttention,
      &kPromptFlashAttentionV2,
      &kPromptFlashAttentionV3,
      &kIncreFlashAttention,
      &kIncreFlashAttentionV2,
      &kIncreFlashAttentionV3,
      &kIncreFlashAttentionV4,
      &kFlashAttentionUnpaddingScoreGradV5,
      &kSparseFlashAttention,
      &kSparseFlashAttentionV2,
      &kSparseFlashAttentionGrad,
  };
  return kAll;
}

}  // namespace flashacl::ops
