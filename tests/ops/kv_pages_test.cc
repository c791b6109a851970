// SPDX-License-Identifier: Apache-2.0
// Shapes of caches. Types and strides are shown by the operators' tests.
#include "ops/kv_pages.h"

#include <gtest/gtest.h>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using Shape = std::vector<int64_t>;

TEST(KvPages, CachesHaveTheShapesOfTheirLayout) {
  const PageExtents of{
      .blocks = 7, .block_rows = 5, .heads = 3, .channels = 32};
  EXPECT_EQ(CacheShape(PageLayout::kRows, 4, of, 16), (Shape{7, 5, 3, 32}));
  EXPECT_EQ(CacheShape(PageLayout::kHeads, 4, of, 16), (Shape{7, 3, 5, 32}));
  EXPECT_EQ(CacheShape(PageLayout::kNz, 4, of, 16), (Shape{7, 6, 5, 16}));
  EXPECT_EQ(CacheShape(PageLayout::kNz, 5, of, 16), (Shape{7, 3, 2, 5, 16}));
  EXPECT_EQ(CacheShape(PageLayout::kNz, 4, of, 32), (Shape{7, 3, 5, 32}));
}

TEST(KvPages, PiecesAre32Bytes) {
  EXPECT_EQ(NzElements(testing::Dense({1}, ACL_BF16)), 16);
  EXPECT_EQ(NzElements(testing::Dense({1}, ACL_INT8)), 32);
}

}  // namespace
}  // namespace flashacl::ops
