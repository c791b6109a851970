// SPDX-License-Identifier: Apache-2.0
// What attention is, whatever the problem: a weighted mean of values with
// weights that know nothing of order.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/property/law.h"
#include "tests/testing/random.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kProblems = 2000;

// A permutation of [0, count).
std::vector<int64_t> Shuffled(Random& random, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t n = order.size(); n > 1; --n) {
    const int64_t other = random.Within(0, static_cast<int64_t>(n) - 1);
    std::swap(order[n - 1], order[static_cast<size_t>(other)]);
  }
  return order;
}

TEST(Attention, PermutingKeysChangesNothing) {
  Space space = LawSpace();
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        // What tells columns apart by their number is said by tensors.
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.rules.clear();
        problem_spec.mask = ProblemSpec::Axes{};
        problem_spec.diagonal_rows = 0;
        problem_spec.out = {};
        problem_spec.row_stats = true;
        if (problem_spec.score.bias != Score::Bias::kNone) {
          problem_spec.score.bias = Score::Bias::kAfterScale;
          problem_spec.bias = {};
        }
        problem_spec.selection = KvSource::Selection::kAll;
        const AttentionProblem problem = InDoubles(Build(problem_spec));
        SmallCase plain(problem);
        plain.FillInputs(random);
        SmallCase permuted(problem);
        permuted.CopyInputs(plain);
        for (int64_t b = 0; b < problem.lengths.count(); ++b) {
          const auto order = Shuffled(random, ColumnsOf(problem, b));
          const auto to = [&](int64_t j) {
            return order[static_cast<size_t>(j)];
          };
          ForEachKey(problem, [&](const SmallCase::Column& at) {
            if (at.sequence != b) return;
            CopyKey(plain, at, permuted, {b, to(at.j), at.kv_head});
          });
          ForEachRow(problem, [&](const RowAt& row) {
            if (row.sequence != b) return;
            for (int64_t j = 0; j < ColumnsOf(problem, b); ++j) {
              for (Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep}) {
                if (!problem.has(slot)) continue;
                permuted.PutCell(slot, {b, row.head, row.i, to(j)},
                                 plain.GetCell(slot, {b, row.head, row.i, j}));
              }
            }
          });
        }
        plain.Run();
        permuted.Run();
        ExpectSameResults(permuted, plain);
      });
}

TEST(Attention, AConstantAddedToAllScoresOfARowChangesOnlyTheMax) {
  Space space = LawSpace();
  space.sink = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.score.bias = Score::Bias::kAfterScale;
        problem_spec.bias = {};
        problem_spec.diagonal_rows = 0;
        problem_spec.out = {};
        problem_spec.row_stats = true;
        const AttentionProblem problem = InDoubles(Build(problem_spec));
        SmallCase plain(problem);
        plain.FillInputs(random);
        SmallCase raised(problem);
        raised.CopyInputs(plain);
        std::vector<double> added;
        ForEachRow(problem, [&](const RowAt& row) {
          added.push_back(10.0 * double{random.Bell()});
          for (int64_t j = 0; j < ColumnsOf(problem, row.sequence); ++j) {
            const SmallCase::Cell cell{row.sequence, row.head, row.i, j};
            raised.PutCell(Slot::kBias, cell,
                           plain.GetCell(Slot::kBias, cell) + added.back());
          }
        });
        plain.Run();
        raised.Run();
        size_t n = 0;
        ForEachRow(problem, [&](const RowAt& row) {
          const double constant = SawNothing(plain, row) ? 0 : added[n];
          ++n;
          ExpectClose(Channels(raised, Slot::kOut, row),
                      Channels(plain, Slot::kOut, row), "out");
          ExpectClose(Statistic(raised, Slot::kRowSum, row),
                      Statistic(plain, Slot::kRowSum, row), "row sum");
          ExpectClose(Statistic(raised, Slot::kRowMax, row),
                      Statistic(plain, Slot::kRowMax, row) + constant,
                      "row max");
        });
      });
}

