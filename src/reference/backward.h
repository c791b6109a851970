// SPDX-License-Identifier: Apache-2.0
// The backward direction by definition, from the row max and row sum the
// forward direction left.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "plan/plan.h"

namespace flashacl::reference {

// Gradients of keys exist where every key row has one owner: not in pages,
// which sequences may share, and not for int8 rows.
Status SupportsBackward(const AttentionProblem& problem);

void PrepareBackward(const AttentionProblem& problem, WorkspaceLayout& layout);

Status LaunchBackward(const AttentionProblem& problem, const Bindings& bindings,
                      std::byte* workspace, Workers& workers);

}  // namespace flashacl::reference
