// SPDX-License-Identifier: Apache-2.0
// Channels of rope beside those of aclnnFusedInferAttentionScore's queries and
// keys, and latent decode.
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

TEST(FusedInfer, RopeInEveryLayout) {
  for (const char* layout :
       {"BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD",
        "BSND_NBSD", "BNSD_NBSD", "TND", "NTD", "NTD_TND", "TND_NTD", "NSD"}) {
    for (const FusedKeys keys :
         {FusedKeys::kOne, FusedKeys::kPagesOfRows, FusedKeys::kPagesOfHeads,
          FusedKeys::kPagesOfChannels}) {
      FusedInferCase c{.version = 3,
                       .layout = layout,
                       .sequences = std::string(layout) == "NSD" ? 1 : 2,
                       .columns = 32,
                       .rope_dim = 64,
                       .lengths = {2, 1},
                       .kv_lengths = {20, 7},
                       .keys = keys,
                       .block_size = 16};
      c.lengths.resize(static_cast<size_t>(c.sequences));
      c.kv_lengths.resize(static_cast<size_t>(c.sequences));
      SCOPED_TRACE(ToString(c));
      FusedInferCall(c).ExpectAsDocumented();
    }
  }
}

TEST(FusedInfer, RopeBesideLists) {
  FusedInferCall({.version = 3,
                  .rope_dim = 16,
                  .keys = FusedKeys::kList,
                  .own_columns = {4, 7}})
      .ExpectAsDocumented();
}

TEST(FusedInfer, LatentDecode) {
  for (const char* layout : {"BSH", "BSND", "BNSD", "BSH_NBSD", "BSND_NBSD",
                             "BNSD_NBSD", "TND", "TND_NTD"}) {
    for (const int64_t rows : {1, 2}) {
      FusedInferCase c{.version = 3,
                       .type = ACL_BF16,
                       .layout = layout,
                       .heads = 8,
                       .kv_heads = 1,
                       .rows = rows,
                       .columns = 256,
                       .dim = 512,
                       .v_dim = 512,
                       .rope_dim = 64,
                       .scale = 0.0417,
                       .lengths = {rows, rows},
                       .kv_lengths = {200, 31},
                       .keys = FusedKeys::kPagesOfRows,
                       .block_size = 128};
      if (rows > 1) {
        c.mask = FusedMask::kSquare;
        c.sparse_mode = 3;
      }
      SCOPED_TRACE(ToString(c));
      FusedInferCall call(c);
      call.values = call.keys;  // the same data
      call.ExpectAsDocumented();
    }
  }
}

TEST(FusedInfer, MergedRopeHasMoreChannelsThanValues) {
  FusedInferCall({.type = ACL_BF16, .columns = 40, .dim = 192, .v_dim = 128})
      .ExpectAsDocumented();
}

}  // namespace
}  // namespace flashacl::testing
