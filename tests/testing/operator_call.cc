// SPDX-License-Identifier: Apache-2.0
// The operators' calls.
#include "tests/testing/operator_call.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/str.h"
#include "tests/testing/entry_points.h"

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
  };
}

}  // namespace

// The C side of one call; destroys what it made.
struct CallHandles {
  explicit CallHandles(const OperatorCall& call) : texts(call.texts) {
    for (const TensorArgument& of : call.tensors) {
      const aclTensor* const tensor = of.present ? Tensor(of) : nullptr;
      passed.tensors.push_back(tensor);
      if (of.list) passed.tensors.back() = List(of, tensor);
    }
    for (const auto& values : call.arrays) {
      passed.arrays.push_back(
          values.has_value() ? aclCreateIntArray(values->data(), values->size())
                             : nullptr);
    }
    for (const ScalarArgument& of : call.scalars) {
      passed.scalars.push_back(NewScalar(of));
    }
    passed.reals = call.reals;
    passed.integers = call.integers;
    for (auto& text : texts) {
      passed.texts.push_back(text.has_value() ? text->data() : nullptr);
    }
  }

  static const aclTensor* Tensor(const TensorArgument& of) {
    return aclCreateTensor(of.dims.data(), of.dims.size(), of.type,
                           of.strides.empty() ? nullptr : of.strides.data(),
                           of.offset, of.format, of.dims.data(), of.dims.size(),
                           of.data);
  }

  // Takes `first`, which may be null.
  static const aclTensorList* List(const TensorArgument& of,
                                   const aclTensor* first) {
    if (first == nullptr) return nullptr;
    std::vector<const aclTensor*> members{first};
    while (members.size() < of.members) members.push_back(Tensor(of));
    return aclCreateTensorList(members.data(), members.size());
  }

  CallHandles(const CallHandles&) = delete;
  CallHandles& operator=(const CallHandles&) = delete;

  ~CallHandles() {
    for (const acl::Passed& passed : passed.tensors) {
      aclDestroyTensorList(passed.list);  // and its members
      aclDestroyTensor(passed.tensor);
    }
    for (const aclIntArray* array : passed.arrays) aclDestroyIntArray(array);
    for (const aclScalar* scalar : passed.scalars) aclDestroyScalar(scalar);
  }

  std::vector<std::optional<std::string>> texts;
  Parameters passed;
};

int64_t TensorArgument::ExtentBytes() const {
  constexpr int64_t kMax = int64_t{1} << 22;
  if (!present || offset < 0 || offset > kMax) return 0;
  int64_t last = offset;
  int64_t dense = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] <= 0 || dims[axis] > kMax) return 0;
    const int64_t stride = strides.empty() ? dense : strides[axis];
    if (stride < 0 || stride > kMax) return 0;
    last += (dims[axis] - 1) * stride;
    dense *= dims[axis];
    if (last > kMax || dense > kMax) return 0;
  }
  if (type == ACL_INT4) return last / 2 + 1;
  return (last + 1) * static_cast<int64_t>(aclDataTypeSize(type));
}

std::string ToString(const OperatorCall& call) {
  std::string text = call.name;
  for (const TensorArgument& of : call.tensors) {
    const auto n = static_cast<size_t>(&of - call.tensors.data());
    text += n == call.first_output ? "\nfirst output" : "\ntensor";
    text += !of.present
                ? " absent"
                : Str(" type {} format {} [{}] strides [{}] offset {}",
                      static_cast<int>(of.type), static_cast<int>(of.format),
                      Join(of.dims, ", "), Join(of.strides, ", "), of.offset);
    if (of.list) text += Str(", {} in a list", of.members);
  }
  for (const auto& array : call.arrays) {
    text += array ? Str("\narray [{}]", Join(*array, ", ")) : "\nno array";
  }
  text += Str("\nnumbers {}; {}", Join(call.reals, ", "),
              Join(call.integers, ", "));
  for (const auto& one : call.texts) {
    text += one ? Str("\ntext {}", *one) : "\nno text";
  }
  return text;
}

bool OperatorCall::IsOutput(size_t tensor) const {
  return outputs.empty() ? tensor >= first_output
                         : std::ranges::count(outputs, tensor) > 0;
}

aclnnStatus OperatorCall::Prepare(uint64_t* workspace_size,
                                  aclOpExecutor** executor) const {
  return StandingCall(*this).Prepare(workspace_size, executor);
}

aclnnStatus OperatorCall::Launch(void* workspace, uint64_t workspace_size,
                                 aclOpExecutor* executor,
                                 aclrtStream stream) const {
  return EntryPointsOf(name).phase_two(workspace, workspace_size, executor,
                                       stream);
}

StandingCall::StandingCall(const OperatorCall& call)
    : call_(call), handles_(std::make_unique<const CallHandles>(call)) {}

StandingCall::~StandingCall() = default;

aclnnStatus StandingCall::Prepare(uint64_t* workspace_size,
                                  aclOpExecutor** executor) const {
  return EntryPointsOf(call_.name)
      .phase_one(handles_->passed, workspace_size, executor);
}

std::vector<OperatorCall> AllOperatorCalls() {
  // First one of each kind, which tests know by place, then the others.
  const std::vector<OperatorCall> training = TrainingOperatorCalls();
  const std::vector<OperatorCall> inference = InferenceOperatorCalls();
  std::vector<OperatorCall> calls{training[0], training[1], inference[0],
                                  inference[1], SparseBackward()};
  calls.insert(calls.end(), inference.begin() + 2, inference.end());
  calls.push_back(SparsePaged());
  calls.push_back(SparsePacked());
  calls.insert(calls.end(), training.begin() + 2, training.end());
  for (const auto& family :
       {ElementwiseOperatorCalls(), DropoutOperatorCalls(),
        MergeOperatorCalls(), PageOperatorCalls(), IndexerOperatorCalls()}) {
    calls.insert(calls.end(), family.begin(), family.end());
  }
  return calls;
}

std::vector<OperatorCall> OperatorCallsOfOtherTypes() {
  std::vector<OperatorCall> calls;
  const auto add = [&calls](OperatorCall call,
                            std::initializer_list<aclDataType> types) {
    size_t n = 0;
    for (const aclDataType type : types) call.tensors[n++].type = type;
    calls.push_back(std::move(call));
  };
  for (const OperatorCall& call : ElementwiseOperatorCalls()) {
    if (std::string_view(call.name) == "aclnnInplaceCopy") {
      add(call, {ACL_UINT16, ACL_UINT32});
      add(call, {ACL_COMPLEX64, ACL_COMPLEX64});
      add(call, {ACL_COMPLEX128, ACL_COMPLEX128});
    } else if (std::string_view(call.name) == "aclnnMul") {
      add(call, {ACL_INT16, ACL_INT16, ACL_INT16});
    }
  }
  for (const OperatorCall& call : PageOperatorCalls()) {
    if (std::string_view(call.name) != "aclnnGatherPaKvCache") continue;
    for (const aclDataType type :
         {ACL_INT16, ACL_UINT16, ACL_HIFLOAT8, ACL_FLOAT8_E5M2,
          ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0}) {
      add(call, {type, type, ACL_INT32, ACL_INT32, type, type});
    }
  }
  return calls;
}

}  // namespace flashacl::testing
