// SPDX-License-Identifier: Apache-2.0
// aclnnDropoutDoMask by hand. Refusals and random calls are in
// dropout_checks_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using DropoutDoMaskTest = RuntimeTest;

ElementwiseCall Call(const ElementTensor& self, const ElementTensor& mask,
                     const ElementTensor& out, double prob) {
  return {.name = "aclnnDropoutDoMask",
          .tensors = {&self, &mask, &out},
          .reals = {prob}};
}

TEST_F(DropoutDoMaskTest, BitsCountFromTheLowest) {
  const ElementTensor self(ACL_FLOAT, {2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const ElementTensor mask(ACL_UINT8, {16}, {0x2B, 0x02});
  const ElementTensor out(ACL_FLOAT, {2, 5});
  EXPECT_TRUE(Call(self, mask, out, 0.5).Run());
  EXPECT_EQ(out.Values(), (Values{2, 4, 0, 8, 0, 12, 0, 0, 0, 20}));
}

TEST_F(DropoutDoMaskTest, WhatIsDroppedIsZeroAndNothingElse) {
  const ElementTensor self(
      ACL_FLOAT16, {6}, {std::nan(""), HUGE_VAL, -3, HUGE_VAL, -HUGE_VAL, -6});
  const ElementTensor mask(ACL_UINT8, {16}, {0x38});
  const ElementTensor out(ACL_FLOAT16, {6});
  EXPECT_TRUE(Call(self, mask, out, 0.25).Run());
  EXPECT_EQ(out.Values(), (Values{0, 0, 0, HUGE_VAL, -HUGE_VAL, -8}));
  for (int64_t n = 0; n < 3; ++n) {
    EXPECT_FALSE(std::signbit(out.Values()[static_cast<size_t>(n)]));
  }
}

TEST_F(DropoutDoMaskTest, TheDivisorIsRoundedToFp32) {
  const ElementTensor self(ACL_FLOAT, {1}, {3});
  const ElementTensor mask(ACL_UINT8, {16}, {1});
  const ElementTensor out(ACL_DOUBLE, {1});
  EXPECT_TRUE(Call(self, mask, out, 0.1).Run());
  EXPECT_EQ(out.Values()[0], double{3.0f / 0.9f});
}

TEST_F(DropoutDoMaskTest, AllOrNothingReadsNoMask) {
  const ElementTensor self(ACL_FLOAT, {3}, {1, -0.0, HUGE_VAL});
  const ElementTensor none(ACL_UINT8, {0});
  const ElementTensor out(ACL_BF16, {3});
  EXPECT_TRUE(Call(self, none, out, 0).Run());
  EXPECT_EQ(out.Values(), (Values{1, -0.0, HUGE_VAL}));
  EXPECT_TRUE(Call(self, none, out, 1).Run());
  EXPECT_EQ(out.Values(), (Values{0, 0, 0}));
}

TEST_F(DropoutDoMaskTest, OutMayBeSelf) {
  const ElementTensor self(ACL_FLOAT, {3}, {1, 2, 3});
  const ElementTensor mask(ACL_UINT8, {16}, {0x05});
  EXPECT_TRUE(Call(self, mask, self, 0.5).Run());
  EXPECT_EQ(self.Values(), (Values{2, 0, 6}));
}

}  // namespace
}  // namespace flashacl::testing
