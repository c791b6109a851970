// SPDX-License-Identifier: Apache-2.0
// Results of programs that do something else to scores and probs.
#include <gtest/gtest.h>

#include "tests/testing/generator.h"
#include "tests/verify/causes/expect_cause.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

TEST(ScoreCauses, ScaleForgottenAndSquared) {
  for (const bool squared : {false, true}) {
    const auto change = [squared](PlainAttention& wrong) {
      wrong.scale = squared ? wrong.scale * wrong.scale : 1;
    };
    const std::string_view cause =
        squared ? "scale squared" : "scale forgotten";
    ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                  "fwd f16 h=2 d=64 q=5,20 k=33,70",
                  "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
                 cause, change);
    ExpectCauses(kBackward, cause, change);
  }
}

// Channels [first, last) of queries and keys are not looked at; the first ones
// are no rope's.
TEST(ScoreCauses, RopeHalfForgotten) {
  struct Lost {
    int64_t first, last;  // channels of the rope
  };
  for (const Lost lost : {Lost{0, 16}, Lost{8, 16}, Lost{0, 8}}) {
    const auto change = [lost](PlainAttention& wrong) {
      const int64_t rope = wrong.problem().qk_dim;
      const auto query = wrong.query;
      const auto key = wrong.key;
      const auto has = [=](int64_t d) {
        return d < rope + lost.first || d >= rope + lost.last;
      };
      wrong.query = [=](int64_t b, int64_t i, int64_t h, int64_t d) {
        return has(d) ? query(b, i, h, d) : 0;
      };
      wrong.key = [=](int64_t b, int64_t j, int64_t g, int64_t d) {
        return has(d) ? key(b, j, g, d) : 0;
      };
    };
    ExpectCauses({"fwd bf16 h=4/2 d=32+16 q=30 k=40 causal",
                  "fwd f16 h=2 d=64+16/32 q=5,20 k=33,70",
                  "fwd f32 h=8/2 d=16+16 q=1 k=50"},
                 "rope forgotten", change);
    ExpectCauses({"bwd bf16 h=4/2 d=32+16 q=30 k=40 causal",
                  "bwd f16 h=2 d=64+16/32 q=5,20 k=33,30",
                  "bwd f32 h=6/2 d=16+16 q=7 k=20"},
                 "rope forgotten", change);
  }
}

// Scores, exponentials and sums in the type of the line.
void RoundSoftmax(PlainAttention& wrong) {
  const DType dtype = wrong.problem()[Slot::kQuery].dtype;
  wrong.round_score =
      wrong.round_prob = [dtype](double x) { return AsType(dtype, x); };
}

// A sum of many small terms stands still in 11 bits later than in 8, so that
// there must be more of them.
TEST(ScoreCauses, SoftmaxInSixteenBits) {
  ExpectCauses({"fwd bf16 h=2 d=32 q=30 k=900 causal",
                "fwd bf16 h=2/1 d=64 q=5,20 k=333,700",
                "fwd bf16 h=8/2 d=16 q=1 k=1500"},
               "softmax in 16 bits", RoundSoftmax);
  ExpectCauses({"fwd f16 h=2 d=32 q=7 k=9000 causal",
                "fwd f16 h=2/1 d=64 q=3,4 k=7000,8000",
                "fwd f16 h=8/2 d=16 q=1 k=12000"},
               "softmax in 16 bits", RoundSoftmax);
}

// A sum that stands still later than the trial's, as of a program that adds in
// another order: three quarters of the way from the truth to the trial.
TEST(ScoreCauses, SoftmaxInSixteenBitsNearerThanTruth) {
  for (const char* line : {"fwd bf16 h=2 d=32 q=30 k=900 causal",
                           "fwd bf16 h=2/1 d=64 q=5,20 k=333,700",
                           "fwd bf16 h=8/2 d=16 q=1 k=1500"}) {
    SCOPED_TRACE(line);
    PlainAttention right(line), wrong(line);
    RoundSoftmax(wrong);
    right.Run();
    wrong.Run();
    std::vector<double>& out = wrong["out"].values;
    for (size_t n = 0; n < out.size(); ++n) {
      out[n] += (right["out"].values[n] - out[n]) / 4;
    }
    ExpectCause(wrong, "softmax in 16 bits");
  }
}

TEST(ScoreCauses, SoftmaxInSixteenBitsBackward) {
  ExpectCauses(
      {"bwd bf16 h=2 d=32 q=8 k=500 causal",
       "bwd bf16 h=2/1 d=64 q=4,6 k=333,400", "bwd bf16 h=4/2 d=16 q=5 k=700"},
      "softmax in 16 bits", RoundSoftmax);
}

// Of f16 it takes many keys until its roundings pass those of the operands.
TEST(ScoreCauses, SoftmaxOfManyKeysInSixteenBitsBackward) {
  if (testing::ShareOf(100) < 100) {
    GTEST_SKIP() << "minutes under a sanitizer; release runs it";
  }
  ExpectCauses(
      {"bwd f16 h=2/1 d=16 q=4 k=5000 causal",
       "bwd f16 h=2/1 d=32 q=2,3 k=4000,4500", "bwd f16 h=4/1 d=16 q=2 k=6000"},
      "softmax in 16 bits", RoundSoftmax);
}

// 0: flags inverted; 1: queries and keys in the other order; 2: bits of a byte
// in the other order.
void MistakeKeep(int mistake, const char* line) {
  SCOPED_TRACE(line);
  PlainAttention wrong(line);
  const int64_t rows = wrong.rows(0);
  const int64_t columns = wrong.columns(0);
  const int64_t heads = wrong.problem().heads;
  const double keep = wrong.problem().score.keep_probability;
  Numbers flags{{1, heads, rows, columns}, {}};
  for (int64_t n = 0; n < heads * rows * columns; ++n) {
    const auto hash = static_cast<double>(n * 7919 % 1009) / 1009;
    flags.values.push_back(hash < keep ? 1 : 0);
  }
  wrong.Add("keep", flags);
  wrong.kept = [=](int64_t, int64_t h, int64_t i, int64_t j) {
    int64_t bit = (h * rows + i) * columns + j;
    if (mistake == 1) bit = (h * columns + j) * rows + i;
    if (mistake == 2) bit = bit / 8 * 8 + 7 - bit % 8;
    const bool set = flags.values[static_cast<size_t>(bit)] != 0;
    return set != (mistake == 0) ? 1 / keep : 0;
  };
  wrong.Run();
  ExpectCause(wrong, "dropout mask mistaken");
}

TEST(ScoreCauses, DropoutMaskMistaken) {
  for (const int mistake : {0, 1, 2}) {
    for (const char* line : {"fwd bf16 h=4/2 d=32 q=30 k=40 keep:0.75",
                             "fwd f16 h=2 d=64 q=24 k=24 keep:0.5",
                             "fwd f32 h=2 d=16 q=8 k=48 causal keep:0.9",
                             "bwd bf16 h=4/2 d=32 q=30 k=40 keep:0.75",
                             "bwd f16 h=2 d=64 q=24 k=24 keep:0.5",
                             "bwd f32 h=2 d=16 q=8 k=48 causal keep:0.9"}) {
      MistakeKeep(mistake, line);
    }
  }
}

}  // namespace
}  // namespace flashacl
