// SPDX-License-Identifier: Apache-2.0
// The table row of the reference.
#include "reference/reference.h"

#include "plan/plan.h"
#include "reference/backward.h"
#include "reference/forward.h"

namespace flashacl {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return problem.direction == Direction::kForward
             ? Status()
             : reference::SupportsBackward(problem);
}

void Prepare(const DeviceInfo&, Plan& plan) {
  if (plan.problem.direction == Direction::kForward) {
    reference::PrepareForward(plan.problem, plan.workspace);
  } else {
    reference::PrepareBackward(plan.problem, plan.workspace);
  }
}

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  return plan.problem.direction == Direction::kForward
             ? reference::LaunchForward(plan.problem, bindings, workspace,
                                        workers)
             : reference::LaunchBackward(plan.problem, bindings, workspace,
                                         workers);
}

}  // namespace

const Implementation kReference{.name = "reference/fp64",
                                .supports = Supports,
                                .prepare = Prepare,
                                .launch = Launch};

}  // namespace flashacl
