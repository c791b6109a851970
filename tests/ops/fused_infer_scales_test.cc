// SPDX-License-Identifier: Apache-2.0
// Scales of aclnnFusedInferAttentionScore: keys of 8 and 4 bits, results and
// inputs of 8.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

TEST(FusedInfer, ScalesOfTokensByHand) {
  FusedInferCase c = Tiny(1, 2);
  c.scales = FusedScales::kSeparate;
  c.key_mode = c.value_mode = 1;
  c.offsets = true;
  FusedInferCall call(c);
  call.query->FillWith(0);
  Put(call.values[0], {1, 2});
  Put(call.value_scale, {1, 2});
  Put(call.value_offset, {2, 2});
  ExpectByHand(call, {5.5});
}

// Of keys 1 and 2 of four: scales are of the tensor's rows.
TEST(FusedInfer, LeftPaddingMovesNoScalesOfTokens) {
  for (const int64_t mode : {1, 3}) {
    FusedInferCase c = Tiny(1, 4);
    c.kv_lengths = {2};
    c.kv_padding = 1;
    c.scales = FusedScales::kSeparate;
    c.key_mode = c.value_mode = mode;
    FusedInferCall call(c);
    call.query->FillWith(0);
    Put(call.values[0], {9, 1, 2, 9});
    call.value_scale->SetNth(1, 1);
    call.value_scale->SetNth(2, 10);
    ExpectByHand(call, {10.5});
  }
}

