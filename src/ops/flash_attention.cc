// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of one length, forward: aclnnFlashAttentionScore, V2
// and V3.
//   out = dropout(softmax(mask(scale * (q k^T + pse)))) v
// docs/operators/flash_attention.md has the arguments and the limits.

#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "ops/operators.h"
#include "ops/training_forward.h"

namespace flashacl::ops {
namespace {

using forward::TableWithout;

// Shapes and numbers that contradict one another.
constexpr aclnnStatus kContradictory = 561103;

constexpr forward::Table kPlain =
    TableWithout({forward::kQueryRope, forward::kKeyRope, forward::kSink});
constexpr forward::Table kWithSink =
    TableWithout({forward::kQueryRope, forward::kKeyRope});

}  // namespace

const acl::Operator kFlashAttentionScore{
    .name = "aclnnFlashAttentionScore",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionScoreV2{
    .name = "aclnnFlashAttentionScoreV2",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionScoreV3{
    .name = "aclnnFlashAttentionScoreV3",
    .arguments = kWithSink,
    .contradiction = kContradictory,
};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t /*innerPreciseOptional*/, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace forward = flashacl::ops::forward;
  const forward::Tensors tensors{.query = query,
                                 .key = key,
                                 .value = value,
                                 .real_shift = realShiftOptional,
                                 .drop_mask = dropMaskOptional,
                                 .padding_mask = paddingMaskOptional,
                                 .atten_mask = attenMaskOptional,
                                 .softmax_max = softmaxMaxOut,
                                 .softmax_sum = softmaxSumOut,
                                 .softmax_out = softmaxOutOut,
                                 .attention_out = attentionOutOut};
  const forward::Args args{.dense = true,
                           .prefix = prefixOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional};
  return forward::Plan(flashacl::ops::kFlashAttentionScore, tensors, args,
                       {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScore(void* workspace,
                                                uint64_t workspaceSize,
                                                aclOpExecutor* executor,
                                                const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t /*innerPreciseOptional*/, int64_t sparseModeOptional,
    int64_t pseTypeOptional, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  namespace forward = flashacl::ops::forward;
  const forward::Tensors tensors{.query = query,
                                 .key = key,
                                 .value = value,
                                 .real_shift = realShiftOptional,
                                 .drop_mask = dropMaskOptional,
                                 .padding_mask = paddingMaskOptional,
                                 .atten_mask = attenMaskOptional,
                                 .softmax_max = softmaxMaxOut,
                                 .softmax_sum = softmaxSumOut,
                                 .softmax_out = softmaxOutOut,
                                 .attention_out = attentionOutOut};
  const forward::Args args{.dense = true,
                           .prefix = prefixOptional,
                           .q_start_idx = qStartIdxOptional,
                           .kv_start_idx = kvStartIdxOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional,
                           .pse_type = pseTypeOptional};
  return forward::Plan(flashacl::ops::kFlashAttentionScoreV2, tensors, args,
                       {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScoreV2(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValueOptional, double keepProbOptional,
    int64_t preTokensOptional, int64_t nextTokensOptional, int64_t headNum,
    char* inputLayout, int64_t /*innerPreciseOptional*/,
    int64_t sparseModeOptional, int64_t pseTypeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace forward = flashacl::ops::forward;
  const forward::Tensors tensors{.query = query,
                                 .key = key,
                                 .value = value,
                                 .real_shift = realShiftOptional,
                                 .drop_mask = dropMaskOptional,
                                 .padding_mask = paddingMaskOptional,
                                 .atten_mask = attenMaskOptional,
                                 .sink = sinkOptional,
                                 .softmax_max = softmaxMaxOut,
                                 .softmax_sum = softmaxSumOut,
                                 .softmax_out = softmaxOutOut,
                                 .attention_out = attentionOutOut};
  const forward::Args args{.dense = true,
                           .prefix = prefixOptional,
                           .q_start_idx = qStartIdxOptional,
                           .kv_start_idx = kvStartIdxOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional,
                           .pse_type = pseTypeOptional};
  return forward::Plan(flashacl::ops::kFlashAttentionScoreV3, tensors, args,
                       {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionScoreV3(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
