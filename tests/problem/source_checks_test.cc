// SPDX-License-Identifier: Apache-2.0
// Pages and shared prefixes: what passes, and what does not.
#include "problem/source_checks.h"

#include <gtest/gtest.h>

#include "problem/notation.h"

namespace flashacl {
namespace {

AttentionProblem Problem(const char* line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  return problem.ok() ? *problem : AttentionProblem();
}

TEST(CheckPages, TablesReachAllKeys) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=8 q=1 k=9 paged:4");
  EXPECT_TRUE(CheckPages(problem, NeedsOf(problem)).ok());
  problem[Slot::kBlockTable].dims[1] = 2;
  EXPECT_EQ(CheckPages(problem, NeedsOf(problem)).code(),
            Code::kInvalidArgument);
}

TEST(CheckPrefix, IsTheSameForAllSequences) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=8 q=1,1 k=9,0 prefix:4");
  EXPECT_EQ(problem.lengths.max_columns(), 13);
  EXPECT_EQ(problem.lengths.all_columns(), 17);
  EXPECT_TRUE(CheckPrefix(problem, NeedsOf(problem)).ok());
  problem.lengths.sequences[0].prefix = 3;
  EXPECT_EQ(CheckPrefix(problem, NeedsOf(problem)).code(),
            Code::kInvalidArgument);
  problem.lengths.sequences[1].prefix = -4;
  EXPECT_EQ(CheckPrefix(problem, NeedsOf(problem)).code(),
            Code::kInvalidArgument);
}

TEST(CheckPrefix, SharedValuesHaveNone) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=8 q=1 k=9 prefix:4 shared");
  EXPECT_FALSE(problem.has(Slot::kValuePrefix));
  problem[Slot::kValuePrefix] = problem[Slot::kKeyPrefix];
  EXPECT_EQ(CheckPrefix(problem, NeedsOf(problem)).code(),
            Code::kContradiction);
}

}  // namespace
}  // namespace flashacl
