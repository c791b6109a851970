// SPDX-License-Identifier: Apache-2.0
// What aclnnPromptFlashAttention takes: one test per statement of its document.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kFar = 2147483647;

void ReplaceOut(PromptCall& call, Form form) {
  call.caller.Forget(call.out);
  call.out = call.caller.Output(std::move(form));
}

TEST(PromptFlashAttention, WithoutMaskTokensAreIgnored) {
  for (const int64_t tokens : {int64_t{0}, int64_t{-100}, kFar}) {
    PromptCall call({.pre_tokens = tokens, .next_tokens = tokens});
    call.ExpectAsDocumented();
  }
}

TEST(PromptFlashAttention, NegativeTokensShiftTheBand) {
  PromptCall right(
      {.mask = PromptMask::k2, .pre_tokens = -1, .next_tokens = 2});
  right.mask->FillWith(0);
  right.ExpectAsDocumented();
  PromptCall left(
      {.mask = PromptMask::k2, .pre_tokens = kFar, .next_tokens = -2});
  left.mask->FillWith(0);
  left.ExpectAsDocumented();
  EXPECT_EQ(left.out->Get({0, 0, 0, 0}), 0);  // rows 0 and 1 see nothing
  EXPECT_EQ(left.out->Get({0, 0, 1, 0}), 0);
  EXPECT_NE(left.out->Get({0, 0, 2, 0}), 0);
}

TEST(PromptFlashAttention, EveryMaskShapeAndType) {
  for (const aclDataType type : {ACL_BOOL, ACL_INT8, ACL_UINT8}) {
    for (const PromptMask mask :
         {PromptMask::k2, PromptMask::k13, PromptMask::kB3, PromptMask::k114,
          PromptMask::kB14}) {
      const PromptCase c{.mask = mask,
                         .mask_type = type,
                         .more_rows = 1,
                         .more_columns = 27,
                         .next_tokens = kFar};
      SCOPED_TRACE(ToString(c));
      PromptCall(c).ExpectAsDocumented();
    }
  }
}

TEST(PromptFlashAttention, AnythingButZeroHides) {
  PromptCall call(
      {.mask = PromptMask::k2, .mask_type = ACL_UINT8, .next_tokens = kFar});
  for (int64_t n = 0; n < call.mask->elements(); n += 2) {
    call.mask->SetNth(n, 128 + static_cast<double>(n));
  }
  call.ExpectAsDocumented();
}

TEST(PromptFlashAttention, RowsWithoutKeysAreZero) {
  PromptCall call({.mask = PromptMask::k2, .next_tokens = kFar});
  call.mask->FillWith(1);
  call.ExpectAsDocumented();
  for (const double x : call.out->Values()) EXPECT_EQ(x, 0);
}

TEST(PromptFlashAttention, EveryLayoutAndType) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const char* layout :
         {"BSH", "BSND", "BNSD", "BNSD_BSND", "NSD", "SH"}) {
      for (const bool spread : {false, true}) {
        PromptCase c{
            .type = type, .layout = layout, .v_dim = 24, .spread = spread};
        const std::string name = layout;
        if (name == "NSD" || name == "SH") c.sequences = 1;
        if (name == "SH") c.columns = c.rows;
        SCOPED_TRACE(ToString(c));
        PromptCall(c).ExpectAsDocumented();
      }
    }
  }
}

TEST(PromptFlashAttention, LayoutsGoByPrefix) {
  PromptCall call;
  char text[] = {'B', 'N', 'S', 'D', '\1', '\2'};  // no NUL
  call.layout = text;
  call.ExpectAsDocumented();
}

TEST(PromptFlashAttention, LengthsLimitQueriesNotKeys) {
  PromptCall call({.lengths = {1, 2}});
  call.ExpectAsDocumented();
  PromptCall broadcast({.lengths = {2}});
  broadcast.ExpectAsDocumented();
  PromptCall surplus({.lengths = {0, 3, 77}});
  surplus.ExpectAsDocumented();
  PromptCall none;
  none.lengths = none.caller.Array({});
  none.ExpectAsDocumented();
}

TEST(PromptFlashAttention, PackedSequencesKeepToThemselves) {
  PromptCall call({.layout = "SH",
                   .sequences = 3,
                   .rows = 7,
                   .columns = 7,
                   .lengths = {3, 0, 4}});
  call.ExpectAsDocumented();
}

