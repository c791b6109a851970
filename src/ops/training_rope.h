// SPDX-License-Identifier: Apache-2.0
// Rope: further channels of query and key, in tensors of their own. Only packed
// sequences have it, and it excludes much else.
#pragma once

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/training.h"
#include "problem/attention_problem.h"

namespace flashacl::ops {

// Rows of an operator's table. Where there is no gradient it is -1.
struct RopeRows {
  int query, query_rope;
  int key, key_rope;
  int pse, drop_mask, atten_mask;
  int query_rope_gradient = -1;
  int key_rope_gradient = -1;
};

// What the caller passed in a row, also if it has no elements; null if nothing.
const acl::Tensor* PassedIn(const acl::Arguments& args, int row);

// Whether the call has rope: tensors that have channels, if not rows.
bool HasRope(const acl::Arguments& args, const RopeRows& rows);

// kInvalidArgument unless the first `axes` extents of both tensors are equal,
// and their ranks.
Status CheckShape(const acl::Arguments& args, int row, int like, size_t axes);

// The scalars that rope excludes.
struct RopeScalars {
  const TrainingNames& names;
  double keep_prob = 1;
  int64_t sparse_mode = 0;
};

// kNullArgument if something is missing that rope cannot be without,
// kInvalidArgument if something is there that does not go with it, or has
// another shape or type.
Status CheckRope(const acl::Arguments& args, const RopeRows& rows,
                 const RopeScalars& scalars);

// States the rope tensors, if any, after the check.
void StateRope(const acl::Arguments& args, const RopeRows& rows,
               const Training& training, AttentionProblem& problem);

}  // namespace flashacl::ops
