// SPDX-License-Identifier: Apache-2.0
// The answer of chosen rows is what the reference says of them.
#include "verify/answer/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends.h"
#include "base/number.h"
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
        "bwd bf16 h=2 d=32 q=12 k=30 topk:9 shared bias",
        "bwd f32 h=4/2 d=32 q=2x9 k=2x20 bias grad:qkvb causal",
        "bwd f32 h=4/2 d=16 q=9,30 k=20,40 bias:ij grad:qkvbs sink keep:0.75",
        "bwd f16 h=4 d=16 q=2x9 k=2x20 bias:before:bhj grad:b",
        "bwd f32 h=2 d=16 q=40 k=40 bias:diagonal:12 causal grad:qkvb",
        "bwd f32 h=4/2 d=16 q=9,20 k=14,30 alibi grad:qb",
        "bwd bf16 h=4/1 d=32 q=9,0,30 k=20,7,0 sink grad:s"}) {
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << line;
    const Result<Sample> sample = ReferenceRun(CpuBackend(), *problem, 7);
    ASSERT_TRUE(sample.ok()) << sample.status().message();
    const TensorSet tensors = Referred(*sample);
    const Results results(tensors);
    const std::vector<Part> parts =
        Compute(tensors, ChooseUnits(*problem, INFINITY), {});
    ASSERT_FALSE(parts.empty());
    for (const Slot slot : {Slot::kGradBias, Slot::kGradSink}) {
      EXPECT_EQ(std::ranges::count(parts, slot, &Part::slot) > 0,
                problem->has(slot))
          << line << ": " << Name(slot);
    }
    for (const Part& part : parts) {
      for (size_t row = 0; row < part.rows.size(); ++row) {
        for (int64_t d = 0; d < part.width; ++d) {
          const double want = part.row(row)[static_cast<size_t>(d)];
          const double allowed = AllowedShare(*problem) *
                                     (std::fabs(want) + part.magnitudes[row]) +
                                 0x1p-140;
          ASSERT_NEAR(results.At(part, row, d), want, allowed)
              << line << ": " << Name(part.slot) << " sequence "
              << part.sequence << " head " << part.head << " row "
              << part.rows[row];
        }
      }
    }
  }
}

// A number that no rounding makes of `was`.
double Broken(DType dtype, Slot slot, double was) {
  if (!(std::fabs(was) < 1e30)) return 0.25;  // of a row that sees no key
  if (dtype == DType::kI8) return was > 0 ? was - 16 : was + 16;
  const bool rounded = slot == Slot::kOut || IsOfScores(slot);
  return was + (std::fabs(was) + 1) * (rounded ? 0.25 : 0x1p-10);
}

// The reference's results are right, and one number of these that is off, in
// any row, is found.
void ExpectFound(const char* line, const std::vector<Slot>& slots) {
  SCOPED_TRACE(line);
  const Result<AttentionProblem> problem = Parse(line);
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Result<Sample> sample = ReferenceRun(CpuBackend(), *problem, 7);
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  const TensorSet tensors = Referred(*sample);
  const std::vector<Unit> units = ChooseUnits(*problem, INFINITY);
  const std::vector<Part> exact = Compute(tensors, units, {});
  const Allowance allowance = AllowanceOf(
      *problem, exact, Compute(tensors, units, PlainRecipe(*problem)));
  EXPECT_TRUE(Judge(tensors, exact, allowance).right());
  const Results results(tensors);
  for (const Slot slot : slots) {
    const auto part = std::ranges::find(exact, slot, &Part::slot);
    ASSERT_NE(part, exact.end()) << Name(slot);
    for (size_t row = 0; row < part->rows.size(); ++row) {
      const DType dtype = tensors.problem[slot].dtype;
      const auto values = part->row(row);
      const auto greatest =
          std::ranges::max_element(values, {},
                                   [](double x) { return std::fabs(x); }) -
          values.begin();
      std::byte* const at =
          tensors.bindings[slot] +
          results.Offset(*part, row, greatest) * SizeOf(dtype);
      const double was = ReadNumber(dtype, at);
      WriteNumber(dtype, at, Broken(dtype, slot, was));
      EXPECT_EQ(Judge(tensors, exact, allowance).wrong_rows, 1)
          << Name(slot) << " row " << part->rows[row] << ": " << was;
      WriteNumber(dtype, at, was);
    }
  }
}

