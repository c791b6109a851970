// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore and its later versions take: one test per
// statement of their document, with answers worked out by hand. What is
// quantised is in fused_infer_attention_score_scales_test.cc, rope in
// fused_infer_attention_score_rope_test.cc.
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

void PutExample(FusedInferCall& call) {
  Put(call.query, {1, 0});
  Put(call.keys[0], {1, 0, 0, 1, 1, 1});
  Put(call.values[0], {1, 0, 0, 1, 2, 2});
}

FusedInferCase Example() {
  FusedInferCase c = Tiny(1, 3);
  c.dim = c.v_dim = 2;
  return c;
}

TEST(FusedInfer, SoftmaxByHand) {
  FusedInferCall call(Example());
  PutExample(call);
  ExpectByHand(call, {1.26696, 1.0}, {1.861995});
  FusedInferCase c = Example();
  c.kv_lengths = {2};
  FusedInferCall shorter(c);
  PutExample(shorter);
  ExpectByHand(shorter, {.731059, .268941}, {1.313262});
  c.sink = ACL_FLOAT16;
  FusedInferCall sink(c);
  PutExample(sink);
  sink.sink->SetNth(0, 0.5);
  ExpectByHand(sink, {.506480, .186324}, {1.680270});
  c.kv_lengths = {0};
  FusedInferCall nothing(c);
  PutExample(nothing);
  nothing.sink->SetNth(0, 0.5);
  ExpectByHand(nothing, {0, 0}, {kInf});
}

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

