// SPDX-License-Identifier: Apache-2.0
// What the reference says of a subproblem is what it says of those rows and
// columns in the whole, to the last bit.
#include "verify/subproblem.h"

#include <gtest/gtest.h>

#include <array>

#include "backends.h"
#include "plan/plan.h"
#include "plan/sequences.h"
#include "problem/notation.h"
#include "tests/testing/generator.h"
#include "verify/compare.h"
#include "verify/fill.h"
#include "verify/sample.h"

namespace flashacl {
namespace {

Status RunReference(const AttentionProblem& problem, const Bindings& bindings) {
  const Result<Plan> plan = MakePlan(
      CpuBackend(), problem,
      {.only = CpuBackend().implementations.back().name, .without = {}});
  if (!plan.ok()) return plan.status();
  const GuardedBytes workspace =
      GuardedBytes::Allocate(*CpuBackend().memory, plan->workspace.bytes());
  return Run(*CpuBackend().queue, *plan, bindings, workspace.data());
}

// The subproblem, computed into memory of its own, against the whole's results.
void ExpectSame(const Subproblem& subproblem) {
  std::array<GuardedBytes, kSlots> memory;
  Bindings own = subproblem.bindings;
  int outputs = 0;
  for (size_t n = 0; n < kSlots; ++n) {
    const auto slot = static_cast<Slot>(n);
    if (!subproblem.problem.has(slot) ||
        !IsOutput(subproblem.problem.direction, slot)) {
      continue;
    }
    memory[n] = GuardedBytes::Allocate(*CpuBackend().memory,
                                       BytesOf(subproblem.problem, slot));
    own[slot] = memory[n].data();
    ++outputs;
  }
  const Status ran = RunReference(subproblem.problem, own);
  ASSERT_TRUE(ran.ok()) << ran.message() << "\n"
                        << ToString(subproblem.problem);
  const auto differences = Compare({subproblem.problem, subproblem.bindings},
                                   {subproblem.problem, own});
  EXPECT_EQ(differences.size(), static_cast<size_t>(outputs));
  for (const Difference& difference : differences) {
    EXPECT_TRUE(difference.ok() && difference.max_error == 0)
        << Describe(difference) << "\n"
        << ToString(subproblem.problem);
  }
}

Range Some(Random& random, int64_t count) {
  const int64_t first = random.Within(0, count - 1);
  return {first, random.Within(first + 1, count)};
}

// One random subproblem of each kind that the problem has; counts them.
void CheckSubproblems(const AttentionProblem& problem, Random& random,
                      std::array<int, 3>& taken) {
  const Result<Sample> sample =
      Sample::Make(problem, random.Bits(), CpuBackend());
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  ASSERT_TRUE(RunReference(problem, sample->bindings()).ok());
  const auto sequences = ResolveSequences(problem, sample->bindings());
  const int64_t b =
      random.Within(0, static_cast<int64_t>(sequences.size()) - 1);
  const Sequence& sequence = sequences[static_cast<size_t>(b)];
  if (sequence.rows() == 0) return;
  const auto rows =
      TakeRows(problem, sample->bindings(), b, Some(random, sequence.rows()));
  if (rows.ok()) ExpectSame(*rows);
  ++taken[rows.ok() ? 0 : 2];
  if (problem.direction == Direction::kForward || sequence.columns() == 0) {
    return;
  }
  Range columns = Some(random, sequence.columns());
  if (problem.kv.gathers()) columns.first = 0;
  const auto part = TakeColumns(problem, sample->bindings(), b, columns);
  if (part.ok()) ExpectSame(*part);
  ++taken[part.ok() ? 1 : 2];
}

TEST(Subproblem, IsWhatTheWholeSaysThere) {
  std::array<int, 3> taken{};  // rows, columns, neither
  testing::ForRandomProblems(
      1500, {.most_rows = 12, .most_columns = 20, .most_dim = 20},
      [&](const AttentionProblem& problem, Random& random) {
        if (problem.lengths.count() == 0) return;
        CheckSubproblems(problem, random, taken);
      });
  EXPECT_TRUE(testing::SeenOften(taken[0], 600));
  EXPECT_TRUE(testing::SeenOften(taken[1], 100));
  EXPECT_TRUE(testing::SeenOften(taken[0], taken[2]));
}

TEST(Subproblem, SaysWhatCannotBeTaken) {
  const Result<AttentionProblem> diagonal =
      Parse("fwd f32 h=1 d=8 q=8 k=8 causal bias:hij:diagonal:8");
  ASSERT_TRUE(diagonal.ok()) << diagonal.status().message();
  const auto rows = TakeRows(*diagonal, {}, 0, {0, 1});
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), Code::kUnsupported);
  EXPECT_NE(rows.status().message().find("bias"), std::string::npos);
  const auto paged = Parse("bwd f32 h=1 d=8 q=8 k=8 topk:2 shared");
  ASSERT_TRUE(paged.ok()) << paged.status().message();
  const auto columns = TakeColumns(*paged, {}, 0, {1, 3});
  ASSERT_FALSE(columns.ok());
  EXPECT_NE(columns.status().message().find("from 0 on"), std::string::npos);
}

}  // namespace
}  // namespace flashacl
