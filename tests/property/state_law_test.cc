// SPDX-License-Identifier: Apache-2.0
// Softmaxes over splits combine, and a sink is a key whose value is zero: what
// lets kernels walk over columns in steps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/property/law.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kProblems = 2000;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Softmax over some columns: greatest score, sum, and normalised output.
struct State {
  double max = kNothing;
  double sum = 0;
  std::vector<double> out;
};

State StateOf(const SmallCase& at, const RowAt& row) {
  State state{.out = Channels(at, Slot::kOut, row)};
  if (SawNothing(at, row)) return state;
  state.max = Statistic(at, Slot::kRowMax, row);
  state.sum = Statistic(at, Slot::kRowSum, row);
  return state;
}

State Combined(const State& a, const State& b) {
  if (a.sum == 0) return b;
  if (b.sum == 0) return a;
  State both{.max = std::fmax(a.max, b.max), .out = a.out};
  const double factor_a = a.sum * std::exp(a.max - both.max);
  const double factor_b = b.sum * std::exp(b.max - both.max);
  both.sum = factor_a + factor_b;
  for (size_t d = 0; d < a.out.size(); ++d) {
    both.out[d] = (factor_a * a.out[d] + factor_b * b.out[d]) / both.sum;
  }
  return both;
}

void ExpectSame(const State& found, const State& expected) {
  ExpectClose(found.out, expected.out, "out");
  ExpectClose(found.sum, expected.sum, "row sum");
  if (expected.sum != 0) ExpectClose(found.max, expected.max, "row max");
}

// Every column of every row goes to one of three splits, wherever it stands.
TEST(State, CombiningSplitsInAnyGroupingEqualsAttendingAtOnce) {
  constexpr int64_t kSplits = 3;
  ForRandomProblems(
      kProblems, LawSpace(), [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.mask = ProblemSpec::Axes{};
        problem_spec.row_stats = true;
        problem_spec.out = {};
        const AttentionProblem problem = InDoubles(Build(problem_spec));
        SmallCase whole(problem);
        whole.FillInputs(random);
        std::vector<SmallCase> splits;
        for (int64_t split = 0; split < kSplits; ++split) {
          // A sink is one column, so it is in one split.
          ProblemSpec partial = problem_spec;
          partial.sink = problem_spec.sink && split == 1;
          splits.emplace_back(InDoubles(Build(partial)));
          splits.back().CopyInputs(whole);
        }
        ForEachRow(problem, [&](const RowAt& row) {
          for (int64_t j = 0; j < ColumnsOf(problem, row.sequence); ++j) {
            const int64_t owner = random.Within(0, kSplits - 1);
            for (int64_t split = 0; split < kSplits; ++split) {
              if (split == owner) continue;
              splits[static_cast<size_t>(split)].PutCell(
                  Slot::kMask, {row.sequence, row.head, row.i, j}, 1);
            }
          }
        });
        whole.Run();
        for (SmallCase& split : splits) split.Run();
        ForEachRow(problem, [&](const RowAt& row) {
          if (ColumnsOf(problem, row.sequence) == 0) return;  // not even a sink
          const State expected = StateOf(whole, row);
          const State a = StateOf(splits[0], row);
          const State b = StateOf(splits[1], row);
          const State c = StateOf(splits[2], row);
          ExpectSame(Combined(Combined(a, b), c), expected);
          ExpectSame(Combined(a, Combined(b, c)), expected);
          ExpectSame(Combined(Combined(c, a), b), expected);
        });
      });
}

// The sink as one more column, last, seen by all rows, whose key is zero and
// whose bias is the sink.
TEST(State, ASinkIsAKeyWhoseValueIsZero) {
  Space space = LawSpace();
  space.sources = space.int8 = space.shared_value = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        for (int64_t& columns : problem_spec.columns) {
          if (columns == 0) columns = 1;
        }
        problem_spec.rules.clear();
        problem_spec.mask = ProblemSpec::Axes{};
        problem_spec.score.bias = Score::Bias::kAfterScale;
        problem_spec.bias = {};
        problem_spec.diagonal_rows = 0;
        problem_spec.row_stats = true;
        ProblemSpec longer = problem_spec;
        for (int64_t& columns : longer.columns) ++columns;
        problem_spec.sink = true;
        longer.sink = false;
        SmallCase sink(InDoubles(Build(problem_spec)));
        SmallCase key(InDoubles(Build(longer)));
        const AttentionProblem& problem = sink.problem();
        sink.FillInputs(random);
        for (const Slot slot : {Slot::kQuery, Slot::kQueryRope}) {
          key.Copy(slot, sink);
        }
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          CopyKey(sink, at, key, at);
        });
        ForEachRow(problem, [&](const RowAt& row) {
          const int64_t last = ColumnsOf(problem, row.sequence);
          for (const Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep}) {
            for (int64_t j = 0; problem.has(slot) && j < last; ++j) {
              const SmallCase::Cell cell{row.sequence, row.head, row.i, j};
              key.PutCell(slot, cell, sink.GetCell(slot, cell));
            }
          }
          key.PutCell(Slot::kBias, {row.sequence, row.head, row.i, last},
                      sink.Get(Slot::kSink, row.head));
        });
        sink.Run();
        key.Run();
        ExpectSameResults(key, sink);
      });
}

}  // namespace
}  // namespace flashacl::testing
