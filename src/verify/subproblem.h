// SPDX-License-Identifier: Apache-2.0
// A few rows or columns of a problem as a problem of its own on the same
// memory: whoever computes it need not know that there are others. What of a
// large problem can be checked against the reference is subproblems.
#pragma once

#include <cstdint>

#include "base/range.h"
#include "base/status.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// One sequence whose lengths are known; addresses point into the memory of the
// whole. Outputs that are not the subproblem's alone are absent.
struct Subproblem {
  AttentionProblem problem;
  Bindings bindings;
};

// Rows [first, last) of a sequence, against all its keys: forward results, or
// gradients of queries. `bindings` hold what FillInputs makes; lengths in
// tensors are read, so it is for work on the host (Queue::OnHost). kUnsupported
// for keep bits that start inside a byte and for bias of stored diagonals.
Result<Subproblem> TakeRows(const AttentionProblem& problem,
                            const Bindings& bindings, int64_t sequence,
                            Range rows);

// Columns [first, last) of a sequence of a backward problem, against all its
// rows: gradients of keys and values, which need no other column as row max
// and row sum are given. kUnsupported as above, and for keys in pages or lists;
// of gathered keys only columns from 0 on.
Result<Subproblem> TakeColumns(const AttentionProblem& problem,
                               const Bindings& bindings, int64_t sequence,
                               Range columns);

}  // namespace flashacl
