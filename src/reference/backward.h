// SPDX-License-Identifier: Apache-2.0
// The backward direction by definition, from the row max and row sum the
// forward direction left.
#pragma once

#include <memory>

#include "plan/implementation.h"

namespace flashacl::reference {

std::shared_ptr<const Prepared> PrepareBackward(const AttentionProblem& problem,
                                                const DeviceInfo& device,
                                                WorkspaceLayout& layout);

}  // namespace flashacl::reference
