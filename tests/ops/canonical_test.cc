// SPDX-License-Identifier: Apache-2.0
// Every layout is a reading order: element for element.
#include "ops/canonical.h"

#include <gtest/gtest.h>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::Dense;

// B = 2, S = 3, N = 4, D = 5: where each layout puts (b, s, n, d).
TEST(Canonical, AgreesWithTheDefinitionOfEachLayout) {
  struct Case {
    Layout layout;
    acl::Tensor tensor;
    int64_t strides[4];  // of b, s, n, d
  };
  const Case cases[] = {
      {kBsh, Dense({2, 3, 20}), {60, 20, 5, 1}},
      {kSbh, Dense({3, 2, 20}), {20, 40, 5, 1}},
      {kBsnd, Dense({2, 3, 4, 5}), {60, 20, 5, 1}},
      {kBnsd, Dense({2, 4, 3, 5}), {60, 5, 15, 1}},
      {kNsd, Dense({4, 3, 5}), {0, 5, 15, 1}},
      {kTnd, Dense({3, 4, 5}), {0, 20, 5, 1}},
      {kSh, Dense({3, 20}), {0, 20, 5, 1}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.layout.name);
    const TensorSpec spec = Canonical(c.tensor, c.layout, 4, 2);
    EXPECT_EQ(spec.dims, (std::array<int64_t, 4>{2, 3, 4, 5}));
    for (size_t axis = 0; axis < 4; ++axis) {
      EXPECT_EQ(spec.strides[axis], c.strides[axis]) << axis;
    }
  }
}

TEST(Canonical, KeepsTheCallersStrides) {
  acl::Tensor tensor = Dense({2, 3, 20});
  tensor.strides = {1000, 100, 2};
  const TensorSpec spec = Canonical(tensor, kBsh, 4, 2);
  EXPECT_EQ(spec.At(1, 2, 3, 4), 1000 + 200 + 3 * 10 + 8);
}

TEST(Strided, RepeatsWhatTheTensorLacks) {
  const TensorSpec spec =
      Strided(Dense({1, 6, 7}), {0, kOne, 1, 2}, {5, 8, 6, 7});
  EXPECT_EQ(spec.dims, (std::array<int64_t, 4>{5, 8, 6, 7}));
  EXPECT_EQ(spec.At(4, 7, 2, 3), 2 * 7 + 3);
}

TEST(CheckRank, SaysBothNumbers) {
  EXPECT_TRUE(CheckRank("query", Dense({2, 3, 20}), kBsh, 4).ok());
  EXPECT_EQ(CheckRank("query", Dense({3, 20}), kBsh, 4).message(),
            "query: shape [3, 20] has 2 dimensions, layout BSH has 3");
  EXPECT_EQ(CheckRank("key", Dense({2, 3, 21}), kBsh, 4).message(),
            "key: last axis 21 of layout BSH is not a multiple of 4 heads");
}

}  // namespace
}  // namespace flashacl::ops
