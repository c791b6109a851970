// SPDX-License-Identifier: Apache-2.0
// Backward belongs to forward: its gradients are the slopes of what the forward
// tiles compute, and its probs are the very numbers they use.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backward/backward_kernel.h"
#include "cpu/implementations.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::OnTarget;
using testing::RunOn;
using testing::Space;

// Forward tiles, then backward tiles on what they made.
void RunBoth(SmallCase& forward, SmallCase& backward) {
  RunOn(kCpuForward, forward);
  for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    backward.Copy(slot, forward);
  }
  RunOn(kCpuBackward, backward);
}

// sum of grad out times out, over what sequences own.
double LossOf(const SmallCase& forward, const SmallCase& backward) {
  const AttentionProblem& p = backward.problem();
  double loss = 0;
  for (int64_t b = 0; b < p.lengths.count(); ++b) {
    const Range rows = p.lengths.sequences[static_cast<size_t>(b)].queries;
    for (int64_t row = rows.first; row < rows.last; ++row) {
      for (int64_t head = 0; head < p.heads; ++head) {
        for (int64_t d = 0; d < p.v_dim; ++d) {
          loss += forward.Get(Slot::kOut, p[Slot::kOut].At(b, row, head, d)) *
                  backward.Get(Slot::kGradOut,
                               p[Slot::kGradOut].At(b, row, head, d));
        }
      }
    }
  }
  return loss;
}

class BackwardForward : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

// Along a random direction of every input: central differences of a function
// computed in fp32 are right to about 1e-3.
void ExpectSlopes(const AttentionProblem& p, Random& random) {
  SmallCase backward(p);
  backward.FillInputs(random);
  SmallCase forward(ForwardTwin(p));
  forward.CopyInputs(backward);
  RunBoth(forward, backward);
  for (const auto& [input, gradient] :
       {std::pair{Slot::kQuery, Slot::kGradQuery},
        std::pair{Slot::kQueryRope, Slot::kGradQueryRope},
        std::pair{Slot::kKey, Slot::kGradKey},
        std::pair{Slot::kKeyRope, Slot::kGradKeyRope},
        std::pair{Slot::kValue, Slot::kGradValue},
        std::pair{Slot::kBias, Slot::kGradBias},
        std::pair{Slot::kSink, Slot::kGradSink}}) {
    if (!p.has(gradient)) continue;
    constexpr double kStep = 1e-2;
    double expected = 0;
    double size = 0;
    std::vector<double> direction;
    for (int64_t n = 0; n < forward.count(input); ++n) {
      direction.push_back(double{random.Bell()});
      const double slope = backward.Get(gradient, n) * direction.back();
      expected += slope;
      size += slope * slope;
    }
    double losses[2];
    for (int side = 0; side < 2; ++side) {
      SmallCase moved(forward.problem());
      moved.CopyInputs(forward);
      for (size_t n = 0; n < direction.size(); ++n) {
        const auto at = static_cast<int64_t>(n);
        moved.Put(input, at,
                  forward.Get(input, at) +
                      (side == 0 ? kStep : -kStep) * direction[n]);
      }
      RunOn(kCpuForward, moved);
      losses[side] = LossOf(moved, backward);
    }
    EXPECT_NEAR((losses[0] - losses[1]) / (2 * kStep), expected,
                0.02 * std::sqrt(size) + 0.02)
        << Name(gradient);
  }
}

TEST_P(BackwardForward, GradientsAreSlopesOfTheForwardTiles) {
  Space space;
  space.forward = false;
  space.half_types = space.strides = space.device_lengths = false;
  space.sources = space.shared_value = false;
  space.most_dim = 40;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random& random) {
    // Slopes multiply distances, far from linear.
    if (!kCpuBackward.supports(p, {}).ok() || IsAlibi(p.score.bias)) return;
    ExpectSlopes(p, random);
  });
}

// Values and gradients of outputs that are rows of the identity show the
// probs: forward's as outputs, backward's as gradients of values. With as
// many keys as one step holds, no rescaling is in between.
TEST_P(BackwardForward, ProbsAreTheSameNumbers) {
  for (const char* rest :
       {"", " causal", " window:20:3", " mask", " bias", " alibi", " sink",
        " bias:before causal", " scale:3"}) {
    for (const char* dims : {"h=2 d=64/48", "h=3/1 d=300/48", "h=1 d=7+3/48"}) {
      const std::string line =
          std::string("bwd f32 ") + dims + " q=48 k=48" + rest;
      SCOPED_TRACE(line);
      const AttentionProblem p = testing::ProblemOf(line);
      Random random(9);
      SmallCase backward(p);
      backward.FillInputs(random);
      for (int64_t i = 0; i < 48; ++i) {
        for (int64_t d = 0; d < 48; ++d) {
          const double one = i == d ? 1 : 0;
          for (int64_t g = 0; g < p.kv_heads; ++g) {
            backward.Put(Slot::kValue, p[Slot::kValue].At(0, i, g, d), one);
          }
          // Of one head of the group: gradients of values are summed over it.
          for (int64_t head = 0; head < p.heads; ++head) {
            backward.Put(Slot::kGradOut, p[Slot::kGradOut].At(0, i, head, d),
                         head % p.group() == 0 ? one : 0);
          }
        }
      }
      SmallCase forward(ForwardTwin(p));
      forward.CopyInputs(backward);
      RunBoth(forward, backward);
      for (int64_t g = 0; g < p.kv_heads; ++g) {
        const int64_t head = g * p.group();
        for (int64_t i = 0; i < 48; ++i) {
          for (int64_t j = 0; j < 48; ++j) {
            const auto of_forward = static_cast<float>(
                forward.Get(Slot::kOut, p[Slot::kOut].At(0, i, head, j)));
            const auto of_backward = static_cast<float>(backward.Get(
                Slot::kGradValue, p[Slot::kGradValue].At(0, j, g, i)));
            EXPECT_EQ(std::bit_cast<uint32_t>(of_forward),
                      std::bit_cast<uint32_t>(of_backward))
                << of_forward << " and " << of_backward;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, BackwardForward,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
