// SPDX-License-Identifier: Apache-2.0
// Every row of the forward's parameter table computes what its document says,
// in every version, down to the sample program's numbers. What it refuses is in
// flash_attention_varlen_refusal_test.cc, what only later versions have in
// flash_attention_varlen_versions_test.cc.
#include <gtest/gtest.h>

#include <vector>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "tests/testing/call.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_oracle.h"
#include "tests/testing/training_worked.h"

namespace flashacl::testing {
namespace {

TrainingCase Plain() {
  return {.sizes = {.type = ACL_FLOAT,
                    .rows = {3, 2},
                    .columns = {4, 5},
                    .heads = 4,
                    .kv_heads = 2,
                    .dim = 6,
                    .v_dim = 5}};
}

TEST(VarLenScore, TakesEveryTypeOfQueryKeyValue) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
    for (const bool spread : {false, true}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.spread = spread;
      SCOPED_TRACE(ToString(c));
      Random random(static_cast<uint64_t>(type) + 1);
      ExpectForward(c, random);
    }
  }
}

TEST(VarLenScore, TakesEveryFormOfRealShift) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
    for (const PseForm form : {PseForm::kEvery, PseForm::kShared}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.pse = form;
      SCOPED_TRACE(ToString(c));
      Random random(7);
      ExpectForward(c, random);
    }
  }
}

TEST(VarLenScore, TakesCompressedRealShift) {
  for (const PseForm form : {PseForm::kCompressed, PseForm::kCompressedEach}) {
    TrainingCase c;
    c.sizes = {.type = ACL_FLOAT,
               .rows = {20, 1030},
               .columns = {20, 1030},
               .heads = 1,
               .dim = 1,
               .v_dim = 1};
    c.pse = form;
    c.mask = MaskForm::kCompressed;
    c.mode = form == PseForm::kCompressed ? 2 : 3;
    c.version = form == PseForm::kCompressed ? 1 : 5;  // as this takes long
    SCOPED_TRACE(ToString(c));
    Random random(11);
    ExpectForward(c, random);
  }
}

TEST(VarLenScore, AppliesTheDropMask) {
  for (const double keep : {1.0, 0.5, 0.9}) {
    TrainingCase c = Plain();
    c.dropout = true;
    c.keep = keep;
    SCOPED_TRACE(ToString(c));
    Random random(3);
    ExpectForward(c, random);
  }
  // Without a mask the probability changes nothing.
  TrainingCase c = Plain();
  TrainingForward call(c.sizes);
  call.keepProb = 0.5;
  TrainingFixture made(call);
  const auto& t = made.t;
  t.value->FillWith(2);
  ASSERT_TRUE(made.Run());
  ExpectNear(*t.attentionOut,
             std::vector<double>(
                 static_cast<size_t>(t.attentionOut->elements()), 2.0));
}

TEST(VarLenScore, TakesEveryFormOfMask) {
  for (const MaskForm form :
       {MaskForm::kLongest, MaskForm::kAll, MaskForm::kOne,
        MaskForm::kPerSequence, MaskForm::kPerHead}) {
    for (const aclDataType type : {ACL_BOOL, ACL_UINT8}) {
      for (const int64_t mode : {0, 1}) {
        TrainingCase c = Plain();
        c.mask = form;
        c.mask_type = type;
        c.mode = mode;
        c.spread = type == ACL_UINT8;
        SCOPED_TRACE(ToString(c));
        Random random(static_cast<uint64_t>(mode) + 5);
        ExpectForward(c, random);
      }
    }
  }
}

TEST(VarLenScore, TakesEverySparseMode) {
  const TrainingSizes sizes{.type = ACL_FLOAT,
                            .rows = {4, 0, 3},
                            .columns = {6, 0, 5},
                            .heads = 2,
                            .dim = 3,
                            .v_dim = 3};
  struct Mode {
    int64_t mode, pre, next;
  };
  for (const Mode& mode : std::vector<Mode>{{0, 1, 2},
                                            {0, -1, 2},
                                            {2, 0, 0},
                                            {3, 0, 0},
                                            {4, 1, 0},
                                            {4, 2, -1},
                                            {6, 0, 0},
                                            {7, 6, -1},
                                            {8, 6, 1}}) {
    TrainingCase c{.sizes = sizes};
    c.mask = mode.mode == 0 ? MaskForm::kLongest : MaskForm::kCompressed;
    c.mode = mode.mode;
    c.pre = mode.pre;
    c.next = mode.next;
    c.prefix = {{4, 0, 5}};
    SCOPED_TRACE(ToString(c));
    Random random(13);
    ExpectForward(c, random);
  }
}

