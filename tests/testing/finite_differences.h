// SPDX-License-Identifier: Apache-2.0
// Gradients against the slope of the forward direction itself.
#pragma once

#include "base/random.h"
#include "problem/attention_problem.h"
#include "tests/testing/small_case.h"

namespace flashacl {

// Fills a backward problem, in fp64, with random inputs and the results of its
// forward twin, and runs it.
SmallCase RunBackward(const AttentionProblem& problem, Random& random);

// Expects every gradient of a backward case that has run to be the slope of
// sum(grad_out * out). Inputs with more than `most` elements are probed at
// that many places.
void ExpectSlopes(const SmallCase& backward, int64_t most, Random& random);

}  // namespace flashacl
