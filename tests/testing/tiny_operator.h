// SPDX-License-Identifier: Apache-2.0
// An operator for tests of the runtime: one head of attention over float
// tensors [row, channel], with a list of keys so that lists are covered too.
#pragma once

#include <memory>
#include <vector>

#include "acl/acl.h"
#include "acl/executor.h"
#include "aclnn/acl_meta.h"

namespace flashacl::testing {

inline constexpr acl::Argument kTinyArguments[] = {
    {.name = "query", .need = acl::Need::kRequired, .dtypes = acl::kF32Only},
    {.name = "key",
     .need = acl::Need::kRequired,
     .dtypes = acl::kF32Only,
     .list = true},
    {.name = "value",
     .need = acl::Need::kRequired,
     .dtypes = acl::kF32Only,
     .list = true},
    {.name = "maskOptional", .dtypes = acl::kMaskBytes},
    {.name = "out",
     .need = acl::Need::kRequired,
     .dtypes = acl::kF32Only,
     .output = true},
};

inline const acl::Operator kTinyOperator{"tiny", kTinyArguments, 561103};

inline TensorSpec TinySpec(const acl::Tensor& tensor) {
  return DenseSpec(DType::kF32, {1, tensor.dims[0], 1, tensor.dims[1]});
}

inline constexpr auto LowerTiny =
    [](const acl::Arguments& arguments) -> Result<acl::Lowered> {
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  acl::Lowered lowered;
  if (arguments[4].empty()) {
    lowered.nothing = true;
    return lowered;
  }
  AttentionProblem& problem = lowered.problem;
  problem.heads = problem.kv_heads = 1;
  problem.qk_dim = problem.v_dim = arguments[0].dims[1];
  const acl::Tensor& key = *arguments.list(1)[0].tensor;
  problem.lengths.sequences = {{{0, arguments[0].dims[0]}, {0, key.dims[0]}}};
  problem.kv.rows = KvSource::Rows::kList;
  problem[Slot::kQuery] = TinySpec(arguments[0]);
  problem[Slot::kKey] = TinySpec(key);
  problem[Slot::kValue] = problem[Slot::kKey];
  problem[Slot::kOut] = TinySpec(arguments[4]);
  problem.kv.key_list = {problem[Slot::kKey]};
  problem.kv.value_list = {problem[Slot::kValue]};
  lowered.Bind(arguments, 0, Slot::kQuery);
  lowered.BindList(arguments, 1, Slot::kKey);
  lowered.BindList(arguments, 2, Slot::kValue);
  lowered.Bind(arguments, 4, Slot::kOut);
  return lowered;
};

// Tensors and device memory of one tiny call: `rows` queries, one key, so that
// every row of the answer is the value row, whatever the query; or no key.
class TinyCall {
 public:
  explicit TinyCall(int64_t rows, int64_t channels = 4, int64_t key_rows = 1)
      : rows_(rows), channels_(channels) {
    aclrtSetDevice(0);
    query = Create(rows, &query_data);
    key_member = Create(key_rows, &key_data);
    value_member = Create(key_rows, &value_data);
    out = Create(rows, &out_data);
    const aclTensor* const keys[] = {key_member};
    const aclTensor* const values[] = {value_member};
    key = aclCreateTensorList(keys, 1);
    value = aclCreateTensorList(values, 1);
  }

  TinyCall(const TinyCall&) = delete;
  TinyCall& operator=(const TinyCall&) = delete;

  ~TinyCall() {
    DestroyHandles();
    for (float* data : {query_data, key_data, value_data, out_data}) {
      aclrtFree(data);
    }
    aclrtResetDevice(0);
  }

  void DestroyHandles() {
    aclDestroyTensor(query);
    aclDestroyTensorList(key);
    aclDestroyTensorList(value);
    aclDestroyTensor(out);
  }

  aclnnStatus Prepare() {
    const std::vector<acl::Passed> passed{
        query, key, value, static_cast<const aclTensor*>(nullptr), out};
    return acl::Prepare(kTinyOperator, passed, LowerTiny,
                        {&workspace_size, &executor});
  }

  // Fills the value row, so that the answer is known.
  void SetValue(float number) {
    for (int64_t d = 0; d < channels_; ++d) value_data[d] = number;
  }

  int64_t elements() const { return rows_ * channels_; }

  aclTensor* query = nullptr;
  aclTensor* key_member = nullptr;
  aclTensor* value_member = nullptr;
  aclTensor* out = nullptr;
  aclTensorList* key = nullptr;
  aclTensorList* value = nullptr;
  float* query_data = nullptr;
  float* key_data = nullptr;
  float* value_data = nullptr;
  float* out_data = nullptr;
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;

 private:
  aclTensor* Create(int64_t rows, float** data) {
    const int64_t dims[] = {rows, channels_};
    void* memory = nullptr;
    if (rows > 0) {
      const size_t bytes =
          static_cast<size_t>(rows * channels_) * sizeof(float);
      aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
      aclrtMemset(memory, bytes, 0, bytes);
    }
    *data = static_cast<float*>(memory);
    return aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims,
                           2, memory);
  }

  int64_t rows_;
  int64_t channels_;
};

}  // namespace flashacl::testing
