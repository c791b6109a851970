// SPDX-License-Identifier: Apache-2.0
// What tests of kernels on matrix registers share: one implementation on one
// target at a time, whose tiles go there where their rows fill matrices; on
// targets without the registers these are emulated.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "cpu/forward/forward_kernel.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {

class OnMatrices : public EachKernel {
 protected:
  ~OnMatrices() override { cpu::SetPairDotsForTest({}); }

  void SetUp() override {
    if (cpu::Forward().matrices == cpu::MatrixCode::kInstructions &&
        !cpu::HasMatrices()) {
      GTEST_SKIP() << "this processor has no matrix registers";
    }
    cpu::SetPairDotsForTest(cpu::PairDots::kMatrices);
  }

  // Whether tiles of the problem belong on the registers.
  virtual bool FillsMatrices(const AttentionProblem& problem) const = 0;

  // Whether the implementation takes the problem, too.
  bool Takes(const AttentionProblem& problem) const {
    return FillsMatrices(problem) && implementation_.supports(problem, {}).ok();
  }

  SmallCase Run(const SmallCase& inputs, int workers = 1) const {
    SmallCase small(inputs.problem());
    small.CopyInputs(inputs);
    RunOn(implementation_, small, workers);
    return small;
  }

  // Problems that all but cpu/mixed have to take.
  void ExpectAllRight(std::span<const char* const> lines) const {
    for (const char* line : lines) {
      SCOPED_TRACE(line);
      const AttentionProblem problem = ProblemOf(line);
      EXPECT_TRUE(FillsMatrices(problem));
      for (int64_t seed = 1; seed <= ShareOf(3); ++seed) {
        const bool taken = ExpectRight(problem, static_cast<uint64_t>(seed),
                                       implementation_.name);
        EXPECT_TRUE(taken || &implementation_ == &kCpuMixed);
      }
    }
  }

  void ExpectSameBitsOfAnyWorkers(const SmallCase& inputs) const {
    const SmallCase alone = Run(inputs);
    for (const int workers : {2, 7}) {
      ExpectSameBits(alone, Run(inputs, workers));
    }
  }
};

}  // namespace flashacl::testing
