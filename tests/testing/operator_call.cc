// SPDX-License-Identifier: Apache-2.0
// The operators' calls.
#include "tests/testing/operator_call.h"

#include <utility>

#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention_v2.h"
#include "tests/testing/call_handles.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kAllTokens = 2147483647;

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

OperatorCall SparsePaged() {
  return {
      .name = "aclnnSparseFlashAttention",
      .tensors =
          {
              {{6, 4, 8}, ACL_FLOAT16},      // query
              {{5, 16, 1, 8}, ACL_FLOAT16},  // key, in pages
              {{5, 16, 1, 8}, ACL_FLOAT16},  // value, in pages
              {{6, 1, 3}, ACL_INT32},        // sparseIndices
              {{2, 2}, ACL_INT32},           // blockTable
              {{2}, ACL_INT32},              // actualSeqLengthsQuery
              {{2}, ACL_INT32},              // actualSeqLengthsKv
              {{6, 4, 4}, ACL_FLOAT16},      // queryRope
              {{5, 16, 1, 4}, ACL_FLOAT16},  // keyRope
              {{6, 4, 8}, ACL_FLOAT16},      // attentionOut
              {{0}, ACL_FLOAT, false},       // softmaxMax
              {{0}, ACL_FLOAT, false},       // softmaxSum
          },
      .arrays = {},
      .reals = {0.5},
      .integers = {2, 3, kAllTokens, kAllTokens, 2, 0},
      .texts = {"TND", "PA_BSND"},
      .first_output = 9,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnSparseFlashAttentionGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8],
                c.reals[0], c.integers[0], h.Text(0), h.Text(1), c.integers[1],
                c.integers[2], c.integers[3], c.integers[4], c.integers[5] != 0,
                t[9], t[10], t[11], size, executor);
          },
      .launch = aclnnSparseFlashAttention,
  };
}

OperatorCall SparsePacked() {
  return {
      .name = "aclnnSparseFlashAttentionV2",
      .tensors =
          {
              {{6, 4, 8}, ACL_FLOAT16},  // query
              {{9, 1, 8}, ACL_FLOAT16},  // key
              {{9, 1, 8}, ACL_FLOAT16},  // value
              {{6, 1, 3}, ACL_INT32},    // sparseIndices
              {{1}, ACL_INT32, false},   // blockTable
              {{2}, ACL_INT32},          // actualSeqLengthsQuery
              {{2}, ACL_INT32},          // actualSeqLengthsKv
              {{6, 4, 4}, ACL_FLOAT16},  // queryRope
              {{9, 1, 4}, ACL_FLOAT16},  // keyRope
              {{4}, ACL_FLOAT},          // sinks
              {{6, 4, 8}, ACL_FLOAT16},  // attentionOut
              {{1, 6, 4}, ACL_FLOAT},    // softmaxMax
              {{1, 6, 4}, ACL_FLOAT},    // softmaxSum
          },
      .arrays = {},
      .reals = {0.5},
      .integers = {2, 3, kAllTokens, kAllTokens, 2, 1},
      .texts = {"TND", "TND"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnSparseFlashAttentionV2GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9],
                c.reals[0], c.integers[0], h.Text(0), h.Text(1), c.integers[1],
                c.integers[2], c.integers[3], c.integers[4], c.integers[5] != 0,
                t[10], t[11], t[12], size, executor);
          },
      .launch = aclnnSparseFlashAttentionV2,
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
  // First one of each kind, which tests know by place, then the others.
  std::vector<OperatorCall> training = TrainingOperatorCalls();
  std::vector<OperatorCall> calls{training[0], training[1], Prefill(), Decode(),
                                  SparseBackward()};
  for (OperatorCall& call : OtherInferenceCalls()) {
    calls.push_back(std::move(call));
  }
  calls.push_back(SparsePaged());
  calls.push_back(SparsePacked());
  calls.insert(calls.end(), training.begin() + 2, training.end());
  return calls;
}

}  // namespace flashacl::testing
