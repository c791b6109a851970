// SPDX-License-Identifier: Apache-2.0
// Which axis of a tensor is which, by its shape or by a name: B sequences, S
// rows of each, T rows of all, N heads, D channels, H heads times channels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "problem/attention_problem.h"
#include "verify/check/user_tensors.h"

namespace flashacl {

// What the axes of a tensor must reach.
struct RowExtents {
  int64_t sequences = 0;
  int64_t longest = 0;  // rows of one sequence
  int64_t total = 0;    // of all
  int64_t heads = 0;
  int64_t channels = 0;
  int64_t page_rows = 0;
};

struct RowTensor {
  std::string_view name;
  std::vector<int64_t> dims;
  RowExtents extents;
};

// The layout of all tensors; `wanted` if it is not empty.
Result<std::string> FindLayout(const std::vector<RowTensor>& tensors,
                               std::string_view wanted);

// Without an axis of sequences.
bool IsPacked(std::string_view layout);

// [sequence, row, head, channel], without a dtype.
Result<TensorSpec> RowsSpec(const RowTensor& tensor, std::string_view layout);

// [page, row, head, channel] of keys in pages.
Result<TensorSpec> PagesSpec(const UserTensor& tensor,
                             const RowExtents& extents);

// [sequence, head, row, column] of a mask, a bias or kept places.
Result<TensorSpec> PlaneSpec(const AttentionProblem& problem,
                             const UserTensor& tensor);

// The elements as numbers of `dtype`. Adds a note where rounding changed some.
Result<std::vector<std::byte>> ConvertElements(const UserTensor& tensor,
                                               DType dtype,
                                               std::vector<std::string>& notes);

// A byte for each element: 1 where it is not 0.
Result<std::vector<std::byte>> Flags(const UserTensor& tensor);

}  // namespace flashacl
