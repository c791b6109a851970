// SPDX-License-Identifier: Apache-2.0
// The operators' calls.
#include "tests/testing/operator_call.h"

#include <algorithm>

#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "tests/testing/call_handles.h"

namespace flashacl::testing {

namespace {

constexpr int64_t kAllTokens = 2147483647;

OperatorCall Prefill() {
  return {
      .name = "aclnnPromptFlashAttention",
      .tensors =
          {
              {{2, 4, 3, 8}, ACL_FLOAT16},  // query
              {{2, 2, 5, 8}, ACL_FLOAT16},  // key
              {{2, 2, 5, 8}, ACL_FLOAT16},  // value
              {{2, 4, 3, 5}, ACL_FLOAT16},  // pseShift, ignored
              {{2, 1, 3, 5}, ACL_BOOL},     // attenMask
              {{2, 4, 3, 8}, ACL_FLOAT16},  // attentionOut
          },
      .arrays = {{{2, 3}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2},
      .texts = {"BNSD"},
      .first_output = 5,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], c.integers[0],
                c.reals[0], c.integers[1], c.integers[2], h.Text(0),
                c.integers[3], t[5], size, executor);
          },
      .launch = aclnnPromptFlashAttention,
  };
}

OperatorCall Decode() {
  return {
      .name = "aclnnIncreFlashAttentionV4",
      .tensors =
          {
              {{2, 4, 1, 8}, ACL_FLOAT16},    // query
              {{4, 16, 2 * 8}, ACL_FLOAT16},  // key, in pages
              {{4, 16, 2 * 8}, ACL_FLOAT16},  // value, in pages
              {{2, 4, 1, 32}, ACL_FLOAT16},   // pseShift
              {{2, 32}, ACL_INT8},            // attenMask
              {{1}, ACL_FLOAT, false},        // dequantScale1
              {{1}, ACL_FLOAT, false},        // quantScale1
              {{1}, ACL_FLOAT, false},        // dequantScale2
              {{32}, ACL_FLOAT},              // quantScale2
              {{32}, ACL_FLOAT},              // quantOffset2
              {{2, 16}, ACL_FLOAT16, false},  // antiquantScale
              {{2, 16}, ACL_FLOAT16, false},  // antiquantOffset
              {{2, 2}, ACL_INT32},            // blocktable
              {{1}, ACL_INT64},               // kvPaddingSize
              {{2, 4, 1, 8}, ACL_INT8},       // attentionOut
          },
      .arrays = {{{20, 32}}},
      .reals = {0.5},
      .integers = {4, 2, 16, 1},
      .texts = {"BNSD"},
      .first_output = 14,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnIncreFlashAttentionV4GetWorkspaceSize(
                t[0], h.List(1), h.List(2), t[3], t[4], h.arrays[0], t[5], t[6],
                t[7], t[8], t[9], t[10], t[11], t[12], t[13], c.integers[0],
                c.reals[0], h.Text(0), c.integers[1], c.integers[2],
                c.integers[3], t[14], size, executor);
          },
      .launch = aclnnIncreFlashAttentionV4,
  };
}

OperatorCall SparseBackward() {
  const TensorArgument query{{6, 4, 8}, ACL_FLOAT16};
  const TensorArgument key{{9, 1, 8}, ACL_FLOAT16};
  const TensorArgument query_rope{{6, 4, 4}, ACL_FLOAT16};
  const TensorArgument key_rope{{9, 1, 4}, ACL_FLOAT16};
  return {
      .name = "aclnnSparseFlashAttentionGrad",
      .tensors =
          {
              query,
              key,
              key,
              {{6, 1, 3}, ACL_INT32},  // sparseIndices
              query,                   // dOut
              query,                   // out
              {{1, 6, 4}, ACL_FLOAT},  // softmaxMax
              {{1, 6, 4}, ACL_FLOAT},  // softmaxSum
              {{2}, ACL_INT64},        // actualSeqLengthsQuery
              {{2}, ACL_INT32},        // actualSeqLengthskv
              query_rope,
              key_rope,
              query,
              key,
              key,
              query_rope,
              key_rope,
          },
      .arrays = {},
      .reals = {0.5},
      .integers = {2, 3, kAllTokens, kAllTokens, 1},
      .texts = {"TND"},
      .first_output = 12,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnSparseFlashAttentionGradGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9],
                t[10], t[11], c.reals[0], c.integers[0], h.Text(0),
                c.integers[1], c.integers[2], c.integers[3], c.integers[4] != 0,
                t[12], t[13], t[14], t[15], t[16], size, executor);
          },
      .launch = aclnnSparseFlashAttentionGrad,
  };
}

}  // namespace

int64_t TensorArgument::ExtentBytes() const {
  constexpr int64_t kMost = int64_t{1} << 22;
  if (!present || offset < 0 || offset > kMost) return 0;
  int64_t last = offset;
  int64_t dense = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] <= 0 || dims[axis] > kMost) return 0;
    const int64_t stride = strides.empty() ? dense : strides[axis];
    if (stride < 0 || stride > kMost) return 0;
    last += (dims[axis] - 1) * stride;
    dense *= dims[axis];
    if (last > kMost || dense > kMost) return 0;
  }
  return (last + 1) * static_cast<int64_t>(aclDataTypeSize(type));
}

aclnnStatus OperatorCall::Prepare(uint64_t* workspace_size,
                                  aclOpExecutor** executor) const {
  const CallHandles handles(*this);
  return prepare(*this, handles, workspace_size, executor);
}

StandingCall::StandingCall(const OperatorCall& call)
    : call_(call), handles_(std::make_unique<const CallHandles>(call)) {}

StandingCall::~StandingCall() = default;

aclnnStatus StandingCall::Prepare(uint64_t* workspace_size,
                                  aclOpExecutor** executor) const {
  return call_.prepare(call_, *handles_, workspace_size, executor);
}

std::vector<OperatorCall> AllOperatorCalls() {
  // First one of each kind, then the other versions of those for training.
  std::vector<OperatorCall> training = TrainingOperatorCalls();
  std::vector<OperatorCall> all = {training[0], training[1], Prefill(),
                                   Decode(), SparseBackward()};
  all.insert(all.end(), training.begin() + 2, training.end());
  return all;
}

}  // namespace flashacl::testing
