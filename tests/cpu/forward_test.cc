// SPDX-License-Identifier: Apache-2.0
// The forward tiles against the reference, on every instruction set that this
// processor has and the kernels are compiled for.
#include "cpu/forward.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "cpu/forward_kernel.h"
#include "plan/plan.h"
#include "plan/sample.h"
#include "plan/verify.h"
#include "problem/notation.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

using testing::ForRandomProblems;
using testing::OnTarget;
using testing::Space;
using testing::TargetsHere;

std::vector<int64_t> Targets() { return TargetsHere(cpu::ForwardTargets()); }

void ExpectRight(const AttentionProblem& problem, uint64_t seed) {
  const auto verdicts = Verify(CpuBackend(), problem, seed, "cpu/forward",
                               [](std::string_view) {});
  ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
  const Verdict& verdict = verdicts->front();
  if (problem.kv.gathers()) {
    EXPECT_NE(verdict.refusal, "");
    return;
  }
  EXPECT_EQ(verdict.refusal, "");
  for (const std::string& fault : verdict.faults) ADD_FAILURE() << fault;
}

class Forward : public ::testing::TestWithParam<int64_t> {};

// Small ones: every combination of what a problem may have.
TEST_P(Forward, IsRightOnRandomProblems) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  ForRandomProblems(2000, space, [](const AttentionProblem& p, Random& random) {
    ExpectRight(p, random.Bits());
  });
}

// Long enough for several steps of keys, panels, tiles and parts.
TEST_P(Forward, IsRightOnLongProblems) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  space.most_sequences = 2;
  space.most_rows = 300;
  space.most_columns = 700;
  space.most_heads = 3;
  space.most_dim = 70;
  ForRandomProblems(200, space, [](const AttentionProblem& p, Random& random) {
    ExpectRight(p, random.Bits());
  });
}

// Channels beyond one slice of a score's sum, and beyond what CANN takes.
TEST_P(Forward, IsRightOnWideProblems) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd f32 h=2/1 d=576/512 q=40 k=50 causal",
        "fwd bf16 h=4/1 d=512+64/512 q=9 k=200 shared",
        "fwd f16 h=1 d=768 q=33 k=65", "fwd f32 h=1 d=1025/3 q=5 k=7",
        "fwd f16 h=1 d=1/1000 q=20 k=31 mask",
        "fwd bf16 h=8/1 d=128 q=1 k=9000 window:4999:0 sink stats"}) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    ExpectRight(*problem, 3);
  }
}

// Scores without channels are all 0, or their biases.
TEST_P(Forward, IsRightWithoutChannels) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd f32 h=2 d=0/4 q=20 k=50", "fwd f16 h=2/1 d=0/9 q=3 k=30 bias",
        "fwd bf16 h=1 d=0/5 q=40 k=40 causal stats sink",
        "fwd f32 h=1 d=4/0 q=3 k=5 stats", "fwd f32 h=1 d=0 q=3 k=5 stats",
        "fwd f32 h=1 d=0+3/4 q=3 k=5"}) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    ExpectRight(*problem, 3);
  }
}

// Weights are rounded with the greatest score of the whole row.
TEST_P(Forward, IsRightOn8BitQueries) {
  const OnTarget target(GetParam());
  for (const char* line :
       {"fwd i8 h=4/2 d=64 q=100 k=330 int8:tensor causal",
        "fwd i8 h=2 d=16 q=3 k=2000 int8:tensor",
        "fwd i8 h=8/1 d=33/20 q=17,0,40 k=50,9,0 int8:tensor mask"}) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    ExpectRight(*problem, 5);
  }
}

// A scale of 0 is a scale: every weight becomes 0, and so does the output.
TEST_P(Forward, RoundsWeightsWithAScaleOfZero) {
  const OnTarget target(GetParam());
  const Result<AttentionProblem> problem =
      Parse("fwd i8 h=2 d=16 q=5 k=40 int8:tensor");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Result<Sample> sample = Sample::Make(*problem, 1, CpuBackend());
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  for (std::byte& byte : sample->bytes(Slot::kWeightScale)) byte = {};
  const Result<Plan> plan =
      MakePlan(CpuBackend(), *problem, {.only = "cpu/forward", .without = {}});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::byte> memory(static_cast<size_t>(plan->workspace.bytes()) +
                                64);
  void* at = memory.data();
  size_t room = memory.size();
  std::align(64, room - 64, at, room);
  ASSERT_TRUE(flashacl::Run(CpuBackend(), *plan, sample->bindings(),
                            static_cast<std::byte*>(at))
                  .ok());
  const TensorSpec& out = (*problem)[Slot::kOut];
  ASSERT_EQ(out.dtype, DType::kF16);
  const std::span<std::byte> bytes = sample->bytes(Slot::kOut);
  for (size_t n = 0; n < bytes.size(); ++n) {
    // 0 or -0.
    ASSERT_EQ(std::to_integer<int>(bytes[n]) & (n % 2 == 1 ? 0x7F : 0xFF), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Forward, ::testing::ValuesIn(Targets()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl
