// SPDX-License-Identifier: Apache-2.0
// Refusals that several implementations share. Each function is ok, or
// kUnsupported with the reason.
#pragma once

#include "base/status.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// What tiles of many rows take in one direction: keys that all rows share.
Status SupportsTiles(const AttentionProblem& problem, Direction direction);

// What kernels over top-k lists take in one direction: lists, and nothing that
// is given score by score.
Status SupportsLists(const AttentionProblem& problem, Direction direction);

}  // namespace flashacl::cpu
