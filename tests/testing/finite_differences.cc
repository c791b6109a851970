// SPDX-License-Identifier: Apache-2.0
// Central differences of the reference in fp64.
#include "tests/testing/finite_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace flashacl {
namespace {

constexpr std::pair<Slot, Slot> kGradients[] = {
    {Slot::kQuery, Slot::kGradQuery}, {Slot::kQueryRope, Slot::kGradQueryRope},
    {Slot::kKey, Slot::kGradKey},     {Slot::kKeyRope, Slot::kGradKeyRope},
    {Slot::kValue, Slot::kGradValue}, {Slot::kBias, Slot::kGradBias},
    {Slot::kSink, Slot::kGradSink}};

// sum(grad_out * out); elements of both that no row has are 0 in out.
double Loss(const SmallCase& backward, SmallCase& forward) {
  forward.Run();
  double loss = 0;
  for (int64_t n = 0; n < forward.count(Slot::kOut); ++n) {
    loss += forward.Get(Slot::kOut, n) * backward.Get(Slot::kGradOut, n);
  }
  return loss;
}

}  // namespace

SmallCase RunBackward(const AttentionProblem& problem, Random& random) {
  SmallCase backward(InDoubles(problem));
  backward.FillInputs(random);
  RunForwardTwin(backward);
  backward.Run();
  return backward;
}

void ExpectSlopes(const SmallCase& backward, int64_t most, Random& random) {
  constexpr double kStep = 1e-4;
  SmallCase forward(ForwardTwin(backward.problem()));
  forward.CopyInputs(backward);
  for (const auto& [input, gradient] : kGradients) {
    if (!backward.problem().has(gradient)) continue;
    const int64_t count = backward.count(input);
    for (int64_t probe = 0; probe < std::min(count, most); ++probe) {
      const int64_t n = count <= most ? probe : random.Within(0, count - 1);
      const double value = forward.Get(input, n);
      forward.Put(input, n, value + kStep);
      const double above = Loss(backward, forward);
      forward.Put(input, n, value - kStep);
      const double below = Loss(backward, forward);
      forward.Put(input, n, value);
      const double slope = (above - below) / (2 * kStep);
      const double found = backward.Get(gradient, n);
      EXPECT_NEAR(found, slope, 1e-6 * std::max(1.0, std::abs(slope)))
          << Name(gradient) << " " << n << " of " << count;
    }
  }
}

}  // namespace flashacl
