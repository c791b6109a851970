// SPDX-License-Identifier: Apache-2.0
// Runs a plan many times and takes the time, with the roofs measured around
// every repetition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/backend.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "roof/roof.h"
#include "verify/sample.h"

namespace flashacl::tool {

// A few runs in a row, and what the machine could do at that time: the mean of
// the roofs right before and right after.
struct Repetition {
  double seconds = 0;  // of one run
  double flops_roof = 0;
  double bandwidth_roof = 0;
};

struct Effort {
  double seconds = 1;   // repetitions begin until these are over
  int repetitions = 5;  // but no fewer than these
};

struct Measurement {
  std::vector<Repetition> repetitions;
  int64_t runs = 1;  // in each of them

  std::vector<double> Seconds() const;
  std::vector<double> FlopsRatios(const Cost& work) const;
  std::vector<double> BandwidthRatios(const Cost& work) const;
};

// The first run of a plan on fresh outputs.
struct FirstRun {
  double seconds = 0;
  // What it took besides its operands, workspace included, as the system counts
  // it; -1 where the system does not tell.
  int64_t peak_bytes = -1;
};

Result<FirstRun> RunOnce(const Backend& backend, const Plan& plan,
                         Sample& sample);

// Times `plan` on `sample`. Caches are warm as far as they can be: where a run
// is short, one that nobody times precedes each repetition. Fails if a run
// does, or if the last leaves other bits than the first.
Result<Measurement> Measure(const Backend& backend, const Plan& plan,
                            Sample& sample, const Effort& effort,
                            const Roofs& roofs);

}  // namespace flashacl::tool
