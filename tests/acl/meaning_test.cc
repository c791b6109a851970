// SPDX-License-Identifier: Apache-2.0
// Advice is given where a call is likely to mean something else, and there
// alone; tests/ops/strict_test.cc shows who hears it.
#include "acl/meaning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

// Packed sequences of 6 queries and 8 keys that end at `ends`.
AttentionProblem Packed(std::vector<int64_t> query_ends,
                        std::vector<int64_t> key_ends) {
  AttentionProblem problem;
  problem.heads = problem.kv_heads = 1;
  problem.qk_dim = problem.v_dim = 8;
  int64_t query = 0, key = 0;
  for (size_t b = 0; b < query_ends.size(); ++b) {
    problem.lengths.sequences.push_back(
        {{query, query_ends[b]}, {key, key_ends[b]}});
    query = query_ends[b];
    key = key_ends[b];
  }
  const auto spec = [](int64_t rows) {
    TensorSpec packed = DenseSpec(DType::kF32, {1, rows, 1, 8});
    packed.strides[0] = 0;
    return packed;
  };
  problem[Slot::kQuery] = problem[Slot::kOut] = spec(6);
  problem[Slot::kKey] = problem[Slot::kValue] = spec(8);
  return problem;
}

size_t CountOf(const AttentionProblem& problem) {
  return AdviceOn(problem, Bindings()).size();
}

TEST(Meaning, EndsMustLeaveNothing) {
  EXPECT_EQ(CountOf(Packed({3, 6}, {4, 8})), 0u);
  EXPECT_EQ(CountOf(Packed({3, 5}, {4, 8})), 1u);
  EXPECT_EQ(CountOf(Packed({2, 4}, {2, 6})), 2u);
}

TEST(Meaning, RowsMustSeeSomething) {
  AttentionProblem problem = Packed({3, 6}, {4, 8});
  problem.mask = {{Causal()}};
  EXPECT_EQ(CountOf(problem), 0u);
  EXPECT_EQ(CountOf([&] {
              AttentionProblem few = Packed({3, 6}, {1, 8});
              few.mask = problem.mask;
              return few;
            }()),
            1u);
}

TEST(Meaning, AScaleOf0IsTold) {
  AttentionProblem problem = Packed({3, 6}, {4, 8});
  float scale = 0;
  Bindings bindings;
  bindings[Slot::kKeyScale] = reinterpret_cast<std::byte*>(&scale);
  problem[Slot::kKeyScale] = DenseSpec(DType::kF32, {1, 1, 1, 1});
  EXPECT_EQ(AdviceOn(problem, bindings).size(), 1u);
  scale = 0.5f;
  EXPECT_EQ(AdviceOn(problem, bindings).size(), 0u);
}

TEST(Meaning, TheScaleOfScoresIsANumber) {
  AttentionProblem problem;
  EXPECT_TRUE(CheckNumbers(problem).ok());
  problem.score.scale = std::nanf("");
  EXPECT_FALSE(CheckNumbers(problem).ok());
  problem.score.scale = HUGE_VALF;
  EXPECT_FALSE(CheckNumbers(problem).ok());
}

}  // namespace
}  // namespace flashacl::acl
