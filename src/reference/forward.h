// SPDX-License-Identifier: Apache-2.0
// The forward direction by definition: fp64, three passes over each row.
#pragma once

#include <memory>

#include "plan/implementation.h"

namespace flashacl::reference {

std::shared_ptr<const Prepared> PrepareForward(const AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               WorkspaceLayout& layout);

}  // namespace flashacl::reference
