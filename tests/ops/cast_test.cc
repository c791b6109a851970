// SPDX-License-Identifier: Apache-2.0
// aclnnCast by hand. Refusals and random calls are in elementwise_test.cc,
// conversions in tests/elementwise/convert_loops_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using CastTest = RuntimeTest;

TEST_F(CastTest, FloatsToIntegersTruncateAndSaturate) {
  const ElementTensor self(
      ACL_FLOAT, {8},
      {1.9, -1.9, std::nan(""), 1e10, -1e10, HUGE_VAL, -HUGE_VAL, 127.5});
  const ElementTensor bytes(ACL_INT8, {8}), naturals(ACL_UINT8, {8});
  EXPECT_TRUE(
      ElementwiseCall({"aclnnCast", {&self, &bytes}, {}, {ACL_INT8}}).Run());
  EXPECT_EQ(bytes.Values(), (Values{1, -1, 0, 127, -128, 127, -128, 127}));
  EXPECT_TRUE(
      ElementwiseCall({"aclnnCast", {&self, &naturals}, {}, {ACL_UINT8}})
          .Run());
  EXPECT_EQ(naturals.Values(), (Values{1, 0, 0, 255, 0, 255, 0, 127}));
}

TEST_F(CastTest, AnythingButZeroIsTrue) {
  const ElementTensor self(ACL_DOUBLE, {5},
                           {0, -0.0, 1e-300, std::nan(""), -1});
  const ElementTensor out(ACL_BOOL, {5});
  EXPECT_TRUE(
      ElementwiseCall({"aclnnCast", {&self, &out}, {}, {ACL_BOOL}}).Run());
  EXPECT_EQ(out.Values(), (Values{0, 0, 1, 1, 1}));
}

TEST_F(CastTest, OutMayHaveStrides) {
  const ElementTensor self(ACL_INT32, {2, 2}, {1, 2, 3, 70000});
  const ElementTensor out(Form{ACL_FLOAT16, {2, 2}, {1, 5}, 3});
  EXPECT_TRUE(
      ElementwiseCall({"aclnnCast", {&self, &out}, {}, {ACL_FLOAT16}}).Run());
  EXPECT_EQ(out.Values(), (Values{1, 2, 3, HUGE_VAL}));
}

}  // namespace
}  // namespace flashacl::testing
