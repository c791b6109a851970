// SPDX-License-Identifier: Apache-2.0
// What sparse attention and its gradients are told alike: shapes of tensors
// that follow the query's or the key's, lists of keys, and statistics of rows.
// Errors are kInvalidArgument and name the argument.
#pragma once

#include <cstdint>

#include "acl/arguments.h"
#include "base/status.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// `row` has the shape of `like`, but for its last axis if `channels` is not
// negative.
Status CheckLike(const acl::Arguments& arguments, int row, int like,
                 int64_t channels = -1);

// The lists in `row` are [.., row, 1, K] for the queries in `query`, which are
// [.., row, head, channel].
Status CheckIndices(const acl::Arguments& arguments, int row, int query);

// Row max or row sum: [sequence, 1, row, head], or [1, row, head] for packed
// queries.
Status CheckStatistics(const acl::Arguments& arguments, int row, int query);
TensorSpec StatisticsSpec(const acl::Tensor& tensor, int64_t sequences);

// kInvalidArgument unless the tensor in `row`, if there is one, has a number
// for each of `sequences`.
Status CheckOneEach(const acl::Arguments& arguments, int row,
                    int64_t sequences);

// A plan keeps a range for each sequence.
inline constexpr int64_t kMaxPlanned = int64_t{1} << 20;

constexpr bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace flashacl::ops
