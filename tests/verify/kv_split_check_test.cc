// SPDX-License-Identifier: Apache-2.0
// The law of halves holds for the reference, and catches who breaks it.
#include "verify/kv_split_check.h"

#include <gtest/gtest.h>

#include "backends.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/testing/around_reference.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

using testing::kAroundReference;
using testing::PrepareFunction;
using testing::ReferenceRun;

const Implementation& Reference() {
  return CpuBackend().implementations.back();
}

TEST(Split, HoldsForTheReferenceOnRandomProblems) {
  testing::ForRandomProblems(
      400, {.most_rows = 12, .most_columns = 20, .most_dim = 20},
      [](const AttentionProblem& problem, Random& random) {
        const Result<Sample> sample =
            Sample::Make(problem, random.Bits(), CpuBackend());
        ASSERT_TRUE(sample.ok()) << sample.status().message();
        const Status holds =
            CheckSplit(CpuBackend(), Reference(), *sample, random.Bits());
        EXPECT_TRUE(holds.ok()) << holds.message();
      });
}

// Sees column 0 of every row, whatever the mask says.
Status SeesColumnZero(const ReferenceRun& run) {
  const TensorSpec& mask = run.problem()[Slot::kMask];
  for (int64_t i = 0; i < mask.dims[2]; ++i) {
    run.bindings[Slot::kMask][mask.At(0, 0, i, 0)] = std::byte{0};
  }
  return run.Do();
}

// Adds to what it should write.
Status AddsToGradients(const ReferenceRun& run) {
  FLASHACL_RETURN_IF_ERROR(run.Do());
  *reinterpret_cast<float*>(run.bindings[Slot::kGradKey]) += 0.01f;
  return {};
}

Status CheckWrong(const char* line, PrepareFunction prepare) {
  Implementation wrong = Reference();
  wrong.name = "test/wrong";
  wrong.prepare = prepare;
  Backend backend = CpuBackend();
  const Implementation table[] = {wrong, Reference()};
  backend.implementations = table;
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  const Result<Sample> sample = Sample::Make(*problem, 1, backend);
  EXPECT_TRUE(sample.ok()) << sample.status().message();
  return CheckSplit(backend, table[0], *sample, 1);
}

TEST(Split, CatchesAColumnThatIsAlwaysSeen) {
  const Status status =
      CheckWrong("fwd f32 h=1 d=8 q=6 k=10", kAroundReference<SeesColumnZero>);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("merge to"), std::string::npos)
      << status.message();
}

// Fails unless the masks it gets hide at least what the problem's does.
Status NeedsTheGivenMask(const ReferenceRun& run) {
  const TensorSpec& mask = run.problem()[Slot::kMask];
  for (int64_t i = 0; i < mask.dims[2]; ++i) {
    for (int64_t j = i + 1; j < mask.dims[3]; ++j) {
      if (run.bindings[Slot::kMask][mask.At(0, 0, i, j)] == std::byte{0}) {
        return RuntimeFailure("row {} sees column {}", i, j);
      }
    }
  }
  return run.Do();
}

TEST(Split, HidesWhatTheProblemHides) {
  Implementation needs = Reference();
  needs.name = "test/needs";
  needs.prepare = kAroundReference<NeedsTheGivenMask>;
  Backend backend = CpuBackend();
  const Implementation table[] = {needs, Reference()};
  backend.implementations = table;
  const Result<Sample> sample =
      Sample::Make(*Parse("fwd f32 h=1 d=8 q=6 k=10 mask"), 1, backend);
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  const TensorSpec& mask = sample->problem()[Slot::kMask];
  for (int64_t i = 0; i < mask.dims[2]; ++i) {
    for (int64_t j = 0; j < mask.dims[3]; ++j) {
      sample->bindings()[Slot::kMask][mask.At(0, 0, i, j)] = std::byte{j > i};
    }
  }
  const Status holds = CheckSplit(backend, table[0], *sample, 1);
  EXPECT_TRUE(holds.ok()) << holds.message();
}

TEST(Split, CatchesGradientsThatDoNotAddUp) {
  const Status status =
      CheckWrong("bwd f32 h=1 d=8 q=6 k=10", kAroundReference<AddsToGradients>);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("grad key: element 0"), std::string::npos)
      << status.message();
}

TEST(Split, SaysWhenThereIsNoSuchImplementation) {
  const Result<AttentionProblem> problem = Parse("fwd f32 h=1 d=8 q=6 k=10");
  const Result<Sample> sample = Sample::Make(*problem, 1, CpuBackend());
  Implementation absent = Reference();
  absent.name = "test/absent";
  EXPECT_EQ(CheckSplit(CpuBackend(), absent, *sample, 1).code(),
            Code::kUnsupported);
}

}  // namespace
}  // namespace flashacl
