// SPDX-License-Identifier: Apache-2.0
// Types that go together, attributes, and calls with nothing to compute of
// aclnnFusedInferAttentionScore.
#include <gtest/gtest.h>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

TEST(FusedInfer, SinksOfBothTypes) {
  for (const aclDataType sink : {ACL_BF16, ACL_FLOAT16}) {
    FusedInferCall({.version = 4, .sink = sink}).ExpectAsDocumented();
  }
  FusedInferCall({.version = 4, .type = ACL_BF16, .sink = ACL_BF16})
      .ExpectAsDocumented();
}

TEST(FusedInfer, EmptyResultsAreNothingToDo) {
  FusedInferCall call({.rows = 0});
  call.heads = -1;  // nothing else is looked at
  call.ExpectNothingToDo();
}

TEST(FusedInfer, KeysWithoutElementsMakeZeros) {
  FusedInferCase c{.columns = 0};
  FusedInferCall call(c);
  call.kv_heads = 1;  // nor with these
  call.ExpectAsDocumented();
}

TEST(FusedInfer, StartsAndPreciseHaveNoEffect) {
  FusedInferCall plain({.version = 5});
  EXPECT_TRUE(plain.Run());
  for (int64_t precise = 0; precise <= 4; ++precise) {
    FusedInferCall call({.version = 5, .inner_precise = precise});
    call.query_start = call.caller.Array({7});
    call.kv_start = call.caller.Array({-7, 9});
    EXPECT_TRUE(call.Run());
    EXPECT_EQ(call.out->ElementBytes(), plain.out->ElementBytes());
    EXPECT_EQ(call.lse->ElementBytes(), plain.lse->ElementBytes());
  }
}

}  // namespace
}  // namespace flashacl::testing
