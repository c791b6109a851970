// SPDX-License-Identifier: Apache-2.0
// Building an outline and taking it again changes nothing that a line can say.
#include "problem/problem_spec.h"

#include <gtest/gtest.h>

#include "problem/notation.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

TEST(Outline, BuildIsStable) {
  testing::ForRandomProblems(
      20000, {}, [](const AttentionProblem& problem, Random&) {
        const Outline outline = OutlineOf(problem);
        const AttentionProblem canonical = Build(outline);
        ASSERT_TRUE(CheckProblem(canonical).ok())
            << CheckProblem(canonical).message();
        EXPECT_TRUE(OutlineOf(canonical) == outline);
        EXPECT_TRUE(Build(OutlineOf(canonical)) == canonical);
      });
}

TEST(Outline, PacksSequences) {
  Outline outline;
  outline.heads = 4;
  outline.kv_heads = 2;
  outline.qk_dim = 8;
  outline.v_dim = 6;
  outline.rows = {3, 0, 5};
  outline.columns = {2, 7, 0};
  const AttentionProblem problem = Build(outline);
  EXPECT_EQ(problem.lengths.sequences[2].queries, (Range{3, 8}));
  EXPECT_EQ(problem.lengths.sequences[1].keys, (Range{2, 9}));
  const TensorSpec& query = problem[Slot::kQuery];
  EXPECT_EQ(query.dims, (std::array<int64_t, 4>{3, 8, 4, 8}));
  EXPECT_EQ(query.strides, (std::array<int64_t, 4>{0, 32, 8, 1}));
  EXPECT_EQ(problem[Slot::kValue].dims, (std::array<int64_t, 4>{3, 9, 2, 6}));
  EXPECT_FALSE(problem.has(Slot::kRowMax));
}

TEST(Outline, HasJustEnoughPages) {
  Outline outline;
  outline.rows = {1, 1, 1};
  outline.columns = {17, 0, 16};
  outline.source = KvSource::Rows::kPaged;
  outline.page_rows = 16;
  const AttentionProblem problem = Build(outline);
  EXPECT_EQ(problem[Slot::kKey].dims, (std::array<int64_t, 4>{3, 16, 1, 1}));
  EXPECT_EQ(problem[Slot::kBlockTable].dims[1], 2);
  EXPECT_TRUE(CheckProblem(problem).ok());
}

TEST(Outline, SequencesWithEndsOnTheDeviceShareAllRows) {
  Outline outline;
  outline.rows = {3, 9};
  outline.columns = {4, 4};
  outline.query_lengths = Lengths::Device::kEnds;
  const AttentionProblem problem = Build(outline);
  EXPECT_EQ(problem.lengths.sequences[0].queries, (Range{0, 9}));
  EXPECT_EQ(problem.lengths.sequences[1].queries, (Range{0, 9}));
  EXPECT_EQ(problem.lengths.sequences[1].keys, (Range{4, 8}));
  EXPECT_EQ(problem[Slot::kQuery].dims[1], 9);
}

TEST(Outline, UsualScaleIsOneOverTheRoot) {
  EXPECT_EQ(UsualScale(64), 0.125f);
  EXPECT_EQ(UsualScale(0), 1.0f);
}

}  // namespace
}  // namespace flashacl
