// SPDX-License-Identifier: Apache-2.0
// aclnnDropoutBackward by hand. Refusals and random calls are in
// dropout_checks_test.cc.
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using DropoutBackwardTest = RuntimeTest;

TEST_F(DropoutBackwardTest, MultipliesWhatWasKept) {
  const ElementTensor grad(ACL_FLOAT, {4}, {1, 2, -3, 4});
  const ElementTensor mask(ACL_UINT8, {16}, {0x06}), none(ACL_UINT8, {0});
  const ElementTensor out(ACL_FLOAT, {4});
  const auto run = [&](const ElementTensor& by, double scale) {
    return ElementwiseCall{.name = "aclnnDropoutBackward",
                           .tensors = {&grad, &by, &out},
                           .reals = {scale}}
        .Run();
  };
  EXPECT_TRUE(run(mask, 1.5));
  EXPECT_EQ(out.Values(), (Values{0, 3, -4.5, 0}));
  EXPECT_TRUE(run(none, 1));
  EXPECT_EQ(out.Values(), (Values{1, 2, -3, 4}));
  EXPECT_TRUE(run(none, 0));
  EXPECT_EQ(out.Values(), (Values{0, 0, 0, 0}));
}

}  // namespace
}  // namespace flashacl::testing
