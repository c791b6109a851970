// SPDX-License-Identifier: Apache-2.0
// What aclnnIncreFlashAttentionV4 takes: one test per statement of its
// document; and which earlier version takes what.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/decode_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561002;

void ExpectAsDocumented(const DecodeCase& c) {
  SCOPED_TRACE(ToString(c));
  DecodeCall(c).ExpectAsDocumented();
}

void ExpectZeros(const DeviceTensor& tensor, int64_t first, int64_t last) {
  for (int64_t n = first; n < last; ++n) EXPECT_EQ(tensor.Nth(n), 0) << n;
}

TEST(IncreFlashAttention, EveryLayoutAndType) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const char* layout : {"BSH", "BSND", "BNSD"}) {
      for (const bool spread : {false, true}) {
        ExpectAsDocumented({.type = type, .layout = layout, .spread = spread});
      }
    }
  }
}

TEST(IncreFlashAttention, LengthsLimitKeys) {
  ExpectAsDocumented({.lengths = {3, 7}});
  ExpectAsDocumented({.lengths = {0, 7}});
  ExpectAsDocumented({.lengths = {4}});          // everybody's
  ExpectAsDocumented({.lengths = {1, 2, 999}});  // surplus
  DecodeCall none;
  none.lengths = none.caller.Array({});
  none.ExpectAsDocumented();
}

TEST(IncreFlashAttention, SequencesWithoutKeysAreZero) {
  DecodeCall call({.lengths = {0, 5}});
  call.ExpectAsDocumented();
  ExpectZeros(*call.out, 0, 64);
  for (const char* layout : {"BSH", "BSND", "BNSD"}) {
    DecodeCall empty({.layout = layout, .columns = 0});
    empty.ExpectAsDocumented();
    ExpectZeros(*empty.out, 0, 128);
  }
}

TEST(IncreFlashAttention, EveryMaskShapeAndType) {
  for (const aclDataType type : {ACL_BOOL, ACL_INT8, ACL_UINT8}) {
    for (const size_t rank : {2, 3, 4}) {
      ExpectAsDocumented(
          {.mask_rank = rank, .mask_type = type, .more_columns = 9});
    }
  }
}

// A mask need not be wider than the longest sequence.
TEST(IncreFlashAttention, NarrowMaskForShortSequences) {
  DecodeCall call({.lengths = {2, 4}});
  call.mask = call.caller.Input({.type = ACL_BOOL, .dims = {2, 4}});
  call.mask->Set({1, 2}, 1);
  call.ExpectAsDocumented();
}

TEST(IncreFlashAttention, HiddenSequencesAreZero) {
  DecodeCall call({.mask_rank = 2});
  call.mask->FillWith(1);
  call.ExpectAsDocumented();
  ExpectZeros(*call.out, 0, call.out->elements());
}

TEST(IncreFlashAttention, PseShiftIsAddedAfterScaling) {
  for (const int64_t sequences : {1, 2}) {
    ExpectAsDocumented({.pse_sequences = sequences, .more_columns = 3});
    ExpectAsDocumented({.type = ACL_BF16,
                        .lengths = {5, 2},
                        .mask_rank = 4,
                        .pse_sequences = sequences});
  }
}

TEST(IncreFlashAttention, ListsHaveATensorPerSequence) {
  for (const char* layout : {"BSH", "BSND", "BNSD"}) {
    ExpectAsDocumented({.layout = layout,
                        .keys = DecodeKeys::kList,
                        .sequences = 3,
                        .own_columns = {4, 0, 9},
                        .mask_rank = 2,
                        .pse_sequences = 1});
    ExpectAsDocumented({.layout = layout,
                        .keys = DecodeKeys::kList,
                        .sequences = 3,
                        .lengths = {1, 5, 0},
                        .own_columns = {4, 5, 9}});
  }
}

