// SPDX-License-Identifier: Apache-2.0
// The operators' calls.
#include "tests/testing/operator_call.h"

#include <algorithm>
#include <map>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_prompt_flash_attention_v2.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"

namespace flashacl::testing {

// The C side of one call; destroys what it made.
struct CallHandles {
  explicit CallHandles(const OperatorCall& call) : texts(call.texts) {
    for (const TensorArgument& of : call.tensors) {
      tensors.push_back(
          !of.present
              ? nullptr
              : aclCreateTensor(
                    of.dims.data(), of.dims.size(), of.type,
                    of.strides.empty() ? nullptr : of.strides.data(), of.offset,
                    of.format, of.dims.data(), of.dims.size(), of.data));
    }
    for (const auto& values : call.arrays) {
      arrays.push_back(values.has_value()
                           ? aclCreateIntArray(values->data(), values->size())
                           : nullptr);
    }
  }

  CallHandles(const CallHandles&) = delete;
  CallHandles& operator=(const CallHandles&) = delete;

  ~CallHandles() {
    for (const auto& [index, list] : lists) aclDestroyTensorList(list);
    for (const aclTensor* tensor : tensors) aclDestroyTensor(tensor);
    for (const aclIntArray* array : arrays) aclDestroyIntArray(array);
  }

  // The tensor at `index` as a list of one; null if it is absent.
  const aclTensorList* List(size_t index) const {
    if (tensors[index] == nullptr) return nullptr;
    const aclTensorList*& list = lists[index];
    const aclTensor* const members[] = {tensors[index]};
    if (list == nullptr) list = aclCreateTensorList(members, 1);
    return list;
  }

  char* Text(size_t index) const {
    return texts[index].has_value() ? texts[index]->data() : nullptr;
  }

  std::vector<aclTensor*> tensors;
  std::vector<aclIntArray*> arrays;
  mutable std::vector<std::optional<std::string>> texts;
  mutable std::map<size_t, const aclTensorList*> lists;
};

namespace {

constexpr int64_t kAllTokens = 2147483647;

OperatorCall VarLenForward() {
  return {
      .name = "aclnnFlashAttentionVarLenScore",
      .tensors =
          {
              {{6, 4, 8}, ACL_FLOAT},              // query
              {{8, 2, 8}, ACL_FLOAT},              // key
              {{8, 2, 8}, ACL_FLOAT},              // value
              {{4 * (3 * 4 + 3 * 4)}, ACL_FLOAT},  // realShift
              {{12}, ACL_UINT8},                   // dropMask
              {{1}, ACL_UINT8, false},             // paddingMask
              {{3, 4}, ACL_BOOL},                  // attenMask
              {{6, 4, 8}, ACL_FLOAT},              // softmaxMax
              {{6, 4, 8}, ACL_FLOAT},              // softmaxSum
              {{0}, ACL_FLOAT, false},             // softmaxOut
              {{6, 4, 8}, ACL_FLOAT},              // attentionOut
          },
      .arrays = {{{0, 0}}, {{3, 6}}, {{4, 8}}},
      .reals = {0.5, 0.9},
      .integers = {kAllTokens, kAllTokens, 4, 0, 1},
      .texts = {"TND"},
      .first_output = 7,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], t[5], t[6], h.arrays[0],
                h.arrays[1], h.arrays[2], c.reals[0], c.reals[1], c.integers[0],
                c.integers[1], c.integers[2], h.Text(0), c.integers[3],
                c.integers[4], t[7], t[8], t[9], t[10], size, executor);
          },
      .launch = aclnnFlashAttentionVarLenScore,
  };
}

