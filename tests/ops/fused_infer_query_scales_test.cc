// SPDX-License-Identifier: Apache-2.0
// INT8 queries of latent decode in aclnnFusedInferAttentionScore.
#include <gtest/gtest.h>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

// Query 2 of scale 0.5 against keys 1 and 3 of scale 2: 2 and 6, and 4 more of
// the rope of the first; equal, so values 1 and 2 of scale 10 have a mean.
TEST(FusedInfer, QueriesOfBytesByHand) {
  FusedInferCase c = Tiny(1, 2);
  c.type = ACL_BF16;
  c.rope_dim = 1;
  c.latent = true;
  FusedInferCall call(c);
  Put(call.query, {2});
  Put(call.query_scale, {0.5});
  Put(call.keys[0], {1, 3});
  Put(call.key_scale, {2});
  Put(call.query_rope, {4});
  Put(call.key_rope, {1, 0});
  Put(call.values[0], {1, 2});
  Put(call.value_scale, {10});
  ExpectByHand(call, {15}, {6.693147});
}

TEST(FusedInfer, LatentDecodeOfBytes) {
  for (const char* layout :
       {"BSH", "BSND", "BNSD", "TND", "BSND_NBSD", "TND_NTD"}) {
    for (const int64_t rows : {1, 3}) {
      FusedInferCase c{.version = 4,
                       .type = ACL_BF16,
                       .layout = layout,
                       .heads = 4,
                       .kv_heads = 1,
                       .rows = rows,
                       .columns = 256,
                       .dim = 512,
                       .v_dim = 512,
                       .rope_dim = 64,
                       .scale = 0.0417,
                       .lengths = {rows, rows},
                       .kv_lengths = {130, 31},
                       .keys = FusedKeys::kPagesOfChannels,
                       .block_size = 128,
                       .latent = true};
      if (rows > 1) {
        c.mask = FusedMask::kSquare;
        c.sparse_mode = 3;
      }
      SCOPED_TRACE(ToString(c));
      FusedInferCall(c).ExpectAsDocumented();
    }
  }
}

}  // namespace
}  // namespace flashacl::testing
