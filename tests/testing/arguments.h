// SPDX-License-Identifier: Apache-2.0
// What tests of lowering call it with: tensors without memory, arrays, and
// snapshots of both, as planning sees them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "acl/arguments.h"
#include "acl/tensor.h"
#include "aclnn/acl_meta.h"
#include "ops/training.h"

namespace flashacl::testing {

inline acl::Tensor Dense(const std::vector<int64_t>& dims,
                         aclDataType type = ACL_FLOAT) {
  acl::Tensor tensor;
  tensor.acl_dtype = type;
  tensor.rank = dims.size();
  std::ranges::copy(dims, tensor.dims.begin());
  int64_t stride = 1;
  for (size_t axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.dims[axis];
  }
  return tensor;
}

// An aclIntArray for the length of a scope.
class HostArray {
 public:
  HostArray(const std::vector<int64_t>& values)  // NOLINT: by design
      : handle_(aclCreateIntArray(values.data(), values.size())) {}
  ~HostArray() { aclDestroyIntArray(handle_); }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;
  operator const aclIntArray*() const { return handle_; }  // NOLINT

 private:
  aclIntArray* handle_;
};

// The tensors of a call by row of its table, without memory.
class TensorRows {
 public:
  explicit TensorRows(std::span<const acl::Argument> table)
      : table_(table), tensors_(table.size()) {}
  ~TensorRows() {
    for (const aclTensor* tensor : tensors_) aclDestroyTensor(tensor);
  }
  TensorRows(const TensorRows&) = delete;
  TensorRows& operator=(const TensorRows&) = delete;

  void Give(int row, const std::vector<int64_t>& dims,
            aclDataType type = ACL_BF16) {
    const aclTensor*& tensor = tensors_[static_cast<size_t>(row)];
    aclDestroyTensor(tensor);
    tensor = aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0,
                             ACL_FORMAT_ND, dims.data(), dims.size(), nullptr);
  }
  acl::Arguments Read() const {
    const std::vector<acl::Passed> passed(tensors_.begin(), tensors_.end());
    return *acl::Arguments::Read(table_, passed);
  }

 private:
  std::span<const acl::Argument> table_;
  std::vector<const aclTensor*> tensors_;
};

inline constexpr ops::TrainingNames kTrainingNames{
    "pse", "keepProb", "preTokens", "nextTokens", "sparseMode", "pseType"};

// What a call says of two heads besides tensors, unless it says otherwise.
inline constexpr ops::TrainingArgs kTrainingArgs{
    .sequences = ops::Sequences::kPacked,
    .prefix = nullptr,
    .lengths = ops::kNoArrays,
    .starts = ops::kNoArrays,
    .scale_value = 1,
    .keep_prob = 1,
    .pre_tokens = 0,
    .next_tokens = 0,
    .head_num = 2,
    .input_layout = "TND",
    .inner_precise = 0,
    .sparse_mode = 0};

}  // namespace flashacl::testing