TEST(IncreFlashAttention, BlocksInEveryLayout) {
  for (const char* layout : {"BSH", "BSND", "BNSD"}) {
    ExpectAsDocumented({.layout = layout,
                        .keys = DecodeKeys::kBlocksOfRows,
                        .columns = 48,
                        .block_size = 16,
                        .lengths = {17, 48}});
  }
  ExpectAsDocumented({.keys = DecodeKeys::kBlocksOfHeads,
                      .columns = 48,
                      .block_size = 16,
                      .lengths = {0, 33},
                      .mask_rank = 3,
                      .pse_sequences = 2});
  ExpectAsDocumented({.keys = DecodeKeys::kBlocksOfHeads,
                      .columns = 512,
                      .block_size = 512,
                      .lengths = {512}});
}

// Pages may be shared, and rows after the valid ones hold anything.
TEST(IncreFlashAttention, SharedBlocksAndStaleRows) {
  DecodeCall call({.keys = DecodeKeys::kBlocksOfRows,
                   .columns = 32,
                   .block_size = 16,
                   .lengths = {20, 18}});
  for (const int64_t b : {0, 1}) {
    call.block_table->Set({b, 0}, 1);
    call.block_table->Set({b, 1}, 3);
  }
  for (DeviceTensor* tensor : {call.keys[0], call.values[0]}) {
    for (int64_t row = 4; row < 16; ++row) {
      tensor->Set({3, row, 0}, std::nan(""));
    }
  }
  call.ExpectAsDocumented();
}

// Ids that point nowhere are the caller's mistake and nobody's crash.
TEST(IncreFlashAttention, WildBlocksAreNotFollowed) {
  DecodeCall call({.keys = DecodeKeys::kBlocksOfRows,
                   .columns = 32,
                   .block_size = 16,
                   .lengths = {32, 32}});
  call.block_table->Set({0, 0}, -7);
  call.block_table->Set({1, 1}, 1 << 30);
  EXPECT_TRUE(call.Run());
}

TEST(IncreFlashAttention, SurplusOfATable) {
  DecodeCall call({.keys = DecodeKeys::kBlocksOfRows,
                   .columns = 32,
                   .block_size = 16,
                   .lengths = {20, 18}});
  DeviceTensor* wide = call.caller.Input({.type = ACL_INT32, .dims = {5, 7}});
  wide->FillWith(-1);
  for (const int64_t b : {0, 1}) {
    for (const int64_t page : {0, 1}) {
      wide->Set({b, page}, call.block_table->Get({b, page}));
    }
  }
  call.block_table = wide;
  call.ExpectAsDocumented();
}

TEST(IncreFlashAttention, WithoutTableBlockSizeIsIgnored) {
  for (const int64_t size : {-1, 0, 1, 999}) {
    DecodeCall call;
    call.block_size = size;
    call.block_table = call.caller.Input({.type = ACL_INT32, .dims = {0}});
    call.ExpectAsDocumented();
  }
}

TEST(IncreFlashAttention, LeftPaddingCountsFromTheEnd) {
  for (const int64_t padding : {-3, 0, 1, 2}) {
    ExpectAsDocumented({.columns = 8, .lengths = {3, 6}, .padding = padding});
    // Masks and biases have a column for each row of the cache.
    ExpectAsDocumented({.columns = 8,
                        .lengths = {3, 6},
                        .mask_rank = 2,
                        .pse_sequences = 2,
                        .padding = padding});
  }
}

// Where padding and length exceed the cache, that sequence alone is zero.
TEST(IncreFlashAttention, LeftPaddingThatUnderflowsIsZero) {
  DecodeCall call({.columns = 8, .lengths = {3, 6}, .padding = 4});
  call.ExpectAsDocumented();
  ExpectZeros(*call.out, 64, 128);
  EXPECT_NE(call.out->Nth(0), 0);
  ExpectAsDocumented({.columns = 8, .lengths = {3, 6}, .padding = 1 << 30});
}

TEST(IncreFlashAttention, LeftPaddingNeedsLengthsAndOneTensor) {
  ExpectAsDocumented({.padding = 2});
  ExpectAsDocumented({.keys = DecodeKeys::kList,
                      .lengths = {2, 3},
                      .own_columns = {4, 5},
                      .padding = 2});
  ExpectAsDocumented({.keys = DecodeKeys::kBlocksOfRows,
                      .columns = 32,
                      .block_size = 16,
                      .lengths = {9, 17},
                      .padding = 2});
}