OperatorCall VarLenBackward() {
  const TensorArgument query{{6, 4, 8}, ACL_BF16};
  const TensorArgument key{{8, 2, 8}, ACL_BF16};
  return {
      .name = "aclnnFlashAttentionUnpaddingScoreGradV5",
      .tensors =
          {
              query,
              {{6, 4, 4}, ACL_BF16},     // queryRope
              key,                       // keyIn
              {{8, 2, 4}, ACL_BF16},     // keyInRope
              key,                       // value
              query,                     // dy
              {{4}, ACL_FLOAT, false},   // pseShift
              {{12}, ACL_UINT8, false},  // dropMask
              {{1}, ACL_UINT8, false},   // paddingMask
              {{3, 4}, ACL_UINT8},       // attenMask
              {{6, 4, 8}, ACL_FLOAT},    // softmaxMax
              {{6, 4, 8}, ACL_FLOAT},    // softmaxSum
              {{0}, ACL_FLOAT, false},   // softmaxIn
              query,                     // attentionIn
              {{4}, ACL_FLOAT},          // sinkIn
              query,                     // dq
              {{6, 4, 4}, ACL_BF16},     // dqRope
              key,                       // dk
              {{8, 2, 4}, ACL_BF16},     // dkRope
              key,                       // dv
              {{0}, ACL_BF16, false},    // dpse
              {{4}, ACL_FLOAT},          // dsink
          },
      .arrays = {{{0, 0}}, {{3, 6}}, {{4, 8}}, {{0}}, {{0}}},
      .reals = {0.5, 1.0},
      .integers = {kAllTokens, kAllTokens, 4, 0, 1, 1},
      .texts = {"TND", "same_as_input"},
      .first_output = 15,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9],
                t[10], t[11], t[12], t[13], t[14], h.arrays[0], h.arrays[1],
                h.arrays[2], h.arrays[3], h.arrays[4], c.reals[0], c.reals[1],
                c.integers[0], c.integers[1], c.integers[2], h.Text(0),
                c.integers[3], c.integers[4], c.integers[5], h.Text(1), t[15],
                t[16], t[17], t[18], t[19], t[20], t[21], size, executor);
          },
      .launch = aclnnFlashAttentionUnpaddingScoreGradV5,
  };
}

// What a version lacks is absent.
std::vector<TensorArgument> PrefillTensors(bool scales) {
  return {
      {{2, 4, 3, 8}, ACL_FLOAT16},                      // query
      {{2, 2, 5, 8}, ACL_FLOAT16},                      // key
      {{2, 2, 5, 8}, ACL_FLOAT16},                      // value
      {{2, 4, 3, 5}, ACL_FLOAT16},                      // pseShift
      {{2, 1, 3, 5}, ACL_BOOL},                         // attenMask
      {{1}, ACL_FLOAT, false},                          // deqScale1
      {{1}, ACL_FLOAT, false},                          // quantScale1
      {{1}, ACL_FLOAT, false},                          // deqScale2
      {{1}, ACL_FLOAT, scales},                         // quantScale2
      {{1}, ACL_FLOAT, scales},                         // quantOffset2
      {{2, 4, 3, 8}, scales ? ACL_INT8 : ACL_FLOAT16},  // attentionOut
  };
}

OperatorCall Prefill() {
  return {
      .name = "aclnnPromptFlashAttention",
      .tensors = PrefillTensors(false),
      .arrays = {{{2, 3}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2},
      .texts = {"BNSD"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], c.integers[0],
                c.reals[0], c.integers[1], c.integers[2], h.Text(0),
                c.integers[3], t[10], size, executor);
          },
      .launch = aclnnPromptFlashAttention,
  };
}

OperatorCall PrefillV2() {
  return {
      .name = "aclnnPromptFlashAttentionV2",
      .tensors = PrefillTensors(true),
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0},
      .texts = {"BNSD"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionV2GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], h.arrays[1], t[5],
                t[6], t[7], t[8], t[9], c.integers[0], c.reals[0],
                c.integers[1], c.integers[2], h.Text(0), c.integers[3],
                c.integers[4], t[10], size, executor);
          },
      .launch = aclnnPromptFlashAttentionV2,
  };
}

OperatorCall PrefillV3() {
  return {
      .name = "aclnnPromptFlashAttentionV3",
      .tensors = PrefillTensors(true),
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1},
      .texts = {"BNSD"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionV3GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], h.arrays[1], t[5],
                t[6], t[7], t[8], t[9], c.integers[0], c.reals[0],
                c.integers[1], c.integers[2], h.Text(0), c.integers[3],
                c.integers[4], c.integers[5], t[10], size, executor);
          },
      .launch = aclnnPromptFlashAttentionV3,
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
  return {VarLenForward(),  VarLenBackward(), Prefill(),  Decode(),
          SparseBackward(), PrefillV2(),      PrefillV3()};
}

}  // namespace flashacl::testing
