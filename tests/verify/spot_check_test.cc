// SPDX-License-Identifier: Apache-2.0
// Right answers pass and wrong ones do not, whole or in subproblems.
#include "verify/spot_check.h"

#include <gtest/gtest.h>

#include "backends.h"
#include "plan/plan.h"
#include "problem/notation.h"

namespace flashacl {
namespace {

constexpr double kSmall = 1;
constexpr double kLarge = 1e15;  // so subproblems are single rows

// The reference's answer in the sample.
Result<Sample> Answered(const char* line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  Result<Sample> sample = MakeSample(CpuBackend(), *problem, 1);
  EXPECT_TRUE(sample.ok()) << sample.status().message();
  const Result<Plan> plan = MakePlan(CpuBackend(), *problem);
  const GuardedBytes workspace =
      GuardedBytes::Allocate(*CpuBackend().memory, plan->workspace.bytes());
  EXPECT_TRUE(
      Run(*CpuBackend().queue, *plan, sample->bindings(), workspace.data())
          .ok());
  return sample;
}

constexpr const char* kLines[] = {
    "fwd f32 h=4/2 d=16 q=40,0,9 k=50,3,9 causal",
    "fwd bf16 h=4/2 d=16 q=5x1 k=5x40 paged:16 int8:channel counts:k",
    "fwd f16 h=2 d=16 q=30 k=30 causal sink stats",
    "bwd f32 h=4/2 d=16 q=40,0,9 k=50,3,9 causal",
    "bwd bf16 h=4/1 d=16+8/16 q=20 k=40 topk:8 shared causal",
    "bwd f16 h=4/2 d=16 q=20 k=20 window:7:0 sink",
};

TEST(SpotCheck, RightAnswersPass) {
  for (const char* line : kLines) {
    const Result<Sample> sample = Answered(line);
    const Result<Checked> all = CheckAnswer(CpuBackend(), *sample, kSmall);
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(Describe(*all), "all verified");
    const Result<Checked> some = CheckAnswer(CpuBackend(), *sample, kLarge);
    ASSERT_TRUE(some.ok()) << line << ": " << some.status().message();
    EXPECT_FALSE(some->all);
    EXPECT_GE(some->rows, 2);
    EXPECT_EQ(some->columns > 0, line[0] == 'b') << line;
  }
}

// Every output but those no subproblem has; each byte of it.
TEST(SpotCheck, WrongAnswersDoNot) {
  for (const char* line : kLines) {
    const Result<Sample> sample = Answered(line);
    const AttentionProblem& problem = sample->problem();
    for (size_t n = 0; n < kSlots; ++n) {
      const auto slot = static_cast<Slot>(n);
      if (!problem.has(slot) || !IsOutput(problem.direction, slot)) continue;
      const std::span<std::byte> bytes = sample->bytes(slot);
      const std::vector<std::byte> right(bytes.begin(), bytes.end());
      for (std::byte& byte : bytes) byte ^= std::byte{0x41};
      for (const double flops : {kSmall, kLarge}) {
        const auto checked = CheckAnswer(CpuBackend(), *sample, flops);
        if (slot == Slot::kGradSink && flops == kLarge) {
          ASSERT_TRUE(checked.ok());
          EXPECT_NE(Describe(*checked).find("not grad sink"),
                    std::string::npos);
          continue;
        }
        ASSERT_FALSE(checked.ok()) << line << ": " << Name(slot);
        EXPECT_EQ(checked.status().code(), Code::kInternal);
        EXPECT_NE(checked.status().message().find(Name(slot)),
                  std::string::npos)
            << checked.status().message();
      }
      std::copy(right.begin(), right.end(), bytes.begin());
    }
  }
}

// The first row and the last one are always looked at.
TEST(SpotCheck, LooksAtBothEnds) {
  const Result<Sample> sample = Answered("fwd f32 h=1 d=4 q=30 k=30");
  const std::span<std::byte> out = sample->bytes(Slot::kOut);
  for (std::byte* byte : {&out.front(), &out.back()}) {
    const std::byte right = *byte;
    *(byte == &out.front() ? byte + 3 : byte) ^= std::byte{0x41};
    EXPECT_FALSE(CheckAnswer(CpuBackend(), *sample, kLarge).ok());
    *(byte == &out.front() ? byte + 3 : byte) ^= std::byte{0x41};
    EXPECT_EQ(*byte, right);
  }
  EXPECT_TRUE(CheckAnswer(CpuBackend(), *sample, kLarge).ok());
}

TEST(SpotCheck, SaysWhatItCannotCheck) {
  const Result<Sample> sample =
      Answered("fwd f32 h=1 d=8 q=8 k=8 causal bias:hij:diagonal:8");
  const Result<Checked> checked = CheckAnswer(CpuBackend(), *sample, kLarge);
  ASSERT_TRUE(checked.ok()) << checked.status().message();
  EXPECT_EQ(Describe(*checked).find("not verified: bias"), 0u)
      << Describe(*checked);
}

}  // namespace
}  // namespace flashacl
