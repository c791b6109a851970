// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of one length, backward:
// aclnnFlashAttentionScoreGrad, V2 and V3.
// With P = exp(S - max) / sum from the caller's max and sum, dP = dropout(dY
// V^T), delta = sum(dY * out):
//   dS = P * (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
//   dV = dropout(P)^T dY,  dsink = -sum(P * dP * exp(sink - max) / sum).
// docs/operators/flash_attention_grad.md has arguments and limits.

#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "ops/operators.h"
#include "ops/training_backward.h"

namespace flashacl::ops {
namespace {

// Also what the device finds late and answers otherwise.
constexpr aclnnStatus kContradictory = 161002;

constexpr backward::Table kPlain = backward::TableWithout(
    {backward::kQueryRope, backward::kKeyRope, backward::kDqRope,
     backward::kDkRope, backward::kSink, backward::kDsink});
constexpr backward::Table kWithSink =
    backward::TableWithout({backward::kQueryRope, backward::kKeyRope,
                            backward::kDqRope, backward::kDkRope});

}  // namespace

const acl::Operator kFlashAttentionScoreGrad{
    .name = "aclnnFlashAttentionScoreGrad",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionScoreGradV2{
    .name = "aclnnFlashAttentionScoreGradV2",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionScoreGradV3{
    .name = "aclnnFlashAttentionScoreGradV3",
    .arguments = kWithSink,
    .contradiction = kContradictory,
};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .key = keyIn,
                                  .value = value,
                                  .dy = dy,
                                  .pse = pseShiftOptional,
                                  .drop_mask = dropMaskOptional,
                                  .padding_mask = paddingMaskOptional,
                                  .atten_mask = attenMaskOptional,
                                  .softmax_max = softmaxMaxOptional,
                                  .softmax_sum = softmaxSumOptional,
                                  .softmax_in = softmaxInOptional,
                                  .attention_in = attentionInOptional,
                                  .dq = dqOut,
                                  .dk = dkOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut};
  const backward::Args args{.dense = true,
                            .prefix = prefixOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode};
  return backward::Plan(flashacl::ops::kFlashAttentionScoreGrad, tensors, args,
                        {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace,
                                                    uint64_t workspaceSize,
                                                    aclOpExecutor* executor,
                                                    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .key = keyIn,
                                  .value = value,
                                  .dy = dy,
                                  .pse = pseShiftOptional,
                                  .drop_mask = dropMaskOptional,
                                  .padding_mask = paddingMaskOptional,
                                  .atten_mask = attenMaskOptional,
                                  .softmax_max = softmaxMaxOptional,
                                  .softmax_sum = softmaxSumOptional,
                                  .softmax_in = softmaxInOptional,
                                  .attention_in = attentionInOptional,
                                  .dq = dqOut,
                                  .dk = dkOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut};
  const backward::Args args{.dense = true,
                            .prefix = prefixOptional,
                            .q_start_idx = qStartIdxOptional,
                            .kv_start_idx = kvStartIdxOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode,
                            .pse_type = pseType};
  return backward::Plan(flashacl::ops::kFlashAttentionScoreGradV2, tensors,
                        args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t /*innerPrecise*/, int64_t sparseMode, int64_t pseType,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .key = keyIn,
                                  .value = value,
                                  .dy = dy,
                                  .pse = pseShiftOptional,
                                  .drop_mask = dropMaskOptional,
                                  .padding_mask = paddingMaskOptional,
                                  .atten_mask = attenMaskOptional,
                                  .softmax_max = softmaxMaxOptional,
                                  .softmax_sum = softmaxSumOptional,
                                  .softmax_in = softmaxInOptional,
                                  .attention_in = attentionInOptional,
                                  .sink = sinkInOptional,
                                  .dq = dqOut,
                                  .dk = dkOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut,
                                  .dsink = dsinkOut};
  const backward::Args args{.dense = true,
                            .prefix = prefixOptional,
                            .q_start_idx = qStartIdxOptional,
                            .kv_start_idx = kvStartIdxOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode,
                            .pse_type = pseType};
  return backward::Plan(flashacl::ops::kFlashAttentionScoreGradV3, tensors,
                        args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScoreGradV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