// The first number is in the lowest bits.
TEST(FusedInfer, FourBitNumbersByHand) {
  FusedInferCase c = Tiny(1, 1);
  c.dim = c.v_dim = 8;
  c.scales = FusedScales::kSeparate;
  c.bits = 4;
  c.scale_form = 6;
  FusedInferCall call(c);
  call.query->FillWith(0);
  call.value_scale->FillWith(0.5);
  Put(call.values[0], {0x00000008});
  ExpectByHand(call, {-4, 0, 0, 0, 0, 0, 0, 0});
  Put(call.values[0], {0x76543210});
  ExpectByHand(call, {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5});
  Put(call.values[0], {static_cast<double>(static_cast<int32_t>(0xFEDCBA98))});
  ExpectByHand(call, {-4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5});
  Put(call.values[0], {0x11111111});
  ExpectByHand(call, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
}

FusedInferCase FourBits(FusedKeys keys, int64_t mode) {
  // In pages of channels 64 of them are a block: two, then.
  const int64_t dim = keys == FusedKeys::kPagesOfChannels ? 128 : 64;
  return {.version = 2,
          .columns = 32,
          .dim = dim,
          .v_dim = dim,
          .kv_lengths = {9, 12},
          .keys = keys,
          .own_columns = {9, 13},
          .block_size = 16,
          .scales = FusedScales::kSeparate,
          .bits = 4,
          .key_mode = mode,
          .value_mode = mode,
          .scale_form = 5,
          .offsets = true};
}

constexpr FusedKeys kEveryCache[] = {
    FusedKeys::kOne, FusedKeys::kList, FusedKeys::kPagesOfRows,
    FusedKeys::kPagesOfHeads, FusedKeys::kPagesOfChannels};

// As words, and as what they are; the caller's descriptors stay as they were.
TEST(FusedInfer, FourBitNumbersMayHaveTheirType) {
  for (const FusedKeys keys : kEveryCache) {
    for (const int64_t rows : {1, 3}) {
      FusedInferCase c = FourBits(keys, 0);
      c.rows = rows;
      c.spread = keys != FusedKeys::kPagesOfChannels && rows > 1;
      if (keys != FusedKeys::kList) c.own_columns = {};
      SCOPED_TRACE(ToString(c));
      FusedInferCall words(c);
      words.ExpectAsDocumented();
      c.int4 = true;
      FusedInferCall numbers(c);
      numbers.ExpectAsDocumented();
      EXPECT_EQ(numbers.out->ElementBytes(), words.out->ElementBytes());
      aclDataType type;
      EXPECT_EQ(aclGetDataType(words.keys[0]->handle(), &type), 0);
      EXPECT_EQ(type, ACL_INT32);
    }
  }
}

TEST(FusedInfer, EveryModeOfFourBitNumbers) {
  for (const FusedKeys keys : kEveryCache) {
    for (const int64_t mode : {0, 1, 3}) {
      for (const int64_t rows : {1, 3}) {
        FusedInferCase c = FourBits(keys, mode);
        c.rows = rows;
        if (keys != FusedKeys::kList) c.own_columns = {};
        SCOPED_TRACE(ToString(c));
        FusedInferCall(c).ExpectAsDocumented();
        c.value_mode = mode == 0 ? 1 : mode;  // a channel's beside a key's
        FusedInferCall(c).ExpectAsDocumented();
        if (mode == 3) continue;
        c.scales = FusedScales::kCombined;
        c.value_mode = 0;
        FusedInferCall(c).ExpectAsDocumented();
      }
    }
  }
}

TEST(FusedInfer, FourBitNumbersHaveAPrefix) {
  for (const int64_t rows : {1, 3}) {
    FusedInferCase c = FourBits(FusedKeys::kOne, 0);
    c.own_columns = {};
    c.rows = rows;
    c.prefix = 5;
    SCOPED_TRACE(ToString(c));
    FusedInferCall(c).ExpectAsDocumented();
    c.spread = true;
    FusedInferCall(c).ExpectAsDocumented();
  }
}

TEST(FusedInfer, BytesAreRoundedToEvenAndClamped) {
  FusedInferCase c = Tiny(1, 1);
  c.v_dim = c.dim = 4;
  c.out_scales = 1;
  FusedInferCall call(c);
  call.quant_scale2->SetNth(0, 2);
  Put(call.values[0], {1.25, -100, 100, 1.75});
  ExpectByHand(call, {2, -128, 127, 4});
}

// A number per channel, in any order in memory.
TEST(FusedInfer, ScalesOfResultsMayLieApart) {
  FusedInferCall call({.out_scales = 2, .out_offset = true});
  const Form apart = Spread({ACL_FLOAT, {4, 16}}, {0, 1});
  Random random(1);
  call.quant_scale2 = call.caller.Input(apart);
  call.quant_scale2->Fill(random, 20, 90);
  call.quant_offset2 = call.caller.Input(apart);
  call.quant_offset2->Fill(random, -9, 9);
  call.ExpectAsDocumented();
}

// Of decode without keys, what the offset makes of 0; of prefill, 0; of what a
// mask hides, the former.
TEST(FusedInfer, BytesOfRowsWithoutKeys) {
  FusedInferCase c = Tiny(1, 2);
  c.out_scales = 1;
  c.out_offset = true;
  c.kv_lengths = {0};
  FusedInferCall decode(c);
  decode.quant_offset2->SetNth(0, 3.5);
  ExpectByHand(decode, {4}, {kInf});
  c.rows = 2;
  FusedInferCall prefill(c);
  prefill.quant_offset2->SetNth(0, 3.5);
  ExpectByHand(prefill, {0, 0}, {kInf, kInf});
  c.kv_lengths = {};
  c.lengths = {1};
  c.mask = FusedMask::kFull;
  FusedInferCall hidden(c);
  hidden.mask->FillWith(1);
  hidden.quant_offset2->SetNth(0, 3.5);
  ExpectByHand(hidden, {4, 0}, {kInf, kInf});
}

TEST(FusedInfer, EveryModeOfScales) {
  for (const bool paged : {false, true}) {
    for (int64_t mode = 0; mode < (paged ? 6 : 4); ++mode) {
      for (int64_t form = 0; form < (mode == 0   ? 7
                                     : mode == 1 ? 2
                                                 : 1);
           ++form) {
        FusedInferCase c{
            .version = 2,
            .columns = 64,
            .kv_lengths = {40, 3},
            .keys = paged ? FusedKeys::kPagesOfRows : FusedKeys::kOne,
            .block_size = 32,
            .scales = FusedScales::kSeparate,
            .key_mode = mode,
            .value_mode = mode,
            .scale_form = form,
            .offsets = true};
        SCOPED_TRACE(ToString(c));
        FusedInferCall(c).ExpectAsDocumented();
      }
    }
  }
}

TEST(FusedInfer, EveryShapeOfCombinedScales) {
  for (const bool paged : {false, true}) {
    for (int64_t form = 0; form < 6; ++form) {
      FusedInferCase c{
          .version = 1,
          .columns = 64,
          .kv_lengths = {40, 3},
          .keys = paged ? FusedKeys::kPagesOfRows : FusedKeys::kOne,
          .block_size = 32,
          .scales = FusedScales::kCombined,
          .key_mode = form == 5 ? 1 : 0,
          .scale_form = form,
          .offsets = true};
      SCOPED_TRACE(ToString(c));
      FusedInferCall(c).ExpectAsDocumented();
    }
  }
}

TEST(FusedInfer, SeparateScalesComeBeforeCombinedOnes) {
  FusedInferCase c{.version = 2, .scales = FusedScales::kSeparate};
  FusedInferCall call(c);
  call.antiquant_scale = call.caller.Input({.dims = {7}});  // not looked at
  call.antiquant_offset = call.caller.Input({.dims = {3, 2}});
  call.antiquant_mode = 99;
  call.ExpectAsDocumented();
}

// As vLLM calls it for decode and for a few tokens of speculation.
TEST(FusedInfer, BytesInPagesOfChannels) {
  for (const char* layout : {"BSH", "BSND", "BNSD", "TND"}) {
    for (const int64_t rows : {1, 4}) {
      FusedInferCase c{.version = 2,
                       .type = ACL_BF16,
                       .layout = layout,
                       .rows = rows,
                       .columns = 256,
                       .dim = 128,
                       .v_dim = 128,
                       .scale = 0.0884,
                       .lengths = {rows, rows},
                       .kv_lengths = {130, 40},
                       .keys = FusedKeys::kPagesOfChannels,
                       .block_size = 128,
                       .scales = FusedScales::kSeparate,
                       .scale_form = 5};
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
