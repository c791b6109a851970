// SPDX-License-Identifier: Apache-2.0
// What the answer is: attention and its gradients by definition, in fp64,
// without tiles. Slow, readable, and the last row of every backend's table.
#pragma once

#include <memory>

#include "plan/implementation.h"

namespace flashacl {

// "reference/fp64": takes every problem. Results are rounded once, when they
// are stored, and are the same bits for any number of workers.
extern const Implementation kReference;

namespace reference {

// In three passes over each row.
std::shared_ptr<const Prepared> PrepareForward(const AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               WorkspaceLayout& layout);

// From the row max and row sum that the forward direction left.
std::shared_ptr<const Prepared> PrepareBackward(const AttentionProblem& problem,
                                                const DeviceInfo& device,
                                                WorkspaceLayout& layout);

}  // namespace reference
}  // namespace flashacl
