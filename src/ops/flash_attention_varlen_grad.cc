// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, backward:
// aclnnFlashAttentionUnpaddingScoreGrad, V2 to V5.
// With P = exp(S - max) / sum from the caller's max and sum, dP = dropout(dY
// V^T), delta = sum(dY * out):
//   dS = P * (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
//   dV = dropout(P)^T dY,  dsink = -sum(P * dP * exp(sink - max) / sum).
// docs/operators/flash_attention_varlen_grad.md has arguments and limits.

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
constexpr backward::Table kWithRope =
    backward::TableWithout({backward::kSink, backward::kDsink});
constexpr backward::Table kWithAll = backward::TableWithout({});

}  // namespace

const acl::Operator kFlashAttentionUnpaddingScoreGrad{
    .name = "aclnnFlashAttentionUnpaddingScoreGrad",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionUnpaddingScoreGradV2{
    .name = "aclnnFlashAttentionUnpaddingScoreGradV2",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionUnpaddingScoreGradV3{
    .name = "aclnnFlashAttentionUnpaddingScoreGradV3",
    .arguments = kWithRope,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionUnpaddingScoreGradV4{
    .name = "aclnnFlashAttentionUnpaddingScoreGradV4",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionUnpaddingScoreGradV5{
    .name = "aclnnFlashAttentionUnpaddingScoreGradV5",
    .arguments = kWithAll,
    .contradiction = kContradictory,
};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t /*innerPrecise*/, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
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
  const backward::Args args{.prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode};
  return backward::Plan(flashacl::ops::kFlashAttentionUnpaddingScoreGrad,
                        tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
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
  const backward::Args args{.prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
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
  return backward::Plan(flashacl::ops::kFlashAttentionUnpaddingScoreGradV2,
                        tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
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
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, int64_t pseType, const aclTensor* dqOut,
    const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .query_rope = queryRope,
                                  .key = keyIn,
                                  .key_rope = keyInRope,
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
                                  .dq_rope = dqRopeOut,
                                  .dk = dkOut,
                                  .dk_rope = dkRopeOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut};
  const backward::Args args{.prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
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
  return backward::Plan(flashacl::ops::kFlashAttentionUnpaddingScoreGradV3,
                        tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
    const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional,
    const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
    char* inputLayout, int64_t /*innerPrecise*/, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, char* softmaxInLayout, uint64_t* workspaceSize,
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
  const backward::Args args{.strict_in_layout = true,
                            .prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode,
                            .softmax_in_layout = softmaxInLayout};
  return backward::Plan(flashacl::ops::kFlashAttentionUnpaddingScoreGradV4,
                        tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
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
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .query_rope = queryRope,
                                  .key = keyIn,
                                  .key_rope = keyInRope,
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
                                  .dq_rope = dqRopeOut,
                                  .dk = dkOut,
                                  .dk_rope = dkRopeOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut,
                                  .dsink = dsinkOut};
  const backward::Args args{.prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
                            .q_start_idx = qStartIdxOptional,
                            .kv_start_idx = kvStartIdxOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode,
                            .pse_type = pseType,
                            .softmax_in_layout = softmaxInLayout};
  return backward::Plan(flashacl::ops::kFlashAttentionUnpaddingScoreGradV5,
                        tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus
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
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace backward = flashacl::ops::backward;
  const backward::Tensors tensors{.query = query,
                                  .query_rope = queryRope,
                                  .key = keyIn,
                                  .key_rope = keyInRope,
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
                                  .dq_rope = dqRopeOut,
                                  .dk = dkOut,
                                  .dk_rope = dkRopeOut,
                                  .dv = dvOut,
                                  .dpse = dpseOut,
                                  .dsink = dsinkOut};
  const backward::Args args{.prefix = prefixOptional,
                            .actual_seq_q_len = actualSeqQLenOptional,
                            .actual_seq_kv_len = actualSeqKvLenOptional,
                            .q_start_idx = qStartIdxOptional,
                            .kv_start_idx = kvStartIdxOptional,
                            .scale_value = scaleValue,
                            .keep_prob = keepProb,
                            .pre_tokens = preTokens,
                            .next_tokens = nextTokens,
                            .head_num = headNum,
                            .input_layout = inputLayout,
                            .sparse_mode = sparseMode,
                            .pse_type = pseType,
                            .softmax_in_layout = softmaxInLayout};
  return backward::PlanMost(flashacl::ops::kFlashAttentionUnpaddingScoreGradV5,
                            tensors, args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
