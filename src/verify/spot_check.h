// SPDX-License-Identifier: Apache-2.0
// Whether an answer is right, in bounded time: all of it where the problem is
// small, else some of its rows and columns.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "plan/backend.h"
#include "verify/sample.h"

namespace flashacl {

// How much was compared, on how many heads whatever they are.
struct Checked {
  bool all = false;
  int64_t rows = 0;
  int64_t columns = 0;  // backward: whose gradients were
  std::string without;  // why some outputs were not
};

// "all verified", "64 rows verified".
std::string Describe(const Checked& checked);

// The inputs of a problem; a backward problem's with results of the fastest
// implementation of its forward problem.
Result<Sample> MakeSample(const Backend& backend,
                          const AttentionProblem& problem, uint64_t seed);

// FLOP of a problem up to which all of it is compared, some seconds.
inline constexpr double kFlopsOfWhole = 2e9;

// Compares the outputs in `sample` with the reference's, which is the last
// implementation of `backend`; `flops` is what the problem costs, and some
// rows and columns are compared where that is more than `flops_of_whole`.
// kInternal where the answer is wrong.
Result<Checked> CheckAnswer(const Backend& backend, const Sample& sample,
                            double flops,
                            double flops_of_whole = kFlopsOfWhole);

}  // namespace flashacl
