// SPDX-License-Identifier: Apache-2.0
// Building a spec and taking it again changes nothing that a line can
// say.
#include "problem/problem_spec.h"

#include <gtest/gtest.h>

#include "problem/notation.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

TEST(ProblemSpec, BuildIsStable) {
  testing::ForRandomProblems(
      20000, {}, [](const AttentionProblem& problem, Random&) {
        const ProblemSpec problem_spec = SpecOf(problem);
        const AttentionProblem canonical = Build(problem_spec);
        ASSERT_TRUE(CheckProblem(canonical).ok())
            << CheckProblem(canonical).message();
        EXPECT_TRUE(SpecOf(canonical) == problem_spec);
        EXPECT_TRUE(Build(SpecOf(canonical)) == canonical);
      });
}

TEST(ProblemSpec, PacksSequences) {
  ProblemSpec problem_spec;
  problem_spec.heads = 4;
  problem_spec.kv_heads = 2;
  problem_spec.qk_dim = 8;
  problem_spec.v_dim = 6;
  problem_spec.rows = {3, 0, 5};
  problem_spec.columns = {2, 7, 0};
  const AttentionProblem problem = Build(problem_spec);
  EXPECT_EQ(problem.lengths.sequences[2].queries, (Range{3, 8}));
  EXPECT_EQ(problem.lengths.sequences[1].keys, (Range{2, 9}));
  const TensorSpec& query = problem[Slot::kQuery];
  EXPECT_EQ(query.dims, (std::array<int64_t, 4>{3, 8, 4, 8}));
  EXPECT_EQ(query.strides, (std::array<int64_t, 4>{0, 32, 8, 1}));
  EXPECT_EQ(problem[Slot::kValue].dims, (std::array<int64_t, 4>{3, 9, 2, 6}));
  EXPECT_FALSE(problem.has(Slot::kRowMax));
}

TEST(ProblemSpec, HasJustEnoughPages) {
  ProblemSpec problem_spec;
  problem_spec.rows = {1, 1, 1};
  problem_spec.columns = {17, 0, 16};
  problem_spec.source = KvSource::Rows::kPaged;
  problem_spec.page_rows = 16;
  const AttentionProblem problem = Build(problem_spec);
  EXPECT_EQ(problem[Slot::kKey].dims, (std::array<int64_t, 4>{3, 16, 1, 1}));
  EXPECT_EQ(problem[Slot::kBlockTable].dims[1], 2);
  EXPECT_TRUE(CheckProblem(problem).ok());
}

TEST(ProblemSpec, SequencesWithEndsOnTheDeviceShareAllRows) {
  ProblemSpec problem_spec;
  problem_spec.rows = {3, 9};
  problem_spec.columns = {4, 4};
  problem_spec.query_lengths = Lengths::Device::kEnds;
  const AttentionProblem problem = Build(problem_spec);
  EXPECT_EQ(problem.lengths.sequences[0].queries, (Range{0, 9}));
  EXPECT_EQ(problem.lengths.sequences[1].queries, (Range{0, 9}));
  EXPECT_EQ(problem.lengths.sequences[1].keys, (Range{4, 8}));
  EXPECT_EQ(problem[Slot::kQuery].dims[1], 9);
}

TEST(ProblemSpec, DefaultScaleIsOneOverTheRoot) {
  EXPECT_EQ(DefaultScale(64), 0.125f);
  EXPECT_EQ(DefaultScale(0), 1.0f);
}

}  // namespace
}  // namespace flashacl
