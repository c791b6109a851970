// SPDX-License-Identifier: Apache-2.0
// aclnnInplaceCopy by hand. Refusals and random calls are in
// elementwise_test.cc, conversions in tests/elementwise/convert_loops_test.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;

class CopyTest : public RuntimeTest {
 protected:
  static ::testing::AssertionResult Copy(const ElementTensor& to,
                                         const ElementTensor& from) {
    return ElementwiseCall({"aclnnInplaceCopy", {&to, &from}}).Run();
  }
};

TEST_F(CopyTest, TransposesAndConverts) {
  const ElementTensor to(ACL_INT32, {2, 3});
  ElementTensor from(Form{ACL_FLOAT, {2, 3}, {1, 2}});
  for (int64_t n = 0; n < 6; ++n) from.Set(n, static_cast<double>(n) + 0.75);
  EXPECT_TRUE(Copy(to, from));
  EXPECT_EQ(to.Values(), (Values{0, 1, 2, 3, 4, 5}));
}

TEST_F(CopyTest, BroadcastsOneWay) {
  const ElementTensor to(ACL_FLOAT16, {2, 2, 2});
  EXPECT_TRUE(Copy(to, ElementTensor(ACL_FLOAT16, {2, 1}, {1, 2})));
  EXPECT_EQ(to.Values(), (Values{1, 1, 2, 2, 1, 1, 2, 2}));
}

// A slice of a larger tensor, whose other elements stay.
TEST_F(CopyTest, WritesASlice) {
  const ElementTensor whole(ACL_INT64, {4, 4});
  const int64_t dims[] = {2, 2};
  const int64_t strides[] = {4, 1};
  const int64_t storage[] = {4, 4};
  aclTensor* const slice = aclCreateTensor(
      dims, 2, ACL_INT64, strides, 5, ACL_FORMAT_ND, storage, 2, whole.data());
  const ElementTensor from(ACL_INT64, {2, 2}, {1, 2, 3, 4});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const EntryPoints& entry = EntryPointsOf("aclnnInplaceCopy");
  ASSERT_TRUE(Succeeds(
      entry.phase_one({.tensors = {slice, from.handle()}}, &size, &executor)));
  ASSERT_TRUE(Succeeds(entry.phase_two(nullptr, 0, executor, nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_EQ(whole.Values(), (Values{-1, -1, -1, -1, -1, 1, 2, -1,  //
                                    -1, 3, 4, -1, -1, -1, -1, -1}));
  EXPECT_EQ(aclDestroyTensor(slice), 0);
}

TEST_F(CopyTest, OfOneTypeKeepsBits) {
  ElementTensor from(ACL_FLOAT, {2});
  const uint32_t bits[] = {0x7F800001, 0x80000000};  // NaN with a load; -0
  std::memcpy(from.data(), bits, sizeof(bits));
  const ElementTensor to(ACL_FLOAT, {2});
  EXPECT_TRUE(Copy(to, from));
  EXPECT_EQ(to.Image(), from.Image());
  const ElementTensor self(Form{ACL_FLOAT, {2}, {1}});
  EXPECT_TRUE(Copy(self, self));
}

TEST_F(CopyTest, ComplexNumbersAreCopiedAsTheyAre) {
  for (const aclDataType type : {ACL_COMPLEX64, ACL_COMPLEX128}) {
    const ElementTensor from(Form{type, {3}});
    for (size_t n = 0; n < from.Image().size(); ++n) {
      from.data()[n] = static_cast<std::byte>(n);
    }
    const ElementTensor to(Form{type, {3}});
    EXPECT_TRUE(Copy(to, from));
    EXPECT_EQ(to.Image(), from.Image());
  }
}

}  // namespace
}  // namespace flashacl::testing
