// SPDX-License-Identifier: Apache-2.0
// The answer of chosen rows is what the reference says of them.
#include "verify/answer/answer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends.h"
#include "problem/notation.h"
#include "verify/answer/judgement.h"
#include "verify/answer/units.h"
#include "verify/verify.h"

namespace flashacl {
namespace {

std::vector<Part> Compute(const TensorSet& tensors,
                          const std::vector<Unit>& units,
                          const Recipe& recipe) {
  std::vector<Part> parts;
  (void)CpuBackend().queue->OnHost([&](Workers& workers) -> Status {
    parts = ComputeParts(tensors, units, recipe, workers);
    return {};
  });
  return parts;
}

// Results of the reference in f32, as somebody's.
TensorSet Referred(const Sample& sample) {
  TensorSet tensors;
  tensors.problem = sample.problem();
  tensors.bindings = sample.bindings();
  return tensors;
}

// What an f32 result may be off that was computed in fp64: its rounding, and
// backward those of the row maxima and sums that it takes, which a gradient
// sees magnified by the scores they are subtracted from, and of the output.
double AllowedShare(const AttentionProblem& problem) {
  if (problem.direction == Direction::kForward) return 0x1p-24;
  return 0x1p-18 + RoundoffOf(problem[Slot::kOut].dtype);
}

TEST(Answer, IsTheReferences) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=9,0,30 k=20,7,40 causal",
        "fwd f32 h=2 d=16+8/24 q=3x5 k=3x40 paged:16 sink",
        "fwd f16 h=4/2 d=32 q=20 k=33 mask bias window:9:3",
        "fwd f16 h=4/1 d=64 q=2x1 k=2x70 int8:channel+offset",
        "fwd bf16 h=2 d=32+16 q=12 k=30 topk:9 shared",
        "fwd f32 h=3 d=16 q=12 k=30 alibi keep:0.5 prefix:5",
        "bwd f32 h=4/2 d=32 q=9,30 k=20,40 causal",
        "bwd f16 h=2 d=16+8/24 q=20 k=20 mask keep:0.75 sink",
        "bwd bf16 h=2 d=32 q=12 k=30 topk:9 shared bias"}) {
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << line;
    const Result<Sample> sample = ReferenceRun(CpuBackend(), *problem, 7);
    ASSERT_TRUE(sample.ok()) << sample.status().message();
    const TensorSet tensors = Referred(*sample);
    const std::vector<Part> parts =
        Compute(tensors, ChooseUnits(*problem, INFINITY), {});
    ASSERT_FALSE(parts.empty());
    for (const Part& part : parts) {
      for (size_t row = 0; row < part.rows.size(); ++row) {
        for (int64_t d = 0; d < part.width; ++d) {
          const double want = part.row(row)[static_cast<size_t>(d)];
          const double allowed = AllowedShare(*problem) *
                                     (std::fabs(want) + part.magnitudes[row]) +
                                 0x1p-140;
          ASSERT_NEAR(ResultAt(tensors, part, row, d), want, allowed)
              << line << ": " << Name(part.slot) << " sequence "
              << part.sequence << " head " << part.head << " row "
              << part.rows[row];
        }
      }
    }
  }
}

TEST(Answer, OfSomeRowsIsThatOfAll) {
  const Result<AttentionProblem> problem =
      Parse("fwd bf16 h=4/2 d=32 q=300 k=400 causal");
  const Result<Sample> sample = ReferenceRun(CpuBackend(), *problem, 7);
  ASSERT_TRUE(sample.ok());
  const TensorSet tensors = Referred(*sample);
  const std::vector<Unit> some = ChooseUnits(*problem, 6e6);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_LT(some[0].rows.size(), 100u);
  EXPECT_EQ(some[0].rows.front(), 0);
  EXPECT_EQ(some[0].rows.back(), 299);
  const auto all = Compute(tensors, ChooseUnits(*problem, INFINITY), {});
  const auto parts = Compute(tensors, some, {});
  ASSERT_EQ(parts.size(), all.size());
  for (size_t n = 0; n < parts.size(); ++n) {
    for (size_t row = 0; row < parts[n].rows.size(); ++row) {
      const auto whole = all[n].row(static_cast<size_t>(parts[n].rows[row]));
      EXPECT_TRUE(std::ranges::equal(parts[n].row(row), whole));
    }
  }
}

// Half the work is at most as much as was asked for.
TEST(Answer, TakesSomeUnitsOfMany) {
  const Result<AttentionProblem> problem =
      Parse("fwd bf16 h=32/8 d=128 q=64x1 k=64x4096");
  const double whole = [&] {
    double flops = 0;
    for (const Unit& unit : ChooseUnits(*problem, INFINITY)) {
      flops += FlopsOf(*problem, unit);
    }
    return flops;
  }();
  double half = 0;
  for (const Unit& unit : ChooseUnits(*problem, whole / 2)) {
    half += FlopsOf(*problem, unit);
  }
  EXPECT_LE(half, whole / 2);
  EXPECT_GT(half, whole / 4);
}

}  // namespace
}  // namespace flashacl