// What softmax leaves of rows, and bytes.
TEST(Answer, JudgesRowResultsAndBytes) {
  struct Case {
    const char* line;
    std::vector<Slot> slots;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"fwd bf16 h=4/2 d=32 q=9,0,30 k=20,7,40 causal stats lse",
            {Slot::kRowMax, Slot::kRowSum, Slot::kLse}},
           {"fwd f32 h=2 d=16+8/24 q=3x5 k=3x40 paged:16 sink lse",
            {Slot::kLse}},
           // The first rows see no key, the second sequence has none.
           {"fwd f16 h=2 d=32 q=30,4 k=20,0 causal stats lse",
            {Slot::kRowMax, Slot::kRowSum, Slot::kLse}},
           {"fwd bf16 h=2 d=32+16 q=12 k=30 topk:9 shared stats",
            {Slot::kRowMax, Slot::kRowSum}},
           {"fwd f16 h=3 d=16 q=12 k=30 alibi keep:0.5 stats",
            {Slot::kRowMax, Slot::kRowSum}},
           {"fwd f16 h=4/2 d=32 q=20 k=33 out:int8:channel+offset mask",
            {Slot::kOut}},
           {"fwd bf16 h=2 d=32 q=9,30 k=20,40 causal out:int8:tensor lse",
            {Slot::kOut, Slot::kLse}},
           {"fwd i8 h=2 d=32 q=20 k=50 int8:tensor causal", {Slot::kOut}},
           // Rounded weights are as large as its steps of bytes.
           {"fwd i8 h=4/2 d=64 q=1 k=300 int8:tensor out:int8:tensor", {}}}) {
    ExpectFound(one.line, one.slots);
  }
}

// Sums of gradients of scores.
TEST(Answer, JudgesBiasAndSinks) {
  struct Case {
    const char* line;
    std::vector<Slot> slots;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"bwd bf16 h=4/2 d=32 q=9,0,30 k=20,7,40 sink", {Slot::kGradSink}},
           {"bwd f32 h=4/2 d=16 q=9,5 k=7,20 bias grad:qkvb",
            {Slot::kGradBias}},
           {"bwd f32 h=4/2 d=16 q=2x9 k=2x20 bias:hij grad:qkvb",
            {Slot::kGradBias}},
           {"bwd f16 h=2 d=16 q=40 k=40 bias:diagonal:12 causal grad:qb",
            {Slot::kGradBias}},
           {"bwd f32 h=4/2 d=16 q=9,20 k=14,30 alibi:bh grad:qb",
            {Slot::kGradBias}}}) {
    ExpectFound(one.line, one.slots);
  }
}

// Gradients of sinks that others compute of the stored output, of 16 bits: that
// is no mistake, and a quarter of what is summed is one.
TEST(Answer, SinksMayBeOfTheStoredOutput) {
  for (const char* line : {"bwd bf16 h=2 d=32 q=32 k=32 sink grad:s",
                           "bwd f16 h=1 d=16 q=3 k=200 sink grad:s",
                           "bwd bf16 h=8/2 d=64 q=40,9 k=300,70 sink grad:s"}) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Result<Sample> sample = ReferenceRun(CpuBackend(), *problem, seed);
      ASSERT_TRUE(sample.ok()) << sample.status().message();
      TensorSet tensors = Referred(*sample);
      const std::vector<Unit> units = ChooseUnits(*problem, INFINITY);
      Recipe by_output = PlainRecipe(*problem);
      by_output.single = false;
      const std::vector<Part> others = Compute(tensors, units, by_output);
      // Nobody brought what the forward direction stored.
      for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
        tensors.bindings[slot] = nullptr;
      }
      const std::vector<Part> exact = Compute(tensors, units, {});
      const Allowance allowance = AllowanceOf(
          *problem, exact, Compute(tensors, units, PlainRecipe(*problem)));
      std::byte* const at = tensors.bindings[Slot::kGradSink];
      for (const bool wrong : {false, true}) {
        for (const Part& part : others) {
          if (part.slot != Slot::kGradSink) continue;
          WriteNumber(DType::kF32, at + part.head * 4,
                      part.values[0] + (wrong ? part.magnitudes[0] / 4 : 0));
        }
        EXPECT_EQ(Judge(tensors, exact, allowance).right(), !wrong) << seed;
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
