// SPDX-License-Identifier: Apache-2.0
// The backward direction by definition, from the row max and row sum the
// forward direction left.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "plan/plan.h"

namespace flashacl::reference {

void PrepareBackward(const AttentionProblem& problem, WorkspaceLayout& layout);

Status LaunchBackward(const AttentionProblem& problem, const Bindings& bindings,
                      std::byte* workspace, Workers& workers);

}  // namespace flashacl::reference
