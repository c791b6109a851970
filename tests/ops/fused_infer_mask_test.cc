// SPDX-License-Identifier: Apache-2.0
// Sparse modes, masks and trees of aclnnFusedInferAttentionScore.
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

TEST(FusedInfer, SparseModesByHand) {
  ExpectMeans(Moded(2, 3, 3), {1.5, 2});
  ExpectMeans(Moded(3, 2, 3), {0, 1, 1.5});
  ExpectMeans(Moded(3, 5, 2), {1, 1.5, 2});
  ExpectMeans(Moded(3, 5, 3), {2, 2.5, 3});
  ExpectMeans(Moded(3, 5, 0), {3, 3, 3});
  ExpectMeans(Moded(3, 5, 1), {3, 3, 3});
  FusedInferCase band = Moded(3, 5, 4);
  band.pre_tokens = band.next_tokens = 1;
  ExpectMeans(band, {3, 4, 4.5});
  band.sparse_mode = 0;
  band.mask = FusedMask::kFull;
  ExpectMeans(band, {1.5, 2, 3});
  band.sparse_mode = 1;  // does not look at tokens
  ExpectMeans(band, {3, 3, 3});
  band.pre_tokens = -1;
  band.next_tokens = 2;
  band.sparse_mode = 0;
  ExpectMeans(band, {2.5, 3.5, 4.5});
  band.mask = FusedMask::kNone;  // nor without a mask
  ExpectMeans(band, {3, 3, 3});
}

TEST(FusedInfer, RowsThatTheBandLeavesWithoutKeysAreZero) {
  FusedInferCase c = Moded(3, 4, 0);
  c.next_tokens = -2;
  FusedInferCall call(c);
  Count(call);
  call.mask->FillWith(0);
  ExpectByHand(call, {0, 0, 1}, {kInf, kInf, 0});
  c.sparse_mode = 4;  // measured from the bottom right
  c.mask = FusedMask::kSquare;
  ExpectMeans(c, {0, 1, 1.5});
}

TEST(FusedInfer, TokensBeyondInt32AreUnlimited) {
  FusedInferCase c = Moded(3, 5, 4);
  c.pre_tokens = int64_t{1} << 62;
  c.next_tokens = std::numeric_limits<int64_t>::max();
  ExpectMeans(c, {3, 3, 3});
  c.next_tokens = 0;
  c.pre_tokens = std::numeric_limits<int64_t>::max();
  ExpectMeans(c, {2, 2.5, 3});
}

TEST(FusedInfer, TreesHideAmongTheLastKeys) {
  FusedInferCase c = Moded(3, 5, 9);
  FusedInferCall call(c);
  Count(call);
  Put(call.mask, {0, 1, 1, 0, 0, 1, 0, 1, 0});
  ExpectByHand(call, {2, 2.5, 2.75});
}

// Squares of 1 and 2 rows, one after the other, their bytes together or not.
TEST(FusedInfer, TreesOfPackedSequences) {
  FusedInferCase c = Moded(0, 0, 9);
  c.layout = "TND";
  c.sequences = 3;
  c.lengths = {1, 0, 2};
  c.kv_lengths = {2, 0, 3};
  const Form apart{.type = ACL_BOOL, .dims = {5}, .strides = {3}, .offset = 2};
  for (const Form& form : {Form{ACL_BOOL, {5}}, apart}) {
    FusedInferCall call(c);
    Count(call);
    call.mask = call.caller.Input(form);
    Put(call.mask, {0, 0, 1, 0, 0});
    ExpectByHand(call, {1.5, 3.5, 4});
  }
}

TEST(FusedInfer, DecodeLooksAtTheMaskAndNotAtTheMode) {
  FusedInferCase c = Tiny(1, 8);
  c.mask = FusedMask::kFull;
  c.sparse_mode = 3;
  c.mask_rank = 2;
  c.pre_tokens = 0;
  c.next_tokens = 0;
  FusedInferCall call(c);
  Count(call);
  Put(call.mask, {0, 1, 1, 1, 1, 1, 1, 1});
  ExpectByHand(call, {1});
  for (const int64_t mode : {0, 1, 2, 4}) {
    call.sparse_mode = mode;
    ExpectByHand(call, {1});
  }
}

TEST(FusedInfer, CompressedMaskHidesNothingFromDecode) {
  for (const int64_t mode : {3, 4}) {
    for (const int64_t tokens : {int64_t{0}, kFar}) {
      for (const size_t rank : {2, 3, 4}) {
        FusedInferCase c = Moded(1, 4, mode);
        c.pre_tokens = c.next_tokens = tokens;
        c.mask_rank = rank;
        ExpectMeans(c, {2.5});
      }
    }
  }
}

// As many sequences as such a mask has rows: it is one of a row for each.
TEST(FusedInfer, MasksOfManyTokensAreNotCompressed) {
  FusedInferCase c{.sequences = 2048, .heads = 1, .kv_heads = 1, .rows = 1};
  c.columns = 2;
  c.mask = FusedMask::kFull;
  c.mask_rank = 2;
  c.more_columns = 2046;
  c.sparse_mode = 3;
  FusedInferCall call(c);
  EXPECT_EQ(call.mask->form().dims, (std::vector<int64_t>{2048, 2048}));
  call.ExpectAsDocumented();
}

// Not decode, so the mode counts.
TEST(FusedInfer, OneRowWithAnotherOutputHasAllRules) {
  FusedInferCase c = Moded(1, 4, 2);
  c.layout = "BNSD_BSND";
  ExpectMeans(c, {1});
  c.sparse_mode = 3;
  ExpectMeans(c, {2.5});
  FusedInferCase packed = Moded(1, 4, 3);
  packed.layout = "TND";
  packed.lengths = {1};
  packed.kv_lengths = {4};
  ExpectMeans(packed, {2.5});
}

}  // namespace
}  // namespace flashacl::testing
