// SPDX-License-Identifier: Apache-2.0
// Shapes that follow the query's, in both layouts.
#include "ops/sparse.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

constexpr acl::Argument kTable[] = {{.name = "query"}, {.name = "other"}};

// A query and another tensor.
struct Pair : testing::TensorRows {
  Pair(const std::vector<int64_t>& query, const std::vector<int64_t>& other)
      : TensorRows(kTable) {
    Give(0, query, ACL_FLOAT);
    Give(1, other, ACL_FLOAT);
  }
  acl::Arguments arguments() const { return Read(); }
};

using Dims = std::vector<int64_t>;

TEST(Sparse, ShapesFollowOthers) {
  EXPECT_TRUE(CheckLike(Pair({3, 4, 5}, {3, 4, 5}).arguments(), 1, 0).ok());
  EXPECT_TRUE(CheckLike(Pair({3, 4, 5}, {3, 4, 7}).arguments(), 1, 0, 7).ok());
  EXPECT_EQ(CheckLike(Pair({3, 4, 5}, {3, 4, 7}).arguments(), 1, 0).message(),
            "other: shape [3, 4, 7] does not match query's [3, 4, 5]");
  EXPECT_FALSE(CheckLike(Pair({3, 4, 5}, {3, 4}).arguments(), 1, 0).ok());
}

TEST(Sparse, ListsAreOnePerQuery) {
  EXPECT_TRUE(CheckIndices(Pair({3, 4, 5}, {3, 1, 9}).arguments(), 1, 0).ok());
  EXPECT_TRUE(
      CheckIndices(Pair({2, 3, 4, 5}, {2, 3, 1, 9}).arguments(), 1, 0).ok());
  for (const Dims& dims :
       {Dims{3, 4, 9}, {2, 1, 9}, {3, 1, 0}, {3, 1}, {1, 3, 1, 9}}) {
    EXPECT_FALSE(CheckIndices(Pair({3, 4, 5}, dims).arguments(), 1, 0).ok());
  }
}

TEST(Sparse, StatisticsHaveHeadsInnermost) {
  const Pair packed({3, 4, 5}, {1, 3, 4});
  ASSERT_TRUE(CheckStatistics(packed.arguments(), 1, 0).ok());
  const TensorSpec rows = StatisticsSpec(*packed.arguments().given(1), 7);
  EXPECT_EQ(rows.At(6, 3, 2), 2 * 4 + 3);
  EXPECT_EQ(rows.placement, Placement::kTensorRows);
  const Pair dense({2, 3, 4, 5}, {2, 1, 3, 4});
  ASSERT_TRUE(CheckStatistics(dense.arguments(), 1, 0).ok());
  const TensorSpec all = StatisticsSpec(*dense.arguments().given(1), 2);
  EXPECT_EQ(all.At(1, 3, 2), 12 + 2 * 4 + 3);
  EXPECT_EQ(
      CheckStatistics(Pair({3, 4, 5}, {3, 4}).arguments(), 1, 0).message(),
      "other: shape [3, 4], expected [1, 3, 4]");
}

TEST(Sparse, LengthsAreOneForEach) {
  EXPECT_TRUE(CheckOneEach(Pair({3, 4, 5}, {2}).arguments(), 1, 2).ok());
  EXPECT_FALSE(CheckOneEach(Pair({3, 4, 5}, {2}).arguments(), 1, 3).ok());
  EXPECT_FALSE(CheckOneEach(Pair({3, 4, 5}, {2, 1}).arguments(), 1, 2).ok());
}

}  // namespace
}  // namespace flashacl::ops
