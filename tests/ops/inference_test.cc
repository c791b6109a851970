// SPDX-License-Identifier: Apache-2.0
// Heads and layout names of inference.
#include "ops/inference.h"

#include <gtest/gtest.h>

namespace flashacl::ops {
namespace {

TEST(Inference, LayoutNamesAreReadNoFurtherThanTheyDiffer) {
  const char open[] = {'B', 'S'};  // the third character would be out of bounds
  EXPECT_TRUE(StartsWith(open, "BS"));
  EXPECT_FALSE(StartsWith(open, "NSD"));
  EXPECT_TRUE(StartsWith("BNSD_BSND", "BNSD"));
  EXPECT_FALSE(StartsWith("", "B"));
  EXPECT_TRUE(Equals("BNSD", "BNSD"));
  EXPECT_FALSE(Equals("BNSD_BSND", "BNSD"));
  EXPECT_FALSE(Equals("BNS", "BNSD"));
}

TEST(Inference, NoKeyHeadsMeansOneForEachQueryHead) {
  EXPECT_EQ(*KeyHeads(6, 0), 6);
  EXPECT_EQ(*KeyHeads(6, 2), 2);
  EXPECT_EQ(*KeyHeads(64, 1), 1);
  EXPECT_EQ(*KeyHeads(256, 256), 256);
  for (const int64_t kv_heads : {-1, 4, 12}) {
    EXPECT_EQ(KeyHeads(6, kv_heads).status().code(), Code::kContradiction);
  }
  EXPECT_FALSE(KeyHeads(65, 1).ok());
  EXPECT_FALSE(KeyHeads(257, 0).ok());
}

TEST(Inference, ExtentsAreNamed) {
  const TensorSpec spec = DenseSpec(DType::kF16, {2, 3, 4, 5});
  EXPECT_TRUE(CheckExtents("key", spec, {}).ok());
  EXPECT_TRUE(CheckExtents("key", spec, {2, 3, 4, 5}).ok());
  EXPECT_EQ(CheckExtents("key", spec, {.heads = 6}).message(),
            "key: 4 heads, expected 6");
  EXPECT_EQ(CheckExtents("key", spec, {.dim = 6}).message(),
            "key: 5 channels per head, expected 6");
}

TEST(Inference, ShapesAreTheSameAxisForAxis) {
  acl::Tensor a;
  a.rank = 2;
  a.dims = {2, 3};
  acl::Tensor b = a;
  b.strides = {7, 7};
  EXPECT_TRUE(SameShape(a, b));
  b.dims = {3, 2};
  EXPECT_FALSE(SameShape(a, b));
  b.rank = 1;
  EXPECT_FALSE(SameShape(a, b));
}

}  // namespace
}  // namespace flashacl::ops
