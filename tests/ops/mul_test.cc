// SPDX-License-Identifier: Apache-2.0
// aclnnMul and aclnnInplaceMul by hand. Refusals and random calls are in
// elementwise_test.cc.
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using MulTest = RuntimeTest;

TEST_F(MulTest, BroadcastsBothWays) {
  const ElementTensor column(ACL_INT64, {2, 1}, {3, -4});
  const ElementTensor row(ACL_FLOAT, {3}, {0.5, 2, -1});
  const ElementTensor out(ACL_FLOAT, {2, 3});
  EXPECT_TRUE(ElementwiseCall({"aclnnMul", {&column, &row, &out}}).Run());
  EXPECT_EQ(out.Values(), (Values{1.5, 6, -3, -2, -8, 4}));
}

TEST_F(MulTest, ShortIntegersWrap) {
  const ElementTensor self(ACL_INT16, {2}, {-32768, 32767});
  EXPECT_TRUE(ElementwiseCall({"aclnnInplaceMul", {&self, &self}}).Run());
  EXPECT_EQ(self.Values(), (Values{0, 1}));
  const ElementTensor bytes(ACL_UINT8, {1}, {255}), minus(ACL_INT8, {1}, {-1});
  const ElementTensor out(ACL_INT64, {1});
  EXPECT_TRUE(ElementwiseCall({"aclnnMul", {&bytes, &minus, &out}}).Run());
  EXPECT_EQ(out.Values(), (Values{-255}));  // as INT16
}

TEST_F(MulTest, BoolsAreAnd) {
  const ElementTensor a(ACL_BOOL, {4}, {0, 0, 1, 1}),
      b(ACL_BOOL, {4}, {0, 1, 0, 1}), out(ACL_BOOL, {4});
  EXPECT_TRUE(ElementwiseCall({"aclnnMul", {&a, &b, &out}}).Run());
  EXPECT_EQ(out.Values(), (Values{0, 0, 0, 1}));
}

TEST_F(MulTest, AScalarIsATensorWithoutAxes) {
  const ElementTensor self(ACL_BF16, {3}, {1, 2, 3}), two(ACL_BF16, {}, {2});
  EXPECT_TRUE(ElementwiseCall({"aclnnInplaceMul", {&self, &two}}).Run());
  EXPECT_EQ(self.Values(), (Values{2, 4, 6}));
  const ElementTensor four(ACL_BF16, {});
  EXPECT_TRUE(ElementwiseCall({"aclnnMul", {&two, &two, &four}}).Run());
  EXPECT_EQ(four.Values(), (Values{4}));
}

}  // namespace
}  // namespace flashacl::testing
