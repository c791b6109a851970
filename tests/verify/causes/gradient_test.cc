// SPDX-License-Identifier: Apache-2.0
// Gradients of programs whose forward direction is right.
#include <gtest/gtest.h>

#include <utility>

#include "tests/verify/causes/expect_cause.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

TEST(GradientCauses, LackDoutOut) {
  ExpectCauses(kBackward, "gradients lack dout.out",
               [](PlainAttention& wrong) { wrong.delta = false; });
}

TEST(GradientCauses, LackTheScale) {
  for (const char* line : kBackward) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    wrong.Run();
    for (const char* name : {"dq", "dk"}) {
      for (double& x : wrong[name].values) x /= wrong.scale;
    }
    ExpectCause(wrong, "gradients lack the scale");
  }
}

TEST(GradientCauses, SwapDkAndDv) {
  for (const char* line : kBackward) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    wrong.Run();
    std::swap(wrong["dk"].values, wrong["dv"].values);
    ExpectCause(wrong, "dk and dv swapped");
  }
}

TEST(GradientCauses, LackHeadsOfAGroup) {
  for (const bool last : {false, true}) {
    ExpectCauses({"bwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
                  "bwd f16 h=6/2 d=64 q=20 k=33 window:6:2",
                  "bwd f32 h=4/1 d=16 q=2x12 k=2x25"},
                 "gradients lack heads of a group",
                 [last](PlainAttention& wrong) {
                   wrong.summed = [&wrong, last](int64_t h) {
                     const int64_t group = wrong.problem().group();
                     return h % group == (last ? group - 1 : 0);
                   };
                 });
  }
}

// Rows' maxima, sums and outputs are the right ones.
template <typename Change>
void ExpectInBackwardOnly(Lines lines, std::string_view cause, Change change) {
  for (const char* line : lines) {
    SCOPED_TRACE(line);
    const PlainAttention right(line);
    PlainAttention wrong(line);
    change(wrong);
    wrong.forward = &right;
    wrong.Run();
    ExpectCause(wrong, cause);
  }
}

TEST(GradientCauses, MaskMistakenInBackwardOnly) {
  ExpectInBackwardOnly(
      kBackward, "mask mistaken in backward only", [](PlainAttention& wrong) {
        wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
          return BandOf(wrong, b).Sees(i, j + wrong.columns(b) - wrong.rows(b));
        };
      });
}

TEST(GradientCauses, ScoreMistakenInBackwardOnly) {
  ExpectInBackwardOnly(
      kBackward, "score mistaken in backward only",
      [](PlainAttention& wrong) { wrong.scale *= wrong.scale; });
}

}  // namespace
}  // namespace flashacl
