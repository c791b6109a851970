// SPDX-License-Identifier: Apache-2.0
// How far results are from the truth, and how far they may be.
//
// The rule: at most twice the error of a plain implementation with the same
// storage types and fp32 sums, plus one rounding of the result. The error of
// that plain implementation is not run but bounded, for data such as Sample
// makes (elements of deviation 1, none beyond 3):
//
//   u = 2^-24                unit roundoff of fp32; sums of n terms err like
//                            sqrt(n) u, as independent roundings do
//   A = how large scores are: 6 |scale| sqrt(qk + rope), and the biases
//   i = 2^-15                where queries may become integers of 16 bits, of
//                            which half a unit is 2^-16 of the greatest; else 0
//   e = (u (sqrt(qk + rope) + 8)     of a score, so relative of its exp
//        + i) A
//     + u (sqrt(columns) + 4)        of the sums over keys
//     + s                            weights rounded to the query's dtype
//
// Outcome may err by 2 e (backward: 4 e) times the greatest result of their
// tensor, row max by e - s, row sum by 2 (e - s) of itself, 8-bit results by
// one step. Gradients are differences that may cancel to nothing, so they may
// also err by the roundings of what cancels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/attention_problem.h"
#include "verify/sample.h"

namespace flashacl {

// One output against the truth.
struct Difference {
  Slot slot = Slot::kOut;
  int64_t elements = 0;
  int64_t wrong = 0;      // farther off than allowed
  int64_t special = 0;    // NaN or infinite where the truth is not, or else
  int64_t zero_rows = 0;  // rows whose truth is all 0, and are not
  double greatest = 0;    // |truth|, where finite
  double max_error = 0;
  double max_row_error = 0;  // relative to the greatest of its row
  double max_share = 0;      // of what is allowed; above 1 is wrong
  int64_t worst = -1;        // offset of the element with that share
  double worst_got = 0;
  double worst_want = 0;

  bool ok() const { return wrong == 0 && special == 0 && zero_rows == 0; }
};

// "out: 512 elements, error 1.2e-07 (0.31 of what is allowed)", and what is
// wrong with it.
std::string Describe(const Difference& difference);

// What an element of an output may err by: `of_itself` |truth| + `absolute`.
struct Tolerance {
  double of_itself = 0;
  double absolute = 0;
};

// For an output whose greatest magnitude is `greatest`.
Tolerance ToleranceOf(const AttentionProblem& problem, Slot slot,
                      double greatest);

// What a run leaves behind.
struct Outcome {
  const AttentionProblem& problem;
  const Bindings& bindings;
};

// Every output of `got` against `truth`, which is what the reference makes of
// WithWideResults(got.problem). For work on the host (Queue::OnHost).
std::vector<Difference> Compare(const Outcome& got, const Outcome& truth);
std::vector<Difference> Compare(const Sample& got, const Sample& truth);

bool AllOk(const std::vector<Difference>& differences);

}  // namespace flashacl
