// SPDX-License-Identifier: Apache-2.0
// INT8 in aclnnPromptFlashAttentionV2 and V3: inputs, results, and the scales
// without which they are refused.
#include "ops/inference_scales.h"

#include <gtest/gtest.h>

#include "tests/testing/arguments.h"
#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

using ops::FactorSpec;

constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561103;

TEST(FactorSpec, OnePerChannel) {
  const std::vector<int64_t> shapes[] = {{6},          {1, 6},       {6, 1},
                                         {2, 3},       {2, 1, 3},    {1, 2, 3},
                                         {1, 2, 1, 3}, {1, 1, 2, 3}, {1, 1, 6}};
  for (const auto& dims : shapes) {
    const auto spec = FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3});
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    EXPECT_EQ(spec->dims[0], 2);
    EXPECT_EQ(spec->dims[1], 3);
    EXPECT_EQ(spec->At(1, 2), 5);
    EXPECT_EQ(spec->At(1, 0), 3);
  }
}

TEST(FactorSpec, NumbersMayBeApart) {
  acl::Tensor tensor = Dense({6});
  tensor.strides[0] = 4;
  const auto spec = FactorSpec("scale", tensor, {.heads = 2, .dim = 3});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->At(1, 2), 5 * 4);
}

TEST(FactorSpec, OneForAllRepeats) {
  for (const auto& dims : {std::vector<int64_t>{1}, {1, 1}}) {
    const auto spec = FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3});
    ASSERT_TRUE(spec.ok());
    EXPECT_EQ(spec->At(1, 2), 0);
  }
}

TEST(FactorSpec, LeadingAxesAreTheCallers) {
  const auto spec = FactorSpec("scale", Dense({2, 2, 3}),
                               {.first_axis = 1, .heads = 2, .dim = 3});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->At(1, 2), 5);
}

TEST(FactorSpec, RefusesOtherNumbers) {
  for (const auto& dims :
       {std::vector<int64_t>{2}, {3}, {3, 2}, {5}, {2, 3, 2}, {12}}) {
    EXPECT_EQ(FactorSpec("scale", Dense(dims), {.heads = 2, .dim = 3})
                  .status()
                  .code(),
              Code::kContradiction);
  }
}

TEST(PromptScales, InputsOfEightBits) {
  for (const int version : {2, 3}) {
    for (const bool whole : {false, true}) {
      for (const int64_t out_scales : {0, 1}) {
        const PromptCase c{.dim = 32,
                           .v_dim = 32,
                           .version = version,
                           .int8 = true,
                           .whole_scales = whole,
                           .out_scales = out_scales,
                           .out_offset = out_scales > 0};
        SCOPED_TRACE(ToString(c));
        PromptCall(c).ExpectAsDocumented();
      }
    }
  }
}

// A tensor of one element is a number, whatever its axes.
TEST(PromptScales, NumbersMayHaveNoAxes) {
  PromptCall call({.dim = 32,
                   .v_dim = 32,
                   .version = 3,
                   .int8 = true,
                   .out_scales = 1,
                   .out_offset = true});
  for (auto member : {&PromptCall::deq_scale1, &PromptCall::quant_scale1,
                      &PromptCall::deq_scale2, &PromptCall::quant_scale2,
                      &PromptCall::quant_offset2}) {
    const double number = (call.*member)->Nth(0);
    call.*member = call.caller.Input({.type = ACL_FLOAT, .dims = {}});
    (call.*member)->SetNth(0, number);
  }
  call.ExpectAsDocumented();
}

// Two keys, scores 0 and -1: weights 1 and exp(-1) are 100 and 37.
TEST(PromptScales, WeightsAreRounded) {
  PromptCall call({.sequences = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .rows = 1,
                   .columns = 2,
                   .dim = 1,
                   .v_dim = 1,
                   .scale = 0.5,
                   .version = 3,
                   .int8 = true});
  call.query->SetNth(0, 1);
  call.key->SetNth(0, 0);
  call.key->SetNth(1, -8);
  call.value->SetNth(0, 10);
  call.value->SetNth(1, -20);
  call.deq_scale1->SetNth(0, 0.25);
  call.quant_scale1->SetNth(0, 100);
  call.deq_scale2->SetNth(0, 0.01);
  ASSERT_TRUE(call.Run());
  EXPECT_NEAR(call.out->Nth(0), (1000 - 37 * 20) * 0.01 / 1.367879, 1e-3);
}

