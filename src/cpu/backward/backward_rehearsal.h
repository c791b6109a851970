// SPDX-License-Identifier: Apache-2.0
// How evenly workers share gradients, predicted: tiles are begun in the order
// of OrderedSum, and wait where it makes them.
#pragma once

#include "cpu/backward/backward_workspace.h"
#include "plan/balance.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Of a problem whose lengths are known.
Balance RehearseBackward(const AttentionProblem& problem,
                         const Schedule& schedule,
                         const BackwardWorkspace& workspace,
                         const TileShape& shape, int64_t workers);

}  // namespace flashacl::cpu