TEST(PromptFlashAttention, PseShiftIsIgnored) {
  PromptCall call;
  call.pse = call.caller.Input({.type = ACL_FLOAT, .dims = {7}});
  call.ExpectAsDocumented();
}

TEST(PromptFlashAttention, EmptyOptionalTensorsAreAbsent) {
  PromptCall call;
  call.mask = call.caller.Input({.type = ACL_FLOAT, .dims = {0}});
  ASSERT_TRUE(call.Run());
  call.mask = nullptr;
  ExpectNear(*call.out, call.Expected(), 4.0);
}

TEST(PromptFlashAttention, EmptyKeysGiveZeros) {
  for (const char* layout : {"BSH", "BSND", "BNSD", "BNSD_BSND"}) {
    PromptCall call({.layout = layout, .columns = 0});
    call.ExpectAsDocumented();
    for (const double x : call.out->Values()) EXPECT_EQ(x, 0);
  }
}

// Nothing else is looked at, and there is nothing to run.
TEST(PromptFlashAttention, EmptyOutputNeedsNothing) {
  PromptCall call;
  ReplaceOut(call, {.type = ACL_FLOAT, .dims = {0, 4, 3, 16}});
  call.heads = -1;
  EXPECT_TRUE(call.Run());
  PromptCall batchless({.sequences = 0});
  EXPECT_TRUE(batchless.Run());
}

TEST(PromptFlashAttention, OneElementIsOneElement) {
  PromptCall call({.sequences = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .rows = 1,
                   .dim = 16,
                   .v_dim = 1});
  ReplaceOut(call, {.dims = {1}});
  call.ExpectAsDocumented();
}

TEST(PromptFlashAttention, LargestHeadsGroupsAndDims) {
  PromptCall({.sequences = 1,
              .heads = 64,
              .kv_heads = 1,
              .rows = 2,
              .dim = 512,
              .v_dim = 512,
              .scale = 0.01})
      .ExpectAsDocumented();
  PromptCall({.sequences = 1, .heads = 256, .kv_heads = 256, .rows = 1})
      .ExpectAsDocumented();
}

// Inputs may repeat one sequence for all.
TEST(PromptFlashAttention, StridesOfZeroRepeat) {
  PromptCall call;
  call.query =
      call.caller.Input({.dims = {2, 4, 3, 16}, .strides = {0, 48, 16, 1}});
  Random random(5);
  call.query->Fill(random, -2, 2);
  call.ExpectAsDocumented();
}

// Three keys, the worked example of the specification.
TEST(PromptFlashAttention, ThreeKeysByHand) {
  PromptCall call({.layout = "BSH",
                   .sequences = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .rows = 1,
                   .columns = 3,
                   .dim = 2,
                   .v_dim = 2,
                   .mask = PromptMask::k2,
                   .next_tokens = kFar,
                   .scale = 1});
  const double query[] = {1, 0};
  const double key[] = {1, 0, 0, 1, 1, 1};
  const double value[] = {1, 0, 0, 1, 2, 2};
  for (int64_t n = 0; n < 6; ++n) {
    if (n < 2) call.query->SetNth(n, query[n]);
    call.key->SetNth(n, key[n]);
    call.value->SetNth(n, value[n]);
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

// The example program declares FLOAT16 and fills in the bytes of 32-bit ones:
// every row of the answer is the halves 0 and 1.875 in turn.
TEST(PromptFlashAttention, ExampleProgram) {
  PromptCall call({.sequences = 1,
                   .heads = 2,
                   .kv_heads = 2,
                   .rows = 1,
                   .columns = 16,
                   .pre_tokens = 65535,
                   .next_tokens = 65535,
                   .scale = 1 / std::sqrt(16)});
  for (DeviceTensor* tensor : {call.query, call.key, call.value}) {
    for (int64_t n = 0; n < tensor->elements(); ++n) {
      tensor->SetNth(n, n % 2 == 0 ? 0.0 : 1.875);
    }
  }
  call.kv_heads = 2;
  ASSERT_TRUE(call.Run());
  for (int64_t n = 0; n < call.out->elements(); ++n) {
    EXPECT_EQ(call.out->Nth(n), n % 2 == 0 ? 0.0 : 1.875) << n;
  }
}

}  // namespace
}  // namespace flashacl::testing