// Squares of 1 and 2 rows, one after the other.
TEST(FusedInfer, TreesOfPackedSequences) {
  FusedInferCase c = Moded(0, 0, 9);
  c.layout = "TND";
  c.sequences = 3;
  c.lengths = {1, 0, 2};
  c.kv_lengths = {2, 0, 3};
  FusedInferCall call(c);
  Count(call);
  Put(call.mask, {0, 0, 1, 0, 0});
  ExpectByHand(call, {1.5, 3.5, 4});
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

TEST(FusedInfer, DecodeIgnoresLengthsAndPaddingOfQueries) {
  FusedInferCase c = Tiny(1, 4);
  c.lengths = {0};
  c.query_padding = 3;
  ExpectMeans(c, {2.5});
  c.layout = "BNSD_BSND";  // is not decode
  c.query_padding.reset();
  ExpectMeans(c, {0});
}

TEST(FusedInfer, CompressedMaskHidesNothingFromDecode) {
  for (const int64_t mode : {3, 4}) {
    for (const int64_t tokens : {int64_t{0}, kFar}) {
      FusedInferCase c = Moded(1, 4, mode);
      c.pre_tokens = c.next_tokens = tokens;
      ExpectMeans(c, {2.5});
    }
  }
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

TEST(FusedInfer, LeftPaddingByHand) {
  const auto one = [](int64_t padding) {
    FusedInferCase c = Tiny(1, 8);
    c.kv_lengths = {3};
    c.kv_padding = padding;
    return c;
  };
  ExpectMeans(one(1), {6});
  ExpectMeans(one(-2), {7});
  FusedInferCall none(one(6));
  Count(none);
  ExpectByHand(none, {0}, {kInf});
  FusedInferCase rows = Tiny(4, 2);
  rows.lengths = {2};
  rows.query_padding = 1;
  FusedInferCall call(rows);
  Count(call);
  ExpectByHand(call, {0, 1.5, 1.5, 0},
               {kInf, std::log(2.0), std::log(2.0), kInf});
  FusedInferCase causal = rows;
  causal.mask = FusedMask::kSquare;
  causal.sparse_mode = 2;  // counts from the sequence's first row
  ExpectMeans(causal, {0, 1, 1.5, 0});
}

TEST(FusedInfer, LeftPaddingWithoutLengthsIsNone) {
  FusedInferCase c = Tiny(2, 4);
  c.query_padding = 1;
  c.kv_padding = 2;
  ExpectMeans(c, {2.5, 2.5});
}

TEST(FusedInfer, DecodeIgnoresPaddingOfPagesAndLists) {
  FusedInferCase paged = Tiny(1, 16);
  paged.keys = FusedKeys::kPagesOfRows;
  paged.block_size = 16;
  paged.kv_lengths = {3};
  paged.kv_padding = 2;
  FusedInferCall(paged).ExpectAsDocumented();
  FusedInferCase list = Tiny(1, 0);
  list.sequences = 2;
  list.keys = FusedKeys::kList;
  list.own_columns = {4, 3};
  list.kv_lengths = {2, 2};
  list.kv_padding = 1;
  FusedInferCall(list).ExpectAsDocumented();
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

TEST(FusedInfer, OneSequenceInThreeDimensions) {
  FusedInferCase c{.layout = "NSD", .sequences = 1};
  FusedInferCall call(c);
  EXPECT_EQ(call.lse->form().dims, (std::vector<int64_t>{1, 4, 3, 1}));
  call.ExpectAsDocumented();
}

TEST(FusedInfer, SurplusRowsOfPackedTensorsAreZero) {
  FusedInferCase c = Tiny(0, 0);
  c.layout = "TND";
  c.sequences = 2;
  c.lengths = {1, 1};
  c.kv_lengths = {1, 1};
  c.surplus_rows = 2;
  FusedInferCall call(c);
  Count(call);
  ExpectByHand(call, {1, 2, 0, 0}, {0, 0, kInf, kInf});
}

TEST(FusedInfer, SequencesWithoutRowsOrKeys) {
  FusedInferCase c = Tiny(0, 0);
  c.layout = "TND";
  c.sequences = 4;
  c.lengths = {1, 0, 1, 1};
  c.kv_lengths = {1, 1, 0, 2};
  FusedInferCall call(c);
  Count(call);
  ExpectByHand(call, {1, 0, 3.5}, {0, kInf, std::log(2.0)});
}

FusedInferCase Lengths(std::vector<int64_t> of_rows,
                       std::vector<int64_t> of_keys) {
  FusedInferCase c = Tiny(2, 4);
  c.sequences = 2;
  c.lengths = std::move(of_rows);
  c.kv_lengths = std::move(of_keys);
  return c;
}

TEST(FusedInfer, LengthsOfRowsAndKeys) {
  ExpectMeans(Lengths({}, {}), {2.5, 2.5, 6.5, 6.5});
  ExpectMeans(Lengths({1}, {2}), {1.5, 0, 5.5, 0});
  ExpectMeans(Lengths({1, 2}, {0, 3}), {0, 0, 6, 6});
  ExpectMeans(Lengths({1, 2, 99, -5}, {1, 3, 99}), {1, 0, 6, 6});
}

TEST(FusedInfer, SinksOfBothTypes) {
  for (const aclDataType sink : {ACL_BF16, ACL_FLOAT16}) {
    FusedInferCall({.version = 4, .sink = sink}).ExpectAsDocumented();
  }
  FusedInferCall({.version = 4, .type = ACL_BF16, .sink = ACL_BF16})
      .ExpectAsDocumented();
}

TEST(FusedInfer, WithoutTheFlagTheLogSumIsNotLookedAt) {
  for (const int kind : {0, 1, 2, 3}) {
    FusedInferCall call({.lse = false});
    if (kind == 1) call.lse = nullptr;
    if (kind == 2) call.caller.Replace(call.lse, {ACL_FLOAT, {0}});
    if (kind == 3) call.caller.Replace(call.lse, {ACL_INT8, {3}});
    EXPECT_TRUE(call.Run());
  }
}

TEST(FusedInfer, EmptyOptionalTensorsAreAbsent) {
  FusedInferCall call({.version = 5});
  const auto empty = [&](DeviceTensor*& tensor, aclDataType type) {
    tensor = call.caller.Input({.type = type, .dims = {0}});
  };
  empty(call.pse, ACL_FLOAT16);
  empty(call.mask, ACL_BOOL);
  empty(call.quant_scale2, ACL_FLOAT);
  empty(call.antiquant_scale, ACL_FLOAT16);
  empty(call.block_table, ACL_INT32);
  empty(call.key_scale, ACL_FLOAT);
  empty(call.key_prefix, ACL_FLOAT16);
  empty(call.value_prefix, ACL_FLOAT16);
  empty(call.query_rope, ACL_FLOAT16);
  empty(call.key_rope, ACL_FLOAT16);
  empty(call.key_rope_scale, ACL_FLOAT16);
  empty(call.sink, ACL_BF16);
  empty(call.kv_padding, ACL_INT64);
  call.block_size = 128;  // without a table
  EXPECT_TRUE(call.Run());
  FusedInferCall without({.version = 5});
  EXPECT_TRUE(without.Run());
  EXPECT_EQ(call.out->ElementBytes(), without.out->ElementBytes());
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

// What lse is for: attention to parts of the keys merges to that of all.
TEST(FusedInfer, LogSumsMergeParts) {
  FusedInferCall all(Tiny(1, 5));
  ASSERT_TRUE(all.Run());
  double sum = 0;
  double out = 0;
  for (const bool first : {true, false}) {
    FusedInferCase c = Tiny(1, 5);
    c.kv_lengths = {first ? 2 : 3};
    if (first) c.kv_padding = 3;  // keys 0 and 1, then 2 to 4
    if (!first) c.kv_padding = 0;
    FusedInferCall part(c);
    Put(part.query, all.query->Values());
    Put(part.keys[0], all.keys[0]->Values());
    Put(part.values[0], all.values[0]->Values());
    ASSERT_TRUE(part.Run());
    const double weight = std::exp(part.lse->Nth(0) - all.lse->Nth(0));
    sum += weight;
    out += weight * part.out->Nth(0);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(out, all.out->Nth(0), 0x1p-9 * 2);
}

}  // namespace
}  // namespace flashacl::testing
