// SPDX-License-Identifier: Apache-2.0
// What all causes share: right results have none, and how sure a check is.
#include "verify/causes/causes.h"

#include <gtest/gtest.h>

#include "tests/verify/causes/plain_attention.h"

namespace flashacl {
namespace {

TEST(Causes, RightResultsHaveNone) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
        "fwd f16 h=2 d=64 q=40 k=40 window:5:2",
        "fwd f32 h=3 d=16+8/32 q=2x17 k=2x30",
        "bwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
        "bwd f16 h=2 d=64 q=40 k=40 causal", "bwd f32 h=2 d=16 q=25 k=7",
        "bwd bf16 h=2 d=32+16 q=12 k=20 causal"}) {
    PlainAttention right(line);
    right.Run();
    const Result<TensorCheck> check = right.Check();
    ASSERT_TRUE(check.ok()) << line << ": " << check.status().message();
    EXPECT_TRUE(check->right()) << Describe(*check);
    EXPECT_EQ(check->rows, check->all_rows);
    EXPECT_TRUE(check->results[0].suspicions.empty());
  }
}

TEST(Causes, NoiseHasNone) {
  PlainAttention noisy("fwd f16 h=2 d=32 q=20 k=40 causal");
  noisy.Run();
  double sign = 1;
  for (double& x : noisy["out"].values) x += (sign = -sign);
  const Result<TensorCheck> check = noisy.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_FALSE(check->right());
  EXPECT_EQ(Confidence(check->results[0].suspicions), "") << Describe(*check);
}

TEST(Causes, ConfidenceFallsWithTheShareAndWithRivals) {
  const auto of = [](double first, double second) {
    const std::vector<Suspicion> both{{"a", "", first}, {"b", "", second}};
    return Confidence(both);
  };
  EXPECT_EQ(of(1, 0.5), "sure");
  EXPECT_EQ(of(1, 0.95), "likely");
  EXPECT_EQ(of(0.95, 0), "likely");
  EXPECT_EQ(of(0.6, 0), "perhaps");
  EXPECT_EQ(of(0.4, 0), "");
  EXPECT_EQ(Confidence({}), "");
}

}  // namespace
}  // namespace flashacl
