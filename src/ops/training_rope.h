// SPDX-License-Identifier: Apache-2.0
// Rope: further channels of query and key, in tensors of their own. Only packed
// sequences have it, and it excludes much else.
#pragma once

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/training.h"
#include "problem/attention_problem.h"

namespace flashacl::ops {

// Whether the call has rope: tensors that have channels, if not rows.
bool HasRope(const acl::Arguments& args, const TrainingTable& rows);

// kInvalidArgument unless the first `axes` extents of both tensors are equal,
// and their ranks.
Status CheckShape(const acl::Arguments& args, int row, int like, size_t axes);

// kNullArgument if something is missing that rope cannot be without,
// kInvalidArgument if something is there that does not go with it, or has
// another shape or type.
Status CheckRope(const acl::Arguments& args, const TrainingTable& rows,
                 const TrainingArgs& a);

// States the rope tensors, if any, after the check.
void StateRope(const acl::Arguments& args, const TrainingTable& rows,
               const Training& training, AttentionProblem& problem);

}  // namespace flashacl::ops
