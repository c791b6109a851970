// SPDX-License-Identifier: Apache-2.0
// GetMaxWorkspaceSize of packed sequences: a workspace that is large enough
// whatever the lengths say, as long as the shapes stay.
#pragma once

#include "acl/executor.h"
#include "base/function_ref.h"

namespace flashacl::ops {

// Phase 1 of one call: checks, plans and answers.
using PrepareFunction = FunctionRef<aclnnStatus(acl::PhaseOne)>;

// Plans with `plan`, and answers the workspace of any lengths instead of that
// of the call's. Nothing is answered on failure.
aclnnStatus PrepareForAnyLengths(const acl::Operator& op, PrepareFunction plan,
                                 acl::PhaseOne answer) noexcept;

}  // namespace flashacl::ops
