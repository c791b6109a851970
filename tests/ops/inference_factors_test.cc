// SPDX-License-Identifier: Apache-2.0
// Every shape of scales finds the same number for a channel.
#include "ops/inference_factors.h"

#include <gtest/gtest.h>

#include <vector>

namespace flashacl::ops {
namespace {

acl::Tensor Dense(const std::vector<int64_t>& dims) {
  acl::Tensor tensor;
  tensor.acl_dtype = ACL_FLOAT;
  tensor.rank = dims.size();
  std::copy(dims.begin(), dims.end(), tensor.dims.begin());
  int64_t stride = 1;
  for (size_t axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.dims[axis];
  }
  return tensor;
}

TEST(FactorSpec, OnePerChannel) {
  const std::vector<int64_t> shapes[] = {{6},          {1, 6},       {6, 1},
                                         {2, 3},       {2, 1, 3},    {1, 2, 3},
                                         {1, 2, 1, 3}, {1, 1, 2, 3}, {1, 1, 6}};
  for (const auto& dims : shapes) {
    const auto spec = FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3});
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    EXPECT_EQ(spec->dims[0], 2);
    EXPECT_EQ(spec->dims[1], 3);
    EXPECT_EQ(spec->At(1, 2), 5);
    EXPECT_EQ(spec->At(1, 0), 3);
  }
}

TEST(FactorSpec, OneForAllRepeats) {
  for (const auto& dims : {std::vector<int64_t>{1}, {1, 1}}) {
    const auto spec = FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3});
    ASSERT_TRUE(spec.ok());
    EXPECT_EQ(spec->At(1, 2), 0);
  }
}

TEST(FactorSpec, LeadingAxesAreTheCallers) {
  const auto spec = FactorSpec("scale", Dense({2, 2, 3}),
                               {.first_axis = 1, .heads = 2, .dim = 3});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->At(1, 2), 5);
}

TEST(FactorSpec, RefusesOtherNumbers) {
  for (const auto& dims :
       {std::vector<int64_t>{2}, {3}, {3, 2}, {5}, {2, 3, 2}, {12}}) {
    EXPECT_EQ(FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3})
                  .status()
                  .code(),
              Code::kContradiction);
  }
}

}  // namespace
}  // namespace flashacl::ops
