// SPDX-License-Identifier: Apache-2.0
// The forward direction by definition: fp64, three passes over each row.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "plan/plan.h"

namespace flashacl::reference {

void PrepareForward(const AttentionProblem& problem, WorkspaceLayout& layout);

Status LaunchForward(const AttentionProblem& problem, const Bindings& bindings,
                     std::byte* workspace, Workers& workers);

}  // namespace flashacl::reference
