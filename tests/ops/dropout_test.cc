// SPDX-License-Identifier: Apache-2.0
// aclnnDropout by hand. Refusals and random calls are in
// dropout_checks_test.cc.
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/elementwise_call.h"
#include "tests/testing/philox.h"

namespace flashacl::testing {
namespace {

using DropoutCallTest = RuntimeTest;

ElementwiseCall Call(const ElementTensor& input, const ElementTensor& out,
                     const ElementTensor& mask, double p, bool train) {
  return {.name = "aclnnDropout",
          .tensors = {&input, &out, &mask},
          .integers = {train, 1, 0},
          .reals = {p}};
}

TEST_F(DropoutCallTest, IsAMaskAndWhatItKeeps) {
  constexpr int64_t kCount = 100;
  ElementTensor input(ACL_FLOAT, {kCount});
  const ElementTensor out(ACL_FLOAT, {kCount}), mask(ACL_UINT8, {16});
  for (int64_t n = 0; n < kCount; ++n) input.Set(n, static_cast<double>(n));
  EXPECT_TRUE(Call(input, out, mask, 0.5, true).Run());
  const PhiloxMask drawn{1, 0, 0.5};
  EXPECT_EQ(static_cast<uint8_t>(*mask.at(0)), 0xe5);
  EXPECT_EQ(static_cast<uint8_t>(*mask.at(15)),
            0xbd);  // the tail is drawn, too
  for (int64_t n = 0; n < kCount; ++n) {
    const bool keeps = drawn.Keeps(static_cast<uint64_t>(n));
    EXPECT_EQ(out.Values()[static_cast<size_t>(n)],
              keeps ? 2.0 * static_cast<double>(n) : 0.0);
  }
}

TEST_F(DropoutCallTest, MasksThatNobodyNeedsAreNotWritten) {
  const ElementTensor input(ACL_FLOAT, {3}, {1, 2, 3}), out(ACL_FLOAT, {3}),
      mask(ACL_UINT8, {16}), none(ACL_UINT8, {0});
  const auto before = mask.Image();
  EXPECT_TRUE(Call(input, out, mask, 0.5, false).Run());
  EXPECT_EQ(out.Values(), (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(Call(input, out, mask, 1, true).Run());
  EXPECT_EQ(out.Values(), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(Call(input, out, none, 0, true).Run());
  EXPECT_EQ(out.Values(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(mask.Image(), before);
}

}  // namespace
}  // namespace flashacl::testing
