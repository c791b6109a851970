// SPDX-License-Identifier: Apache-2.0
// What gradients are, whatever the problem: slopes, that know nothing of what
// is hidden.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/property/law.h"
#include "tests/testing/finite_differences.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kProblems = 1000;

Space BackwardSpace() {
  Space space = LawSpace();
  space.forward = false;
  space.backward = true;
  return space;
}

// Of any layout, with lengths on the device, and every gradient asked for.
TEST(Gradients, AreSlopes) {
  Space space = BackwardSpace();
  space.strides = space.device_lengths = true;
  ForRandomProblems(kProblems, space,
                    [](const AttentionProblem& p, Random& random) {
                      AttentionProblem problem = p;
                      if (problem.has(Slot::kBias)) {
                        problem[Slot::kGradBias] = problem[Slot::kBias];
                      }
                      const SmallCase backward = RunBackward(problem, random);
                      ExpectSlopes(backward, 4, random);
                    });
}

// The weights of a row add up to 1, so its scores have nothing to gain
// together; with a sink they do.
TEST(Gradients, OfTheScoresOfARowSumToZero) {
  Space space = BackwardSpace();
  space.sink = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.score.bias = Score::Bias::kAfterScale;
        problem_spec.bias = {};
        problem_spec.diagonal_rows = 0;
        problem_spec.gradients.bias = true;
        const SmallCase backward = RunBackward(Build(problem_spec), random);
        ForEachRow(backward.problem(), [&](const RowAt& row) {
          double sum = 0;
          for (int64_t j = 0; j < ColumnsOf(p, row.sequence); ++j) {
            sum += backward.GetCell(Slot::kGradBias,
                                    {row.sequence, row.head, row.i, j});
          }
          ExpectClose(sum, 0, "sum of grad scores");
        });
      });
}

// A column hidden from every row has gradients of exactly 0, even where its
// key and value are NaN.
TEST(Gradients, OfHiddenKeysAreZero) {
  Space space = BackwardSpace();
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.mask = ProblemSpec::Axes{};
        problem_spec.gradients = {};
        SmallCase backward(InDoubles(Build(problem_spec)));
        const AttentionProblem& problem = backward.problem();
        backward.FillInputs(random);
        std::vector<int64_t> hidden;
        for (int64_t b = 0; b < problem.lengths.count(); ++b) {
          const int64_t columns = ColumnsOf(problem, b);
          hidden.push_back(columns == 0 ? -1 : random.Within(0, columns - 1));
          for (int64_t g = 0; columns > 0 && g < problem.kv_heads; ++g) {
            for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
              if (!problem.has(slot)) continue;
              for (int64_t d = 0; d < problem[slot].dims[3]; ++d) {
                backward.PutKey(slot, {b, hidden.back(), g}, d, std::nan(""));
              }
            }
          }
        }
        ForEachRow(problem, [&](const RowAt& row) {
          const int64_t j = hidden[static_cast<size_t>(row.sequence)];
          if (j < 0) return;
          backward.PutCell(Slot::kMask, {row.sequence, row.head, row.i, j}, 1);
        });
        RunForwardTwin(backward);
        backward.Run();
        for (const Slot slot :
             {Slot::kGradQuery, Slot::kGradKey, Slot::kGradValue}) {
          for (const double x : backward.Get(slot)) {
            EXPECT_FALSE(std::isnan(x)) << Name(slot);
          }
        }
        for (int64_t b = 0; b < problem.lengths.count(); ++b) {
          const int64_t j = hidden[static_cast<size_t>(b)];
          if (j < 0) continue;
          for (const Slot slot :
               {Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue}) {
            if (!problem.has(slot)) continue;
            for (int64_t d = 0; d < problem[slot].dims[3]; ++d) {
              EXPECT_EQ(backward.GetKey(slot, {b, j, 0}, d), 0) << Name(slot);
            }
          }
        }
      });
}

// Where the value is the key, its gradient is the sum of both.
TEST(Gradients, OfAKeyThatIsTheValueAddUp) {
  Space space = BackwardSpace();
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.gradients = {};
        problem_spec.value_is_key = true;
        problem_spec.v_dim = std::min(problem_spec.v_dim, problem_spec.qk_dim);
        const SmallCase shared = RunBackward(Build(problem_spec), random);
        problem_spec.value_is_key = false;
        SmallCase apart(InDoubles(Build(problem_spec)));
        apart.CopyInputs(shared);
        const AttentionProblem& problem = apart.problem();
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          for (int64_t d = 0; d < problem.v_dim; ++d) {
            apart.PutKey(Slot::kValue, at, d, shared.GetKey(Slot::kKey, at, d));
          }
        });
        RunForwardTwin(apart);
        apart.Run();
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          for (int64_t d = 0; d < problem.qk_dim; ++d) {
            const double of_value =
                d < problem.v_dim ? apart.GetKey(Slot::kGradValue, at, d) : 0;
            ExpectClose(shared.GetKey(Slot::kGradKey, at, d),
                        apart.GetKey(Slot::kGradKey, at, d) + of_value,
                        "grad key");
          }
        });
        EXPECT_EQ(shared.Get(Slot::kGradQuery), apart.Get(Slot::kGradQuery));
      });
}

// Gradients are linear in that of the output.
TEST(Gradients, AreLinearInTheGradientOfTheOutput) {
  ForRandomProblems(
      kProblems, BackwardSpace(),
      [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.gradients = {};
        const AttentionProblem problem = Build(problem_spec);
        const SmallCase once = RunBackward(problem, random);
        SmallCase twice(InDoubles(problem));
        twice.CopyInputs(once);
        for (int64_t n = 0; n < twice.count(Slot::kGradOut); ++n) {
          twice.Put(Slot::kGradOut, n, -2 * once.Get(Slot::kGradOut, n));
        }
        twice.Run();
        for (const Slot slot :
             {Slot::kGradQuery, Slot::kGradQueryRope, Slot::kGradKey,
              Slot::kGradKeyRope, Slot::kGradValue, Slot::kGradSink}) {
          std::vector<double> expected = once.Get(slot);
          for (double& x : expected) x *= -2;
          EXPECT_EQ(twice.Get(slot), expected) << Name(slot);
        }
      });
}

}  // namespace
}  // namespace flashacl::testing
