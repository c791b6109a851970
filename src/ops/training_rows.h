// SPDX-License-Identifier: Apache-2.0
// Query, key and value of a training call: what they must have in common, what
// the hardware would refuse, and their place in a problem.
#pragma once

#include <cstdint>
#include <string_view>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/canonical.h"
#include "ops/training.h"
#include "problem/attention_problem.h"

namespace flashacl::ops {

// The extents of a tensor with rows, whatever the layout calls them.
struct Extents {
  int64_t sequences = 0;  // 1 if they are packed
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t dim = 0;
};

// The dense layout of that name; kInvalidArgument if there is none.
Result<const Layout*> ReadDenseLayout(std::string_view name);

// Of a tensor whose rank is the layout's. `heads` is only looked at where they
// are folded into the last axis, which they must divide.
Extents ExtentsOf(const acl::Tensor& tensor, const Layout& layout,
                  int64_t heads);

// The tensors as the caller spells them, and their extents.
struct TrainingRows {
  const Layout& layout;
  const acl::Tensor& query;
  const acl::Tensor& key;
  const acl::Tensor& value;
  std::string_view key_name;  // "key", "keyIn"
  Extents of_query = {};
  Extents of_key = {};
  Extents of_value = {};
};

// Fills in the extents. kInvalidArgument unless ranks are the layout's, head
// dims of query and key are equal and value's is not greater. headNum must be
// positive.
Status ReadExtents(TrainingRows& rows, int64_t head_num);

// kInvalidArgument unless the tensor in `row`, if any, has the type of that in
// `query`.
Status CheckTypeOfQuery(const acl::Arguments& args, int query, int row);

// kContradiction unless headNum is query's, sequences are as many, keys and
// values too, and their heads divide headNum.
Status CheckHeadCounts(const TrainingRows& rows, int64_t head_num);

// Query, key, value, or a tensor like one of them, in canonical order; also
// keys that have no heads at all.
TensorSpec QueryLike(const acl::Tensor& tensor, const Training& training);
TensorSpec KeyLike(const acl::Tensor& tensor, const Extents& extents,
                   const Training& training);

// One number per query head, [N].
TensorSpec HeadSpec(const acl::Tensor& tensor);

// The sequences: of the lists, or all alike. Without keys, none has any.
Result<Batch> ReadBatch(const TrainingRows& rows, const ArrayPair& ends);

// Heads, dims and the three tensors.
void StateRows(const TrainingRows& rows, const Training& training,
               AttentionProblem& problem);

// Strict mode: what the documents say the hardware cannot do.
Status CheckHardwareLimits(const TrainingRows& rows, const Training& training);

}  // namespace flashacl::ops
