// SPDX-License-Identifier: Apache-2.0
// The types of the functions for training: order and number of arguments are
// what tells versions apart, and programs have them inside.
#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"

namespace {

// By the letters T and A for tensors and arrays.
using T = const aclTensor*;
using A = const aclIntArray*;
using I = int64_t;
using D = double;
using S = char*;
using W = uint64_t*;
using E = aclOpExecutor**;

template <typename... Arguments>
using PhaseOne = aclnnStatus (*)(Arguments...);
using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

// Whether both phases of an operator have these types.
template <typename One, auto kOne, auto kTwo>
constexpr bool kAre = std::is_same_v<decltype(kOne), One>&&
    std::is_same_v<decltype(kTwo), PhaseTwo>;

TEST(Headers, TrainingForwardFunctionsHaveTheTypesOfTheirVersions) {
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, A, D, D, I, I, I, S, I, I, T,
                             T, T, T, W, E>,
                    &aclnnFlashAttentionScoreGetWorkspaceSize,
                    &aclnnFlashAttentionScore>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, A, A, A, D, D, I, I, I, S, I,
                             I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionScoreV2GetWorkspaceSize,
                    &aclnnFlashAttentionScoreV2>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, A, A, A, D, D, I, I, I, S,
                             I, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionScoreV3GetWorkspaceSize,
                    &aclnnFlashAttentionScoreV3>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, A, A, A, D, D, I, I, I, S, I,
                             I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreGetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScore>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, A, A, A, A, A, D, D, I, I, I,
                             S, I, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScoreV2>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, A, A, A, A, A, D, D, I,
                             I, I, S, I, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScoreV3>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, A, A, A, D, D, I, I, I, S, I,
                             I, S, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScoreV4>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, A, A, A, A, A, D, D,
                             I, I, I, S, I, I, I, S, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize,
                    &aclnnFlashAttentionVarLenScoreV5>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, A, A, A, A, A, D, D,
                             I, I, I, S, I, I, I, S, T, T, T, T, W, E>,
                    &aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize,
                    &aclnnFlashAttentionVarLenScoreV5>));
}

TEST(Headers, TrainingBackwardFunctionsHaveTheTypesOfTheirVersions) {
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, A, D, D, I, I,
                             I, S, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionScoreGradGetWorkspaceSize,
                    &aclnnFlashAttentionScoreGrad>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, D, D,
                             I, I, I, S, I, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionScoreGradV2GetWorkspaceSize,
                    &aclnnFlashAttentionScoreGradV2>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, D,
                             D, I, I, I, S, I, I, I, T, T, T, T, T, W, E>,
                    &aclnnFlashAttentionScoreGradV3GetWorkspaceSize,
                    &aclnnFlashAttentionScoreGradV3>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, D, D,
                             I, I, I, S, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize,
                    &aclnnFlashAttentionUnpaddingScoreGrad>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, A, A,
                             D, D, I, I, I, S, I, I, I, T, T, T, T, W, E>,
                    &aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize,
                    &aclnnFlashAttentionUnpaddingScoreGradV2>));
  EXPECT_TRUE(
      (kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, A, A, D,
                     D, I, I, I, S, I, I, I, T, T, T, T, T, T, W, E>,
            &aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize,
            &aclnnFlashAttentionUnpaddingScoreGradV3>));
  EXPECT_TRUE((kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, D, D,
                             I, I, I, S, I, I, T, T, T, T, S, W, E>,
                    &aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize,
                    &aclnnFlashAttentionUnpaddingScoreGradV4>));
  EXPECT_TRUE(
      (kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, A, A,
                     D, D, I, I, I, S, I, I, I, S, T, T, T, T, T, T, T, W, E>,
            &aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize,
            &aclnnFlashAttentionUnpaddingScoreGradV5>));
  EXPECT_TRUE(
      (kAre<PhaseOne<T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, A, A, A, A, A,
                     D, D, I, I, I, S, I, I, I, S, T, T, T, T, T, T, T, W, E>,
            &aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize,
            &aclnnFlashAttentionUnpaddingScoreGradV5>));
}

}  // namespace