TEST(IncreFlashAttention, EightBitKeysInEveryShapeOfScales) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const Scales scales : {Scales::kTensor, Scales::kN1D, Scales::k1ND,
                                Scales::kND, Scales::kH}) {
      for (const bool offset : {false, true}) {
        ExpectAsDocumented(
            {.type = type, .key_scales = scales, .key_offset = offset});
      }
    }
  }
  ExpectAsDocumented({.keys = DecodeKeys::kBlocksOfHeads,
                      .columns = 64,
                      .block_size = 32,
                      .lengths = {33, 64},
                      .key_scales = Scales::kND,
                      .key_offset = true});
  ExpectAsDocumented({.keys = DecodeKeys::kList,
                      .own_columns = {4, 5},
                      .key_scales = Scales::kH,
                      .key_offset = true});
  ExpectAsDocumented({.columns = 8,
                      .lengths = {3, 6},
                      .key_scales = Scales::kTensor,
                      .padding = 1});
}

// 0.5 * (7 + 2) is 4.5.
TEST(IncreFlashAttention, OffsetsAreAddedBeforeScaling) {
  DecodeCall call(
      {.columns = 1, .key_scales = Scales::kTensor, .key_offset = true});
  call.values[0]->FillWith(7);
  call.antiquant_scale->FillWith(0.5);
  call.antiquant_offset->FillWith(2);
  ASSERT_TRUE(call.Run());
  for (const double x : call.out->Values()) EXPECT_EQ(x, 4.5);
}

TEST(IncreFlashAttention, EightBitOutputInEveryShapeOfScales) {
  for (const Scales scales :
       {Scales::kTensor, Scales::kN1D, Scales::k1ND, Scales::kND, Scales::kH}) {
    for (const bool offset : {false, true}) {
      ExpectAsDocumented({.out_scales = scales, .out_offset = offset});
      ExpectAsDocumented({.type = ACL_BF16,
                          .layout = "BSH",
                          .out_scales = scales,
                          .out_offset = offset,
                          .out_scale_type = ACL_BF16});
    }
  }
}

// Shapes beyond those the cases know, all of one number per channel.
TEST(IncreFlashAttention, ScalesMayHaveAxesOfOneAnywhere) {
  const std::vector<int64_t> shapes[] = {
      {1, 64}, {1, 1, 64}, {4, 1, 16}, {1, 4, 1, 16}, {1, 1, 4, 16}, {64, 1}};
  for (const std::vector<int64_t>& dims : shapes) {
    DecodeCall call({.out_scales = Scales::kH});
    DeviceTensor* scale = call.caller.Input({.type = ACL_FLOAT, .dims = dims});
    for (int64_t n = 0; n < 64; ++n) {
      scale->SetNth(n, call.quant_scale2->Nth(n));
    }
    call.quant_scale2 = scale;
    call.ExpectAsDocumented();
  }
}

// 1.25 * 2 is 2.5, which is 2; -100 * 2 is -128; 0 + 3.5 is 4.
TEST(IncreFlashAttention, EightBitOutputRoundsToEvenAndSaturates) {
  DecodeCall call(
      {.sequences = 1, .columns = 1, .out_scales = Scales::kTensor});
  call.quant_scale2->FillWith(2);
  for (const auto& [value, expected] :
       {std::pair{1.25, 2.0}, std::pair{1.75, 4.0}, std::pair{-100.0, -128.0},
        std::pair{100.0, 127.0}}) {
    call.values[0]->FillWith(value);
    ASSERT_TRUE(call.Run());
    for (const double x : call.out->Values()) EXPECT_EQ(x, expected) << value;
  }
  DecodeCall nothing({.sequences = 1,
                      .lengths = {0},
                      .out_scales = Scales::kTensor,
                      .out_offset = true});
  nothing.quant_offset2->FillWith(3.5);
  ASSERT_TRUE(nothing.Run());
  for (const double x : nothing.out->Values()) EXPECT_EQ(x, 4);
}

