// SPDX-License-Identifier: Apache-2.0
// Choosing is a loop over a table, and a refusal is an answer.
#include "plan/plan.h"

#include <utility>

#include "base/str.h"

namespace flashacl {
namespace {

Status Takes(const Implementation& candidate, const AttentionProblem& problem,
             const DeviceInfo& device, const Choice& choice) {
  if (!choice.only.empty() && candidate.name != choice.only) {
    return Unsupported("not the implementation asked for");
  }
  if (!choice.without.empty() && candidate.name == choice.without) {
    return Unsupported("excluded by the caller");
  }
  return candidate.supports(problem, device);
}

}  // namespace

Result<Plan> MakePlan(const Backend& backend, const AttentionProblem& problem,
                      const Choice& choice) {
  FLASHACL_RETURN_IF_ERROR(CheckProblem(problem));
  std::string reasons;
  for (const Implementation& candidate : backend.implementations) {
    if (Status fits = Takes(candidate, problem, backend.device, choice);
        !fits.ok()) {
      reasons += Str("{}: {}\n", candidate.name, fits.message());
      continue;
    }
    Plan plan;
    plan.implementation = &candidate;
    plan.prepared = candidate.prepare(problem, backend.device, plan.workspace);
    plan.explanation = std::move(reasons);
    return plan;
  }
  return Unsupported("no implementation takes this problem\n{}", reasons);
}

Status Run(Queue& queue, const Plan& plan, const Bindings& bindings,
           std::byte* workspace) {
  FLASHACL_RETURN_IF_ERROR(plan.prepared->Run(bindings, workspace, queue));
  return queue.Wait();
}

}  // namespace flashacl
