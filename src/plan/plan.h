// SPDX-License-Identifier: Apache-2.0
// A plan says how a problem will be computed. It holds no address: the same
// plan serves any number of runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/backend.h"
#include "plan/implementation.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl {

struct Plan {
  const Implementation* implementation = nullptr;
  std::shared_ptr<const Prepared> prepared;
  WorkspaceLayout workspace;
  std::string explanation;  // every implementation passed over, and why; one
                            // per line

  const AttentionProblem& problem() const { return prepared->problem(); }
};

// Reaches the rest of the table. Empty names choose freely.
struct Choice {
  std::string_view only;     // this implementation or none
  std::string_view without;  // any but this one
};

// The first implementation that takes the problem and suits it
// (Implementation::suits); where that would be the reference, the first that
// takes it. The one that is asked for need not suit.
// kInvalidArgument if the problem is impossible, kUnsupported with every
// refusal if nobody takes it.
Result<Plan> MakePlan(const Backend& backend, const AttentionProblem& problem,
                      const Choice& choice = {});

// Bytes of workspace that suffice for the problem with any lengths up to those
// it has. Of packed sequences these are that of the whole axis for one of them.
// Errors as MakePlan's.
Result<int64_t> WorkspaceOfAnyLengths(const Backend& backend,
                                      const AttentionProblem& problem);

// Puts the plan on `queue` and waits until it is done. `workspace` as
// Prepared::Run wants it.
Status Run(Queue& queue, const Plan& plan, const Bindings& bindings,
           std::byte* workspace);

}  // namespace flashacl
