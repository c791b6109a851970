// SPDX-License-Identifier: Apache-2.0
// Random problems from the whole space of what can be asked, small enough that
// thousands run in seconds.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/function_ref.h"
#include "base/random.h"
#include "problem/attention_problem.h"
#include "problem/problem_spec.h"

namespace flashacl::testing {

// What a law can take. Everything is on unless a test turns it off.
struct Space {
  bool forward = true;
  bool backward = true;
  int64_t most_sequences = 4;
  int64_t most_rows = 24;     // of a sequence
  int64_t most_columns = 40;  // of a sequence
  int64_t most_heads = 8;
  int64_t most_dim = 200;
  int64_t unit_dim = 1;    // channels are multiples of this, most_dim of them
  bool half_types = true;  // else f32
  bool int8 = true;
  bool sources = true;  // pages, lists, top-k; else strided keys
  bool rope = true;
  bool shared_value = true;
  bool masks = true;  // rules and tensors
  bool bias = true;
  bool sink = true;
  bool dropout = true;
  bool device_lengths = true;
  bool strides = true;  // else canonical problems
  // Log-sum-exp, masks of the last keys, padding after queries.
  bool inference = true;
  // Forward keys and values as caches hold them: channels in blocks, scales by
  // row, shared prefixes, four bits; and queries of bytes beside keys of bytes.
  bool caches = true;
};

// A problem that CheckProblem accepts. With `strides`, some of its tensors have
// gaps, other orders of axes, and grids placed in every way there is.
AttentionProblem RandomProblem(Random& random, const Space& space);

// How many of `count` random cases this run tries: FLASHACL_TEST_ROUNDS
// multiplies them, FLASHACL_TEST_PERCENT takes a part, as the slow builds of
// sanitizers do; at least one.
int64_t ShareOf(int64_t count);

// Calls `body` with ShareOf(count) problems, each with a generator of its own,
// until one fails. On failure, prints the problem's line and how to repeat it:
// the environment variable FLASHACL_TEST_SEED runs that one alone.
void ForRandomProblems(
    int64_t count, const Space& space,
    FunctionRef<void(const AttentionProblem&, Random&)> body);

// Whether a law met more than `fewest` of the cases that it is about: `seen` of
// them. Any share of the problems satisfies it, as it may lack them.
::testing::AssertionResult SeenOften(int64_t seen, int64_t fewest);

}  // namespace flashacl::testing
