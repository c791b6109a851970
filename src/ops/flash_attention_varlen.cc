// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, forward: aclnnFlashAttentionVarLenScore, V2
// to V5.
//   out = dropout(softmax(mask(scale * (q k^T + pse)))) v
// docs/operators/flash_attention_varlen.md has the arguments and the limits.

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
constexpr forward::Table kWithRope = TableWithout({forward::kSink});
constexpr forward::Table kWithAll = TableWithout({});

}  // namespace

const acl::Operator kFlashAttentionVarLenScore{
    .name = "aclnnFlashAttentionVarLenScore",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionVarLenScoreV2{
    .name = "aclnnFlashAttentionVarLenScoreV2",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionVarLenScoreV3{
    .name = "aclnnFlashAttentionVarLenScoreV3",
    .arguments = kWithRope,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionVarLenScoreV4{
    .name = "aclnnFlashAttentionVarLenScoreV4",
    .arguments = kPlain,
    .contradiction = kContradictory,
};

const acl::Operator kFlashAttentionVarLenScoreV5{
    .name = "aclnnFlashAttentionVarLenScoreV5",
    .arguments = kWithAll,
    .contradiction = kContradictory,
};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
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
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional};
  return forward::Plan(flashacl::ops::kFlashAttentionVarLenScore, tensors, args,
                       {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScore(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
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
                                 .softmax_max = softmaxMaxOut,
                                 .softmax_sum = softmaxSumOut,
                                 .softmax_out = softmaxOutOut,
                                 .attention_out = attentionOutOut};
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
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
  return forward::Plan(flashacl::ops::kFlashAttentionVarLenScoreV2, tensors,
                       args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV2(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key,
    const aclTensor* keyRope, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
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
                                 .query_rope = queryRope,
                                 .key = key,
                                 .key_rope = keyRope,
                                 .value = value,
                                 .real_shift = realShiftOptional,
                                 .drop_mask = dropMaskOptional,
                                 .padding_mask = paddingMaskOptional,
                                 .atten_mask = attenMaskOptional,
                                 .softmax_max = softmaxMaxOut,
                                 .softmax_sum = softmaxSumOut,
                                 .softmax_out = softmaxOutOut,
                                 .attention_out = attentionOutOut};
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
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
  return forward::Plan(flashacl::ops::kFlashAttentionVarLenScoreV3, tensors,
                       args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV3(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t /*innerPreciseOptional*/, int64_t sparseModeOptional,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut,
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
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional,
                           .softmax_out_layout = softmaxOutLayout};
  return forward::Plan(flashacl::ops::kFlashAttentionVarLenScoreV4, tensors,
                       args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV4(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
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
    char* inputLayout, int64_t /*innerPreciseOptional*/,
    int64_t sparseModeOptional, int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace forward = flashacl::ops::forward;
  const forward::Tensors tensors{.query = query,
                                 .query_rope = queryRope,
                                 .key = key,
                                 .key_rope = keyRope,
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
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
                           .q_start_idx = qStartIdxOptional,
                           .kv_start_idx = kvStartIdxOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional,
                           .pse_type = pseTypeOptional,
                           .softmax_out_layout = softmaxOutLayout};
  return forward::Plan(flashacl::ops::kFlashAttentionVarLenScoreV5, tensors,
                       args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(
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
    char* inputLayout, int64_t /*innerPreciseOptional*/,
    int64_t sparseModeOptional, int64_t pseTypeOptional, char* softmaxOutLayout,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace forward = flashacl::ops::forward;
  const forward::Tensors tensors{.query = query,
                                 .query_rope = queryRope,
                                 .key = key,
                                 .key_rope = keyRope,
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
  const forward::Args args{.prefix = prefixOptional,
                           .actual_seq_q_len = actualSeqQLenOptional,
                           .actual_seq_kv_len = actualSeqKvLenOptional,
                           .q_start_idx = qStartIdxOptional,
                           .kv_start_idx = kvStartIdxOptional,
                           .scale_value = scaleValueOptional,
                           .keep_prob = keepProbOptional,
                           .pre_tokens = preTokensOptional,
                           .next_tokens = nextTokensOptional,
                           .head_num = headNum,
                           .input_layout = inputLayout,
                           .sparse_mode = sparseModeOptional,
                           .pse_type = pseTypeOptional,
                           .softmax_out_layout = softmaxOutLayout};
  return forward::PlanMost(flashacl::ops::kFlashAttentionVarLenScoreV5, tensors,
                           args, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreV5(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
