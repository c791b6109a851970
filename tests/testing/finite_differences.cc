// SPDX-License-Identifier: Apache-2.0
// Central differences of the reference in fp64.
#include "tests/testing/finite_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "problem/element_walk.h"
#include "reference/rows.h"

namespace flashacl {
namespace {

constexpr std::pair<Slot, Slot> kGradients[] = {
    {Slot::kQuery, Slot::kGradQuery}, {Slot::kQueryRope, Slot::kGradQueryRope},
    {Slot::kKey, Slot::kGradKey},     {Slot::kKeyRope, Slot::kGradKeyRope},
    {Slot::kValue, Slot::kGradValue}, {Slot::kBias, Slot::kGradBias},
    {Slot::kSink, Slot::kGradSink}};

// The offsets of all elements of a tensor, in the order of their indices:
// an input and its gradient may have strides of their own.
std::vector<int64_t> Offsets(const SmallCase& at, Slot slot) {
  std::vector<int64_t> offsets;
  const TensorSpec& spec = at.problem()[slot];
  if (spec.placement == Placement::kBlocks) {
    for (int64_t n = 0; n < at.count(slot); ++n) offsets.push_back(n);
  } else {
    ForEachElement(spec, 0, [&](int64_t offset) { offsets.push_back(offset); });
  }
  return offsets;
}

// sum(grad_out * out); elements of both that no row has are 0 in out.
double Loss(const SmallCase& backward, SmallCase& forward) {
  forward.Run();
  const std::vector<int64_t> out = Offsets(forward, Slot::kOut);
  const std::vector<int64_t> grad_out = Offsets(backward, Slot::kGradOut);
  double loss = 0;
  for (size_t n = 0; n < out.size(); ++n) {
    loss += forward.Get(Slot::kOut, out[n]) *
            backward.Get(Slot::kGradOut, grad_out[n]);
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
    const std::vector<int64_t> inputs = Offsets(backward, input);
    const std::vector<int64_t> gradients = Offsets(backward, gradient);
    ASSERT_EQ(inputs.size(), gradients.size()) << Name(gradient);
    const auto count = static_cast<int64_t>(inputs.size());
    for (int64_t probe = 0; probe < std::min(count, most); ++probe) {
      const int64_t n = count <= most ? probe : random.Within(0, count - 1);
      const int64_t at = inputs[static_cast<size_t>(n)];
      const double value = forward.Get(input, at);
      forward.Put(input, at, value + kStep);
      const double above = Loss(backward, forward);
      forward.Put(input, at, value - kStep);
      const double below = Loss(backward, forward);
      forward.Put(input, at, value);
      const double slope = (above - below) / (2 * kStep);
      const double found =
          backward.Get(gradient, gradients[static_cast<size_t>(n)]);
      EXPECT_NEAR(found, slope, 1e-6 * std::max(1.0, std::abs(slope)))
          << Name(gradient) << " " << n << " of " << count;
    }
  }
}

}  // namespace flashacl