TEST(PromptScales, ResultsOfEightBits) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const int64_t out_scales : {1, 4 * 32}) {
      for (const bool offset : {false, true}) {
        const PromptCase c{.type = type,
                           .v_dim = 32,
                           .lengths = {1, 3},
                           .version = 2,
                           .out_scales = out_scales,
                           .out_offset = offset};
        SCOPED_TRACE(ToString(c));
        PromptCall(c).ExpectAsDocumented();
      }
    }
  }
}

// 2.5 becomes 2, -200 becomes -128, 3.5 becomes 4.
TEST(PromptScales, ResultsAreRoundedHalfToEvenAndClamped) {
  PromptCall call({.sequences = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .rows = 1,
                   .columns = 1,
                   .v_dim = 32,
                   .version = 2,
                   .out_scales = 1,
                   .out_offset = true});
  call.quant_scale2->SetNth(0, 2);
  call.quant_offset2->SetNth(0, 0);
  call.value->SetNth(0, 1.25);
  call.value->SetNth(1, -100);
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.out->Nth(0), 2);
  EXPECT_EQ(call.out->Nth(1), -128);
  call.quant_offset2->SetNth(0, 3.5);
  call.value->SetNth(0, 0);
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.out->Nth(0), 4);
}

// Bytes of 0, not the 0 that the offset makes, are after a sequence's end and
// where there are no keys.
TEST(PromptScales, RowsOfNobodyAreBytesOfZero) {
  PromptCall call({.sequences = 2,
                   .lengths = {2, 3},
                   .version = 3,
                   .kv_lengths = {5, 0},
                   .out_scales = 1,
                   .out_offset = true});
  call.quant_offset2->SetNth(0, 100);
  call.ExpectAsDocumented();
  EXPECT_NE(call.out->Get({0, 0, 1, 0}), 0);
  EXPECT_EQ(call.out->Get({0, 0, 2, 0}), 0);
  EXPECT_EQ(call.out->Get({1, 0, 0, 0}), 0);
}

template <typename Spoil>
void ExpectRefusal(const PromptCase& c, Spoil spoil, const char* words,
                   aclnnStatus status = kContradiction) {
  SCOPED_TRACE(words);
  PromptCall call(c);
  spoil(call);
  call.ExpectFailure(status, words);
}

TEST(PromptScales, OfInputsAreChecked) {
  const auto spoil = [](DeviceTensor* PromptCall::*scale, aclDataType type,
                        std::vector<int64_t> dims) {
    return [=](PromptCall& call) {
      call.*scale = call.caller.Input({.type = type, .dims = dims});
    };
  };
  const PromptCase int8{.dim = 32, .v_dim = 32, .version = 3, .int8 = true};
  const auto absent = [](DeviceTensor* PromptCall::*scale) {
    return [scale](PromptCall& call) { call.*scale = nullptr; };
  };
  ExpectRefusal(int8, absent(&PromptCall::deq_scale1), "deqScale1: absent");
  ExpectRefusal(int8, absent(&PromptCall::quant_scale1), "quantScale1: absent");
  ExpectRefusal(int8, absent(&PromptCall::deq_scale2), "deqScale2: absent");
  ExpectRefusal(int8, spoil(&PromptCall::deq_scale1, ACL_FLOAT, {2}),
                "deqScale1: shape [2], expected one number");
  ExpectRefusal(int8, spoil(&PromptCall::deq_scale2, ACL_UINT64, {1}),
                "deqScale2: data type UINT64 does not match");
  ExpectRefusal(int8, spoil(&PromptCall::quant_scale1, ACL_BF16, {1}),
                "quantScale1: data type", kInvalid);
  PromptCase keyless = int8;
  keyless.columns = 0;
  ExpectRefusal(
      keyless, [](PromptCall&) {}, "key: shape [2, 2, 0, 32]");
  const PromptCase halves{.version = 2};
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1}, {}}) {
    ExpectRefusal(halves, spoil(&PromptCall::deq_scale1, ACL_FLOAT, dims),
                  "deqScale1: given, but query is not INT8");
  }
}

