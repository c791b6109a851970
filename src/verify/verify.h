// SPDX-License-Identifier: Apache-2.0
// Whether implementations do what a problem asks: against the truth, against
// themselves, and with an eye on memory that is not theirs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "plan/backend.h"
#include "problem/attention_problem.h"
#include "verify/compare.h"
#include "verify/sample.h"

namespace flashacl {

// What was found of one implementation.
struct Verdict {
  std::string_view implementation;
  std::string refusal;  // why it does not take the problem; empty if it does
  std::vector<Difference> differences;  // one per output
  std::vector<std::string> faults;      // empty if there are none

  bool ok() const { return faults.empty(); }
};

// Runs every implementation of `backend`, or the one named `only`, on random
// data from `seed`, and checks that
//  - results are as near to the reference's as they must be, and are zero,
//    infinite and NaN where those are;
//  - the reference itself agrees with what it says of halves of the keys;
//  - nothing is written but outputs and workspace;
//  - bits are the same in a second run and, of what runs on the host, with one
//    worker and with one that works backwards.
// Tells `progress` what it is at. Fails where the problem cannot be run at all.
Result<std::vector<Verdict>> Verify(
    const Backend& backend, const AttentionProblem& problem, uint64_t seed,
    std::string_view only, FunctionRef<void(std::string_view)> progress);

// The sample of `problem` with results in f32, as the reference leaves it: what
// a run on the same inputs is compared with. Fails as Verify does.
Result<Sample> ReferenceRun(const Backend& backend,
                            const AttentionProblem& problem, uint64_t seed);

}  // namespace flashacl
