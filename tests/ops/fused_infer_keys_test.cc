// SPDX-License-Identifier: Apache-2.0
// Keys of aclnnFusedInferAttentionScore in tensors and pages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

TEST(FusedInfer, PrefixByHand) {
  FusedInferCase c = Moded(2, 2, 3);
  c.prefix = 2;
  FusedInferCall call(c);
  Count(call);
  call.key_prefix->FillWith(0);
  Put(call.value_prefix, {10, 20});
  ExpectByHand(call, {31.0 / 3, 33.0 / 4});
  c.prefix_length = 1;
  FusedInferCall shorter(c);
  Count(shorter);
  shorter.key_prefix->FillWith(0);
  Put(shorter.value_prefix, {10, 20});
  ExpectByHand(shorter, {5.5, 13.0 / 3});
  c.kv_lengths = {0};  // the prefix is seen
  c.sparse_mode = 0;
  c.mask = FusedMask::kNone;
  FusedInferCall alone(c);
  Count(alone);
  alone.key_prefix->FillWith(0);
  Put(alone.value_prefix, {10, 20});
  ExpectByHand(alone, {10, 10}, {0, 0});
}

// Key 17 of pages {1, 0} is row 1 of page 0, and its channel 17 is number 1 of
// the second sixteen.
TEST(FusedInfer, PagesOfChannelsByHand) {
  FusedInferCase c = Tiny(1, 32);
  c.dim = c.v_dim = 32;
  c.keys = FusedKeys::kPagesOfChannels;
  c.block_size = 16;
  c.kv_lengths = {18};
  FusedInferCall call(c);
  Put(call.block_table, {1, 0});
  for (DeviceTensor* tensor : {call.query, call.keys[0], call.values[0]}) {
    tensor->FillWith(0);
  }
  call.values[0]->Set({0, 0, 1, 1, 1}, 36);
  ASSERT_TRUE(call.Run());
  for (int64_t d = 0; d < 32; ++d) {
    EXPECT_EQ(call.out->Nth(d), d == 17 ? 2 : 0) << d;
  }
}

TEST(FusedInfer, PackedRowsOverPages) {
  for (const FusedKeys keys :
       {FusedKeys::kPagesOfRows, FusedKeys::kPagesOfHeads,
        FusedKeys::kPagesOfChannels}) {
    for (const char* layout : {"TND", "NTD", "NTD_TND", "TND_NTD"}) {
      FusedInferCase c{.layout = layout,
                       .sequences = 3,
                       .columns = 48,
                       .lengths = {1, 1, 1},
                       .kv_lengths = {20, 33, 1},
                       .keys = keys,
                       .block_size = 16,
                       .mask = FusedMask::kSquare,
                       .sparse_mode = 3};
      SCOPED_TRACE(ToString(c));
      FusedInferCall(c).ExpectAsDocumented();
    }
  }
}

TEST(FusedInfer, EveryLayoutTakesEveryCache) {
  for (const char* layout :
       {"BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD",
        "BSND_NBSD", "BNSD_NBSD", "TND", "NTD", "NTD_TND", "TND_NTD"}) {
    for (const FusedKeys keys :
         {FusedKeys::kOne, FusedKeys::kPagesOfRows, FusedKeys::kPagesOfHeads,
          FusedKeys::kPagesOfChannels}) {
      for (const int64_t rows : {1, 3}) {
        FusedInferCase c{.layout = layout,
                         .rows = rows,
                         .columns = 32,
                         .lengths = {rows, 1},
                         .kv_lengths = {20, 32},
                         .keys = keys,
                         .block_size = 16,
                         .mask = FusedMask::kSquare,
                         .sparse_mode = 3};
        SCOPED_TRACE(ToString(c));
        FusedInferCall(c).ExpectAsDocumented();
      }
    }
  }
}

}  // namespace
}  // namespace flashacl::testing
