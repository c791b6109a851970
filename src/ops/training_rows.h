// SPDX-License-Identifier: Apache-2.0
// Query, key and value of a training call: what they must have in common, what
// the hardware would refuse, and their place in a problem.
#pragma once

#include <cstdint>
#include <string_view>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/training.h"
#include "problem/attention_problem.h"

namespace flashacl::ops {

// The tensors as the caller spells them; "TND" each.
struct TrainingRows {
  const acl::Tensor& query;
  const acl::Tensor& key;
  const acl::Tensor& value;
  std::string_view key_name;  // "key", "keyIn"
};

// kInvalidArgument unless the tensor in `row`, if any, has the type of that in
// `query`.
Status CheckTypeOfQuery(const acl::Arguments& args, int query, int row);

// kInvalidArgument unless key and query have equal head dims, and value's is
// not greater.
Status CheckHeadDims(const TrainingRows& rows);

// kContradiction unless headNum is query's, keys and values are as many, and
// their heads divide it.
Status CheckHeadCounts(const TrainingRows& rows, int64_t head_num);

// A tensor with the rows of keys, also if it has no heads at all.
TensorSpec KeyLike(const acl::Tensor& tensor, const Training& training);
TensorSpec QueryLike(const acl::Tensor& tensor, const Training& training);

// Heads, dims and the three tensors.
void StateRows(const TrainingRows& rows, const Training& training,
               AttentionProblem& problem);

// Strict mode: what the documents say the hardware cannot do.
Status CheckHardwareLimits(const TrainingRows& rows, const Training& training);

}  // namespace flashacl::ops
