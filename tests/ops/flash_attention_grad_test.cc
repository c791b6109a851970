// SPDX-License-Identifier: Apache-2.0
// Every row of the dense backward's parameter table computes what its document
// says, in every layout and version that has it. What it refuses is in
// flash_attention_grad_refusal_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/rounding.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_oracle.h"

namespace flashacl::testing {
namespace {

constexpr const char* kLayouts[] = {"BSH", "SBH", "BSND", "BNSD"};

TrainingCase Plain(const std::string& layout = "BNSD") {
  return {.sizes = {.type = ACL_FLOAT,
                    .rows = {3, 3},
                    .columns = {4, 4},
                    .heads = 4,
                    .kv_heads = 2,
                    .dim = 6,
                    .v_dim = 5,
                    .layout = layout}};
}

void Expect(const TrainingCase& c) {
  SCOPED_TRACE(ToString(c));
  Random random(43);
  ExpectBackward(c, random);
}

TEST(ScoreGrad, TakesEveryLayoutAndType) {
  for (const char* layout : kLayouts) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
      for (const bool spread : {false, true}) {
        TrainingCase c = Plain(layout);
        c.sizes.type = type;
        c.spread = spread;
        c.foreign = spread;
        Expect(c);
      }
    }
  }
}

TEST(ScoreGrad, TakesEveryFormOfPseAndItsGradient) {
  for (const char* layout : kLayouts) {
    for (const int64_t pse_type : {0, 1}) {
      for (const PseForm form : {PseForm::kEvery, PseForm::kShared,
                                 PseForm::kEveryOnce, PseForm::kSharedOnce}) {
        TrainingCase c = Plain(layout);
        c.pse = form;
        c.pse_type = pse_type;
        c.pse_gradient = true;
        c.spread = pse_type == 0;
        Expect(c);
      }
    }
  }
}

// Slopes take any lengths.
TEST(ScoreGrad, TakesSlopesAndStarts) {
  for (const char* layout : kLayouts) {
    for (const int64_t pse_type : {2, 3}) {
      for (const PseForm form : {PseForm::kSlopes, PseForm::kSlopesEach}) {
        TrainingCase c = Plain(layout);
        c.pse = form;
        c.pse_type = pse_type;
        c.pse_gradient = true;
        Expect(c);
        c.q_start = 3;
        c.kv_start = 1;
        Expect(c);
      }
    }
  }
}

TEST(ScoreGrad, TakesCompressedPse) {
  for (const PseForm form : {PseForm::kCompressed, PseForm::kCompressedEach}) {
    TrainingCase c;
    c.sizes = {.type = ACL_FLOAT,
               .rows = {1030, 1030},
               .columns = {1030, 1030},
               .heads = 1,
               .dim = 1,
               .v_dim = 1,
               .layout = "BSND"};
    c.version = 2;
    c.pse = form;
    c.pse_type = form == PseForm::kCompressed ? 0 : 1;
    c.mask = MaskForm::kCompressed;
    c.mode = 3;
    Expect(c);
  }
}

TEST(ScoreGrad, AppliesTheDropMask) {
  for (const char* layout : kLayouts) {
    for (const double keep : {0.9, 0.5, 0.1}) {
      TrainingCase c = Plain(layout);
      c.dropout = true;
      c.keep = keep;
      Expect(c);
    }
  }
}

TEST(ScoreGrad, TakesEveryFormOfMask) {
  for (const char* layout : kLayouts) {
    for (const MaskForm form : {MaskForm::kLongest, MaskForm::kOne,
                                MaskForm::kPerSequence, MaskForm::kPerHead}) {
      for (const int64_t mode : {0, 1, 5}) {
        TrainingCase c = Plain(layout);
        const bool each =
            form == MaskForm::kPerSequence || form == MaskForm::kPerHead;
        if (mode == 5 && !each) {
          c.sizes.rows = {3};
          c.sizes.columns = {4};
        }
        c.mask = form;
        c.mask_type = mode == 0 ? ACL_BOOL : ACL_UINT8;
        c.mode = mode;
        c.spread = mode == 1;
        Expect(c);
      }
    }
  }
}

