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
#include "verify/spot_check.h"

namespace flashacl {

// What was found of one implementation.
struct Verdict {
  std::string_view implementation;
  std::string refusal;  // why it does not take the problem; empty if it does
  std::vector<Difference> differences;  // one per output, where all was seen
  Checked checked;                      // how much was compared
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

// The same in bounded time for problems of any size: results are compared in
// some rows and columns, of what runs on the host a run with one worker that
// works backwards stands for both, and the reference, which would take long, is
// left out.
Result<std::vector<Verdict>> VerifySome(
    const Backend& backend, const AttentionProblem& problem, uint64_t seed,
    std::string_view only, FunctionRef<void(std::string_view)> progress);

// Whether Verify would take many seconds: then VerifySome is the usual choice.
bool IsLong(const AttentionProblem& problem);

// About how many seconds either takes, from what the parts of it take on a
// processor of today.
double EstimateSeconds(const Backend& backend, const AttentionProblem& problem,
                       bool some);

// The sample of `problem` with results in f32, as the reference leaves it: what
// a run on the same inputs is compared with. Fails as Verify does.
Result<Sample> ReferenceRun(const Backend& backend,
                            const AttentionProblem& problem, uint64_t seed);

}  // namespace flashacl
