// SPDX-License-Identifier: Apache-2.0
// What is written down of parameters; tests/replay shows that it is all.
#include "acl/planned_call.h"

#include <gtest/gtest.h>

#include "acl/acl.h"

namespace flashacl::acl {
namespace {

TEST(Passing, CopiesEveryKind) {
  const int64_t dims[] = {2, 3};
  aclTensor* const tensor = aclCreateTensor(dims, 2, ACL_FLOAT16, nullptr, 4,
                                            ACL_FORMAT_NCHW, dims, 2, nullptr);
  const auto copied =
      std::get<record::Tensor>(Passing("self", tensor).Copy().Describe().value);
  EXPECT_EQ(copied.type, "FLOAT16");
  EXPECT_EQ(copied.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(copied.strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(copied.offset, 4);
  EXPECT_FALSE(copied.has_data);
  aclDestroyTensor(tensor);
  EXPECT_TRUE(std::holds_alternative<record::NoObject>(
      Passing("self", static_cast<const aclTensor*>(tensor))
          .Copy()
          .Describe()
          .value));
  const record::Parameter none =
      Passing("self", static_cast<const aclTensor*>(nullptr)).Copy().Describe();
  EXPECT_EQ(none.kind, "tensor");
  EXPECT_TRUE(std::holds_alternative<record::Nothing>(none.value));
  EXPECT_EQ(std::get<double>(Passing("p", 0.5).Copy().Describe().value), 0.5);
  EXPECT_EQ(std::get<bool>(Passing("b", true).Copy().Describe().value), true);
  EXPECT_EQ(
      std::get<int64_t>(Passing("n", int64_t{-7}).Copy().Describe().value), -7);
  EXPECT_EQ(std::get<int64_t>(Passing("t", ACL_BF16).Copy().Describe().value),
            ACL_BF16);
  EXPECT_EQ(std::get<std::string>(Passing("l", "BSND").Copy().Describe().value),
            "BSND");
}

}  // namespace
}  // namespace flashacl::acl
