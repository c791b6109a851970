// SPDX-License-Identifier: Apache-2.0
// Shapes that follow the query's, in both layouts.
#include "ops/sparse.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

constexpr acl::Argument kTable[] = {{.name = "query"}, {.name = "other"}};
constexpr int kOther = 1;
constexpr SparseTable kSparse{.query = 0,
                              .key = kOther,
                              .value = kOther,
                              .indices = kOther,
                              .query_lengths = kOther,
                              .key_lengths = kOther,
                              .query_rope = kOther,
                              .key_rope = kOther};

using Dims = std::vector<int64_t>;

// What `check` says of a call with that query and another tensor.
template <typename Check>
Status With(const Dims& query, const Dims& other, const Check& check) {
  testing::TensorRows rows(kTable);
  rows.Give(0, query, ACL_FLOAT);
  rows.Give(kOther, other, ACL_FLOAT);
  const acl::Arguments arguments = rows.Read();
  const Layout& layout = query.size() == 3 ? kTnd : kBsnd;
  return check(SparseCall{.arguments = arguments,
                          .table = kSparse,
                          .layout = layout,
                          .key_layout = layout});
}

TEST(Sparse, ShapesFollowOthers) {
  const auto like = [](const Dims& other, int64_t channels = -1) {
    return With({3, 4, 5}, other, [&](const SparseCall& call) {
      return CheckLike(call, kOther, 0, channels);
    });
  };
  EXPECT_TRUE(like({3, 4, 5}).ok());
  EXPECT_TRUE(like({3, 4, 7}, 7).ok());
  EXPECT_EQ(like({3, 4, 7}).message(),
            "other: shape [3, 4, 7] does not match query's [3, 4, 5]");
  EXPECT_FALSE(like({3, 4}).ok());
}

TEST(Sparse, ListsAreOnePerQuery) {
  EXPECT_TRUE(With({3, 4, 5}, {3, 1, 9}, CheckIndices).ok());
  EXPECT_TRUE(With({2, 3, 4, 5}, {2, 3, 1, 9}, CheckIndices).ok());
  for (const Dims& dims :
       {Dims{3, 4, 9}, {2, 1, 9}, {3, 1, 0}, {3, 1}, {1, 3, 1, 9}}) {
    EXPECT_FALSE(With({3, 4, 5}, dims, CheckIndices).ok());
  }
}

TEST(Sparse, StatisticsHaveHeadsInnermost) {
  TensorSpec spec;
  const auto statistics = [&](SparseCall call) -> Status {
    FLASHACL_RETURN_IF_ERROR(CheckStatistics(call, kOther));
    acl::Lowered lowered;
    call.min_sequences = 7;
    PlaceStatistics(call, {kOther, Slot::kRowMax}, lowered);
    spec = lowered.problem[Slot::kRowMax];
    return {};
  };
  ASSERT_TRUE(With({3, 4, 5}, {1, 3, 4}, statistics).ok());
  EXPECT_EQ(spec.At(6, 3, 2), 2 * 4 + 3);
  EXPECT_EQ(spec.placement, Placement::kTensorRows);
  ASSERT_TRUE(With({2, 3, 4, 5}, {2, 1, 3, 4}, statistics).ok());
  EXPECT_EQ(spec.At(1, 3, 2), 12 + 2 * 4 + 3);
  EXPECT_EQ(With({3, 4, 5}, {3, 4}, statistics).message(),
            "other: shape [3, 4], expected [1, 3, 4]");
}

TEST(Sparse, LengthsAreOneForEach) {
  EXPECT_TRUE(With({2, 3, 4, 5}, {2}, CheckLengths).ok());
  EXPECT_FALSE(With({3, 3, 4, 5}, {2}, CheckLengths).ok());
  EXPECT_FALSE(With({2, 3, 4, 5}, {2, 1}, CheckLengths).ok());
}

}  // namespace
}  // namespace flashacl::ops