TEST(ScoreGrad, TakesEverySparseMode) {
  struct Mode {
    int64_t mode, pre, next;
  };
  for (const Mode& mode : std::vector<Mode>{{0, 1, 2},
                                            {0, -1, 2},
                                            {0, 0, 0},
                                            {2, -9, -9},
                                            {3, 0, 0},
                                            {4, 0, 0},
                                            {4, 2, -1},
                                            {4, -1, 2},
                                            {6, 0, 0}}) {
    // Wide, and with more queries than keys: rows that see nothing.
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{4, 6}, {6, 4}}) {
      TrainingCase c = Plain("SBH");
      c.sizes.rows = {rows, rows};
      c.sizes.columns = {columns, columns};
      c.mask = mode.mode == 0 ? MaskForm::kLongest : MaskForm::kCompressed;
      c.mode = mode.mode;
      c.pre = mode.pre;
      c.next = mode.next;
      c.prefix = {{4, 3}};
      Expect(c);
    }
  }
}

TEST(ScoreGrad, WithoutMaskSeesAllWhateverElseIsSaid) {
  for (const int64_t mode : {0, 3, 5, 6, 7, 99}) {
    TrainingCase c = Plain();
    c.mode = mode;
    c.pre = -7;
    c.next = -7;
    Expect(c);
  }
}

TEST(ScoreGrad, TakesSinkWithAndWithoutItsGradient) {
  for (const char* layout : kLayouts) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      for (const bool gradient : {false, true}) {
        TrainingCase c = Plain(layout);
        c.sizes.type = type;
        c.sink = true;
        c.sink_gradient = gradient;
        c.mask = MaskForm::kPerHead;
        c.mode = 1;
        Expect(c);
      }
    }
  }
}

TEST(ScoreGrad, IgnoresReservedArguments) {
  TrainingBackward call(Plain().sizes);
  call.paddingMask = Form{ACL_DOUBLE, {1, 2, 3}};
  call.softmaxIn = Form{ACL_INT64, {4}};
  EXPECT_TRUE(Runs(call));
}

TEST(ScoreGrad, TakesAnyInnerPrecise) {
  for (const int64_t precise : {-1, 0, 1, 2, 99}) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.inner_precise = precise;
      Expect(c);
    }
  }
}

TEST(ScoreGrad, EmptyGradientsAreDoneAtOnce) {
  for (const char* layout : kLayouts) {
    TrainingBackward call({.rows = {0}, .columns = {0}, .layout = layout});
    TrainingFixture(call).ExpectNothingToDo();
  }
}

TEST(ScoreGrad, SomeEmptyGradientsMakeTheOthersZero) {
  for (const char* layout : kLayouts) {
    TrainingSizes no_rows{.rows = {0, 0}, .columns = {3, 3}};
    TrainingSizes no_columns{.rows = {3, 3}, .columns = {0, 0}};
    TrainingSizes no_heads{.rows = {3, 3}, .columns = {4, 4}, .kv_heads = 0};
    for (TrainingSizes* sizes : {&no_rows, &no_columns, &no_heads}) {
      sizes->layout = layout;
      const TrainingBackward call(*sizes);
      TrainingFixture made(call);
      const auto& t = made.t;
      ASSERT_TRUE(made.Run()) << layout;
      for (const DeviceTensor* tensor : {t.dq, t.dk, t.dv}) {
        for (const double x : tensor->Values()) EXPECT_EQ(x, 0);
      }
    }
  }
}

// One score of 1: p = exp(1 - 0) / 4, dp = 2 * 3, delta = 2 * 5, ds = -4 p.
TEST(ScoreGrad, ComputesOneScoreByHand) {
  for (const char* layout : kLayouts) {
    const TrainingBackward call({.type = ACL_FLOAT,
                                 .rows = {1},
                                 .columns = {1},
                                 .heads = 1,
                                 .dim = 1,
                                 .v_dim = 1,
                                 .layout = layout},
                                1);
    TrainingFixture made(call);
    const auto& t = made.t;
    t.query->SetNth(0, 2);
    t.keyIn->SetNth(0, 1);
    t.value->SetNth(0, 3);
    t.dy->SetNth(0, 2);
    t.attentionIn->SetNth(0, 5);
    t.softmaxSum->FillWith(4);
    ASSERT_TRUE(made.Run());
    const double p = 2.718281828459045 / 4;
    // All else is exact, or a product with p.
    const double of_p = (ExpError(1) + 3 * kRoundoff) * p;
    EXPECT_NEAR(t.dq->Nth(0), 0.5 * -4 * p * 1, 2 * of_p);
    EXPECT_NEAR(t.dk->Nth(0), 0.5 * -4 * p * 2, 4 * of_p);
    EXPECT_NEAR(t.dv->Nth(0), p * 2, 2 * of_p);
  }
}

}  // namespace
}  // namespace flashacl::testing