TEST(IncreFlashAttention, InnerPreciseOfF16ChangesNothing) {
  DecodeCall precise({.inner_precise = 0});
  precise.ExpectAsDocumented();
  DecodeCall fast({.inner_precise = 1});
  fast.ExpectAsDocumented();
  EXPECT_EQ(precise.out->ElementBytes(), fast.out->ElementBytes());
}

TEST(IncreFlashAttention, EmptyOptionalTensorsAreAbsent) {
  DecodeCall call;
  for (auto member :
       {&DecodeCall::pse, &DecodeCall::mask, &DecodeCall::dequant_scale1,
        &DecodeCall::quant_scale1, &DecodeCall::dequant_scale2,
        &DecodeCall::quant_scale2, &DecodeCall::quant_offset2,
        &DecodeCall::antiquant_scale, &DecodeCall::antiquant_offset,
        &DecodeCall::block_table, &DecodeCall::padding}) {
    call.*member = call.caller.Input({.type = ACL_FLOAT, .dims = {0}});
  }
  ASSERT_TRUE(call.Run());
  call.pse = call.mask = nullptr;  // as Expected should see them
  ExpectNear(*call.out, call.Expected(), 4.0);
}

// A tensor of one element is a number, whatever its axes.
TEST(IncreFlashAttention, NumbersMayHaveNoAxes) {
  DecodeCall call({.columns = 8,
                   .lengths = {3, 6},
                   .out_scales = Scales::kTensor,
                   .out_offset = true,
                   .padding = 2});
  for (auto member : {&DecodeCall::quant_scale2, &DecodeCall::quant_offset2,
                      &DecodeCall::padding}) {
    const double number = (call.*member)->Nth(0);
    const aclDataType type =
        member == &DecodeCall::padding ? ACL_INT64 : ACL_FLOAT;
    call.*member = call.caller.Input({.type = type, .dims = {}});
    (call.*member)->SetNth(0, number);
  }
  call.ExpectAsDocumented();
}

TEST(IncreFlashAttention, LargestHeadsGroupsAndDims) {
  ExpectAsDocumented({.heads = 64, .kv_heads = 1, .dim = 512, .scale = 0.01});
  ExpectAsDocumented({.sequences = 1, .heads = 256, .kv_heads = 256});
}

TEST(IncreFlashAttention, ThreeKeysByHand) {
  DecodeCall call({.sequences = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .columns = 3,
                   .dim = 2,
                   .scale = 1,
                   .mask_rank = 2});
  const double query[] = {1, 0};
  const double key[] = {1, 0, 0, 1, 1, 1};
  const double value[] = {1, 0, 0, 1, 2, 2};
  for (int64_t n = 0; n < 6; ++n) {
    if (n < 2) call.query->SetNth(n, query[n]);
    call.keys[0]->SetNth(n, key[n]);
    call.values[0]->SetNth(n, value[n]);
  }
  call.mask->FillWith(0);
  ASSERT_TRUE(call.Run());
  EXPECT_NEAR(call.out->Nth(0), 1.26696, 1e-3);
  EXPECT_NEAR(call.out->Nth(1), 1.0, 1e-3);
  call.mask->SetNth(2, 1);
  ASSERT_TRUE(call.Run());
  EXPECT_NEAR(call.out->Nth(0), 0.73106, 1e-3);
  EXPECT_NEAR(call.out->Nth(1), 0.26894, 1e-3);
}