TEST(Attention, ConstantValuesComeBack) {
  Space space = LawSpace();
  space.sink = space.dropout = space.shared_value = space.int8 = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        const AttentionProblem problem = InDoubles(Build(problem_spec));
        SmallCase example(problem);
        example.FillInputs(random);
        const auto value = [](int64_t b, int64_t g, int64_t d) {
          return static_cast<double>(b * 100 + g * 10 + d) - 50;
        };
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          for (int64_t d = 0; d < problem.v_dim; ++d) {
            example.PutKey(Slot::kValue, at, d,
                           value(at.sequence, at.kv_head, d));
          }
        });
        example.Run();
        ForEachRow(problem, [&](const RowAt& row) {
          std::vector<double> expected;
          for (int64_t d = 0; d < problem.v_dim; ++d) {
            expected.push_back(
                SawNothing(example, row)
                    ? 0
                    : value(row.sequence, row.head / problem.group(), d));
          }
          ExpectClose(Channels(example, Slot::kOut, row), expected, "out");
        });
      });
}

// Whatever the layout, gradients and lengths on the device included.
TEST(Attention, ARowThatSeesNothingIsZero) {
  Space space = LawSpace();
  space.strides = space.half_types = true;
  space.sources = false;
  int64_t blind = 0;
  ForRandomProblems(
      kProblems, space, [&](const AttentionProblem& problem, Random& random) {
        SmallCase example(problem);
        example.FillInputs(random);
        example.Run();
        if (problem[Slot::kOut].dtype == DType::kI8) return;
        ForEachRow(problem, [&](const RowAt& row) {
          const Sequence& extent =
              problem.lengths.sequences[static_cast<size_t>(row.sequence)];
          const Band band = problem.mask.BandOf(row.sequence, extent.rows(),
                                                extent.columns());
          for (int64_t j = 0; j < extent.columns(); ++j) {
            const bool hidden =
                problem.has(Slot::kMask) &&
                example.GetCell(Slot::kMask,
                                {row.sequence, row.head, row.i, j}) != 0;
            if (band.Sees(row.i, j) && !hidden) return;
          }
          ++blind;
          ExpectClose(Channels(example, Slot::kOut, row),
                      std::vector<double>(static_cast<size_t>(problem.v_dim)),
                      "out");
        });
      });
  EXPECT_TRUE(testing::SeenOften(blind, kProblems / 2));
}

TEST(Attention, OutputIsLinearInTheValues) {
  Space space = LawSpace();
  space.shared_value = space.int8 = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        const AttentionProblem problem = InDoubles(p);
        SmallCase one(problem), other(problem), both(problem);
        one.FillInputs(random);
        other.CopyInputs(one);
        both.CopyInputs(one);
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          for (int64_t d = 0; d < problem.v_dim; ++d) {
            const double x = one.GetKey(Slot::kValue, at, d);
            const double y = random.Bell();
            other.PutKey(Slot::kValue, at, d, y);
            both.PutKey(Slot::kValue, at, d, 2 * x - 3 * y);
          }
        });
        one.Run();
        other.Run();
        both.Run();
        ForEachRow(problem, [&](const RowAt& row) {
          std::vector<double> expected = Channels(one, Slot::kOut, row);
          const std::vector<double> y = Channels(other, Slot::kOut, row);
          for (size_t d = 0; d < y.size(); ++d) {
            expected[d] = 2 * expected[d] - 3 * y[d];
          }
          ExpectClose(Channels(both, Slot::kOut, row), expected, "out");
        });
      });
}

// Every kind of problem in both directions and any layout.
TEST(Attention, SameBitsForAnyWorkerCount) {
  Space space = LawSpace();
  space.backward = space.strides = space.half_types = space.device_lengths =
      true;
  space.most_rows = 30;
  space.most_columns = 40;
  ForRandomProblems(
      150, space, [](const AttentionProblem& problem, Random& random) {
        SmallCase alone(problem);
        alone.FillInputs(random);
        if (problem.direction == Direction::kBackward) RunForwardTwin(alone);
        SmallCase shared(problem);
        shared.CopyInputs(alone);
        alone.Run();
        for (const int count : {2, 7, 64}) {
          ShuffledWorkers workers(count, random.Bits());
          shared.Run(workers);
          for (size_t n = 0; n < kSlots; ++n) {
            const Slot slot = static_cast<Slot>(n);
            EXPECT_EQ(shared.bytes(slot), alone.bytes(slot)) << Name(slot);
          }
        }
      });
}

}  // namespace
}  // namespace flashacl::testing