TEST(VarLenScore, WithoutMaskSeesAllWhateverElseIsSaid) {
  for (const int64_t mode : {0, 3, 5, 6, 99}) {
    TrainingCase c = Plain();
    c.mode = mode;
    c.pre = -7;
    c.next = -7;
    c.prefix = {{1}};
    SCOPED_TRACE(ToString(c));
    Random random(17);
    ExpectForward(c, random);
  }
}

TEST(VarLenScore, TakesEmptySequencesAndTails) {
  TrainingCase c = Plain();
  c.sizes.rows = {0, 3, 2, 0};
  c.sizes.columns = {4, 0, 5, 0};
  c.sizes.row_tail = 2;
  c.sizes.column_tail = 3;
  Random random(19);
  ExpectForward(c, random);
}

// Lengths may end in zeros: sequences that are not there.
TEST(VarLenScore, TakesListsThatEndInZeros) {
  TrainingForward call({.type = ACL_FLOAT, .rows = {2, 3}, .columns = {2, 3}});
  call.actualSeqQLen = {{2, 5, 0, 0}};
  call.actualSeqKvLen = {{2, 5, 0, 0}};
  TrainingFixture made(call);
  const auto& t = made.t;
  t.value->FillWith(3);
  ASSERT_TRUE(made.Run());
  for (const double x : t.attentionOut->Values()) EXPECT_EQ(x, 3);
}

TEST(VarLenScore, TakesAnyInnerPrecise) {
  for (const int64_t precise : {-1, 0, 1, 2, 99}) {
    TrainingCase c = Plain();
    c.inner_precise = precise;
    c.mask = MaskForm::kLongest;  // with rows that are hidden whole
    c.mode = 1;
    Random random(23);
    ExpectForward(c, random);
  }
}

TEST(VarLenScore, IgnoresPaddingMaskAndSoftmaxOut) {
  TrainingForward call;
  call.paddingMask = Form{ACL_DOUBLE, {1, 2, 3}};
  EXPECT_TRUE(TrainingFixture(call).Run());
}

TEST(VarLenScore, TakesMaxAndSumOfAnyShapeOfThatManyElements) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{5, 2, 8}, {2, 5, 8}, {1, 2, 5, 8}, {80}}) {
    TrainingForward call;
    call.softmaxMax->dims = call.softmaxSum->dims = dims;
    EXPECT_TRUE(TrainingFixture(call).Run());
  }
}

TEST(VarLenScore, EmptyOutputsAreDoneAtOnce) {
  TrainingForward call({.rows = {0}, .columns = {3}});
  TrainingFixture(call).ExpectNothingToDo();
}

// No keys, no heads of keys, or no channels: results are zero.
TEST(VarLenScore, EmptyKeysGiveZeros) {
  TrainingForward no_rows({.rows = {3}, .columns = {0}});
  TrainingForward no_heads({.rows = {3}, .columns = {4}, .kv_heads = 0});
  TrainingForward no_dim({.rows = {3}, .columns = {4}, .dim = 0, .v_dim = 0});
  for (TrainingForward* call : {&no_rows, &no_heads, &no_dim}) {
    TrainingFixture made(*call);
    const auto& t = made.t;
    ASSERT_TRUE(made.Run());
    for (const DeviceTensor* tensor :
         {t.attentionOut, t.softmaxMax, t.softmaxSum}) {
      for (const double x : tensor->Values()) EXPECT_EQ(x, 0);
    }
  }
}

// The sample program of the operator's document: fp16 buffers whose 16-bit
// integers are 1.
TEST(VarLenScore, ComputesTheDocumentsSample) {
  TrainingForward call(
      {.rows = {256}, .columns = {256}, .heads = 1, .dim = 128, .v_dim = 128});
  call.attenMask = Form{ACL_UINT8, {256, 256}};
  call.prefix = {{0}};
  call.scaleValue = 0.088388;
  TrainingFixture made(call);
  const auto& t = made.t;
  for (DeviceTensor* tensor : {t.query, t.key, t.value}) {
    tensor->FillWith(0x1p-24);
  }
  ASSERT_TRUE(made.Run());
  for (const double x : t.attentionOut->Values()) EXPECT_EQ(x, 0x1p-24);
  for (const double x : t.softmaxMax->Values()) EXPECT_NEAR(x, 4.0e-14, 1e-15);
  for (const double x : t.softmaxSum->Values()) EXPECT_EQ(x, 256);
}

TEST(VarLenScore, ComputesTheWorkedExample) { ExpectWorkedExample("TND"); }

}  // namespace
}  // namespace flashacl::testing