// The example program declares FLOAT16 and fills in the bytes of 32-bit ones,
// passes a mask of zeros, and a blockSize without a table.
TEST(IncreFlashAttention, ExampleProgram) {
  DecodeCall call({.sequences = 1,
                   .heads = 2,
                   .kv_heads = 2,
                   .columns = 16,
                   .block_size = 1,
                   .scale = 1 / std::sqrt(16),
                   .lengths = {16},
                   .mask_rank = 4,
                   .mask_type = ACL_INT8});
  call.mask->FillWith(0);
  call.kv_heads = 2;
  for (DeviceTensor* tensor : {call.query, call.keys[0], call.values[0]}) {
    for (int64_t n = 0; n < tensor->elements(); ++n) {
      tensor->SetNth(n, n % 2 == 0 ? 0.0 : 1.875);
    }
  }
  ASSERT_TRUE(call.Run());
  for (int64_t n = 0; n < call.out->elements(); ++n) {
    EXPECT_EQ(call.out->Nth(n), n % 2 == 0 ? 0.0 : 1.875) << n;
  }
}

TEST(IncreVersions, EveryLayoutTypeAndList) {
  for (const int version : {1, 2, 3}) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      for (const char* layout : {"BSH", "BSND", "BNSD"}) {
        DecodeCall({.type = type, .layout = layout, .version = version})
            .ExpectAsDocumented();
        DecodeCall({.type = type,
                    .layout = layout,
                    .keys = DecodeKeys::kList,
                    .lengths = {3, 0},
                    .own_columns = {4, 2},
                    .mask_rank = 2,
                    .version = version})
            .ExpectAsDocumented();
      }
    }
  }
}

TEST(IncreVersions, PseShiftCountsFromTheThirdOn) {
  for (const int version : {1, 2, 3, 4}) {
    DecodeCall call({.pse_sequences = 2, .version = version});
    call.ExpectAsDocumented();
    call.pse = call.caller.Input({.type = ACL_INT64, .dims = {7}});
    if (version <= 2) {
      EXPECT_TRUE(call.Run());
    } else {
      call.ExpectFailure(kInvalid, "pseShift: data type");
    }
  }
}

TEST(IncreVersions, EightBitOutputFromTheSecondOn) {
  for (const int version : {1, 2, 3}) {
    for (const Scales scales : {Scales::kTensor, Scales::kH}) {
      DecodeCall call(
          {.out_scales = scales, .out_offset = true, .version = version});
      if (version == 1) {
        call.ExpectFailure(kContradiction, "quantScale2: absent");
      } else {
        call.ExpectAsDocumented();
      }
    }
  }
}

TEST(IncreVersions, EightBitKeysAndPagesFromTheThirdOn) {
  for (const int version : {1, 2, 3}) {
    DecodeCall keys({.key_scales = Scales::kTensor, .version = version});
    DecodeCall pages({.keys = DecodeKeys::kBlocksOfRows,
                      .columns = 32,
                      .block_size = 16,
                      .lengths = {17, 32},
                      .version = version});
    if (version == 3) {
      keys.ExpectAsDocumented();
      pages.ExpectAsDocumented();
    } else {
      keys.ExpectFailure(kContradiction, "antiquantScale: absent");
      pages.ExpectFailure(kContradiction, "key: ");
    }
  }
}

TEST(IncreVersions, ScalesOfAllIntegersAreRefused) {
  for (const int version : {2, 3}) {
    DecodeCall call({.version = version});
    call.quant_scale1 = call.caller.Input({.type = ACL_FLOAT, .dims = {1}});
    call.ExpectFailure(kContradiction, "quantScale1: given");
  }
}

TEST(IncreVersions, PrecisionIsCheckedWhereThereIsOne) {
  DecodeCall call({.inner_precise = 2, .version = 3});
  call.ExpectFailure(kContradiction, "innerPrecise: 2");
  DecodeCall({.inner_precise = 2, .version = 2}).ExpectAsDocumented();
}

TEST(IncreVersions, RequiredArgumentsAreRequired) {
  for (const int version : {1, 2, 3}) {
    DecodeCall call({.version = version});
    call.query = nullptr;
    call.ExpectFailure(161001, "query");
    DecodeCall keyless({.version = version});
    keyless.null_keys = true;
    keyless.ExpectFailure(161001, "key");
    DecodeCall layoutless({.version = version});
    layoutless.layout = nullptr;
    layoutless.ExpectFailure(161001, "inputLayout");
  }
}

}  // namespace
}  // namespace flashacl::testing
