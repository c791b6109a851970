// SPDX-License-Identifier: Apache-2.0
// aclnnLightningIndexerGrad: by hand, finite differences, random calls against
// fp64. Refusals are in lightning_indexer_refusal_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/indexer_call.h"
#include "tests/testing/indexer_case.h"

namespace flashacl::testing {
namespace {

using LightningIndexerGradTest = RuntimeTest;
using Values = std::vector<double>;
using indexer::GradientCall;

TEST_F(LightningIndexerGradTest, TwoKeysByHand) {
  // Products of heads with keys 0 and 1: 3 and 1, -9 and 1.
  const ElementTensor query(ACL_FLOAT16, {1, 2, 2}, {1, 0, 0, 1}),
      key(ACL_FLOAT16, {3, 1, 2}, {3, -9, 1, 1, 7, 7}),
      weights(ACL_FLOAT16, {1, 2}, {1, 2}),
      dy(ACL_FLOAT16, {1, 1, 4}, {10, 1, 5, 5}),
      list(ACL_INT32, {1, 1, 4}, {0, 1, -1, 2}), rows(ACL_INT32, {1}, {1}),
      keys(ACL_INT32, {1}, {3}), dq(ACL_FLOAT16, {1, 2, 2}),
      dk(ACL_FLOAT16, {3, 1, 2}), dw(ACL_FLOAT16, {1, 2});
  EXPECT_TRUE(GradientCall({&query, &key, &dy, &list, &weights, &rows, &keys,
                            &dq, &dk, &dw})
                  .Run());
  EXPECT_EQ(dw.Values(), Values({31, 1}));
  EXPECT_EQ(dq.Values(), Values({31, -89, 2, 2}));
  EXPECT_EQ(dk.Values(), Values({10, 0, 1, 2, 0, 0}));
}

// A product of 0 is where max(0, x) has no derivative: 0, as the right one is
// not taken. So -0, and a NaN, which only the weights' gradient shows.
TEST_F(LightningIndexerGradTest, ProductsThatAreNotPositiveGiveNothing) {
  for (const double product : {0.0, -0.0, -1.0}) {
    const ElementTensor query(ACL_BF16, {1, 1, 1, 1}, {1}),
        key(ACL_BF16, {1, 1, 1, 1}, {product}),
        weights(ACL_BF16, {1, 1, 1}, {3}),
        dy(ACL_BF16, {1, 1, 1}, {std::nan("")}),
        list(ACL_INT32, {1, 1, 1}, {0}), dq(ACL_BF16, {1, 1, 1, 1}),
        dk(ACL_BF16, {1, 1, 1, 1}), dw(ACL_BF16, {1, 1, 1});
    EXPECT_TRUE(GradientCall({&query, &key, &dy, &list, &weights, nullptr,
                              nullptr, &dq, &dk, &dw},
                             "BSND")
                    .Run());
    EXPECT_EQ(dq.Values(), Values({0}));
    EXPECT_EQ(dk.Values(), Values({0}));
  }
}

TEST_F(LightningIndexerGradTest, TensorsWithoutElementsHaveGradients) {
  const ElementTensor query(ACL_BF16, {1, 0, 2, 3}),
      key(ACL_BF16, {1, 2, 1, 3}), weights(ACL_BF16, {1, 0, 2}),
      dy(ACL_BF16, {1, 0, 4}), list(ACL_INT32, {1, 0, 4}),
      dq(ACL_BF16, {1, 0, 2, 3}), dk(ACL_BF16, {1, 2, 1, 3}),
      dw(ACL_BF16, {1, 0, 2});
  EXPECT_TRUE(GradientCall({&query, &key, &dy, &list, &weights, nullptr,
                            nullptr, &dq, &dk, &dw},
                           "BSND")
                  .Run());
  EXPECT_EQ(dk.Values(), Values(6, 0));
  // Lists of nothing.
  const ElementTensor rows(ACL_BF16, {1, 2, 2, 3}),
      factors(ACL_BF16, {1, 2, 2}), no_dy(ACL_BF16, {1, 2, 1, 0}),
      no_list(ACL_INT32, {1, 2, 1, 0}), some_dq(ACL_BF16, {1, 2, 2, 3}),
      some_dw(ACL_BF16, {1, 2, 2});
  EXPECT_TRUE(GradientCall({&rows, &key, &no_dy, &no_list, &factors, nullptr,
                            nullptr, &some_dq, &dk, &some_dw},
                           "BSND")
                  .Run());
  EXPECT_EQ(some_dq.Values(), Values(12, 0));
  EXPECT_EQ(some_dw.Values(), Values(4, 0));
}

TEST_F(LightningIndexerGradTest, RandomCallsAreThoseOfFp64) {
  CheckRandomCalls<SeededIndexerCase<IndexerCase::Direction::kBackward, false>>(
      250);
}

TEST_F(LightningIndexerGradTest, ExactCallsAreExact) {
  CheckRandomCalls<SeededIndexerCase<IndexerCase::Direction::kBackward, true>>(
      250);
}

// The loss is linear but for kinks, and quadratic for pairs: its central
// difference is the derivative unless a product changes its sign on the way.
TEST_F(LightningIndexerGradTest, AreTheSlopesOfScores) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    IndexerCase call(seed, IndexerCase::Direction::kBackward, false);
    SCOPED_TRACE(Str("seed {}: {}", seed, call.ToString()));
    call.CheckGradient();
    if (HasFailure()) return;
    Random random(seed);
    const Bounded slope = call.Derivative(random);
    const double step = 0x1p-24;
    const double difference =
        (call.LossAt(step) - call.LossAt(-step)) / (2 * step);
    const double rounding = 0x1p-50 / step * (1 + std::fabs(call.LossAt(0)));
    EXPECT_NEAR(difference, slope.value,
                slope.error + rounding + 1e-3 * std::fabs(slope.value) + 1e-4);
  }
}

}  // namespace
}  // namespace flashacl::testing
