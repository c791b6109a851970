// SPDX-License-Identifier: Apache-2.0
// Plans that were made lately. Programs ask for the same problem again and
// again: layer by layer, step by step.
#pragma once

#include <memory>

#include "base/status.h"
#include "plan/plan.h"

namespace flashacl::acl {

// As MakePlan, but for a problem that was planned lately returns what it
// returned then. Any number of threads may call.
Result<std::shared_ptr<const Plan>> PlanFor(const Backend& backend,
                                            const AttentionProblem& problem);

// For who replaces or changes the backend.
void ForgetPlans();

}  // namespace flashacl::acl