TEST(PromptScales, OfResultsAreChecked) {
  const auto spoil = [](DeviceTensor* PromptCall::*scale, aclDataType type,
                        std::vector<int64_t> dims) {
    return [=](PromptCall& call) {
      call.*scale = call.caller.Input({.type = type, .dims = dims});
    };
  };
  const PromptCase c{
      .v_dim = 32, .version = 2, .out_scales = 1, .out_offset = true};
  const auto no_scale = [](PromptCall& call) { call.quant_scale2 = nullptr; };
  ExpectRefusal(c, no_scale, "quantOffset2: given without quantScale2");
  ExpectRefusal({.version = 2, .out_scales = 1}, no_scale,
                "quantScale2: absent, but attentionOut is INT8");
  ExpectRefusal({.version = 2},
                spoil(&PromptCall::quant_scale2, ACL_FLOAT, {1}),
                "quantScale2: given, but attentionOut is not INT8");
  ExpectRefusal(c, spoil(&PromptCall::quant_offset2, ACL_FLOAT, {2}),
                "quantOffset2: FLOAT of shape [2]");
  ExpectRefusal(c, spoil(&PromptCall::quant_offset2, ACL_BF16, {1}),
                "quantOffset2: BFLOAT16");
  ExpectRefusal({.version = 2, .out_scales = 1},
                spoil(&PromptCall::quant_scale2, ACL_BF16, {1}),
                "quantScale2: data type BFLOAT16, but query is FLOAT16");
  ExpectRefusal({.version = 2, .out_scales = 1},
                spoil(&PromptCall::quant_scale2, ACL_FLOAT, {4}),
                "quantScale2: shape [4]");
  ExpectRefusal({.version = 2, .out_scales = 1},
                spoil(&PromptCall::quant_scale2, ACL_FLOAT, {4, 16}),
                "quantScale2: one number for each of 16 channels");
}

// An offset cannot be undone in rows that see no key.
TEST(PromptScales, OffsetsNeedKeysForAllRows) {
  const auto nothing = [](PromptCall&) {};
  PromptCase c{.rows = 7,
               .mask = PromptMask::kSquare,
               .version = 3,
               .sparse_mode = 3,
               .out_scales = 1};
  PromptCall(c).ExpectAsDocumented();
  c.out_offset = true;
  ExpectRefusal(c, nothing, "quantOffset2: given, but rows of sequence 0");
  c.sparse_mode = 4;
  c.pre_tokens = 1;
  ExpectRefusal(c, nothing, "quantOffset2: given, but rows of sequence 0");
  c.pre_tokens = 2;
  c.next_tokens = 2;
  PromptCall(c).ExpectAsDocumented();
  c.next_tokens = -1;
  ExpectRefusal(c, nothing, "preTokens: 2 and nextTokens -1");
  c = {.mask = PromptMask::k2,
       .next_tokens = -1,
       .version = 2,
       .out_scales = 1,
       .out_offset = true};
  ExpectRefusal(c, nothing, "quantOffset2: given, but rows of sequence 0");
  // A sequence without queries has no rows to leave.
  c.pre_tokens = -2;
  c.next_tokens = 5;
  c.lengths = {3, 0};
  c.kv_lengths = {5, 1};
  PromptCall(c).ExpectAsDocumented();
}

// 8 bits are taken 32 at a time.
TEST(PromptScales, ManySequencesOfAwkwardHeads) {
  PromptCase c{.sequences = 129,
               .heads = 1,
               .kv_heads = 1,
               .rows = 1,
               .columns = 1,
               .dim = 16,
               .version = 2,
               .out_scales = 1};
  ExpectRefusal(
      c, [](PromptCall&) {}, "query: 129 sequences");
  c.dim = c.v_dim = 32;
  PromptCall(c).ExpectAsDocumented();
}

}  // namespace
}  // namespace flashacl::testing
