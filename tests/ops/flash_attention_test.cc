// SPDX-License-Identifier: Apache-2.0
// Every row of the dense forward's parameter table computes what its document
// says, in every layout and version that has it. What it refuses is in
// flash_attention_refusal_test.cc.
#include <gtest/gtest.h>

#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "tests/testing/call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_oracle.h"
#include "tests/testing/training_worked.h"

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
  Random random(37);
  ExpectForward(c, random);
}

TEST(Score, TakesEveryLayoutAndType) {
  for (const char* layout : kLayouts) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
      for (const bool spread : {false, true}) {
        TrainingCase c = Plain(layout);
        c.sizes.type = type;
        c.spread = spread;
        Expect(c);
      }
    }
  }
}

// softmaxMax with gaps and softmaxSum without, and the other way round.
TEST(Score, EachStatisticLiesWhereItsTensorSays) {
  for (const bool max : {false, true}) {
    TrainingForward call(Plain().sizes);
    std::optional<Form>& spread = max ? call.softmaxMax : call.softmaxSum;
    spread = Spread(*spread, {3, 2, 1, 0});
    EXPECT_TRUE(Runs(call)) << max;
  }
}

TEST(Score, TakesLayoutsInSmallLetters) {
  for (std::string layout : kLayouts) {
    TrainingForward call(Plain(layout).sizes);
    for (char& letter : layout) {
      letter = static_cast<char>(std::tolower(letter));
    }
    call.inputLayout = layout;
    EXPECT_TRUE(Runs(call)) << layout;
  }
}

TEST(Score, TakesEveryFormOfBias) {
  for (const char* layout : kLayouts) {
    for (const int64_t pse_type : {0, 1}) {
      for (const PseForm form : {PseForm::kEvery, PseForm::kShared,
                                 PseForm::kEveryOnce, PseForm::kSharedOnce}) {
        TrainingCase c = Plain(layout);
        c.sizes.type = ACL_FLOAT16;
        c.pse = form;
        c.pse_type = pse_type;
        c.spread = pse_type == 0;
        Expect(c);
      }
    }
  }
}

TEST(Score, TakesCompressedBias) {
  for (const int64_t mode : {0, 2, 3}) {
    TrainingCase c;
    c.sizes = {.type = ACL_FLOAT,
               .rows = {1030, 1030},
               .columns = {1030, 1030},
               .heads = 1,
               .dim = 1,
               .v_dim = 1,
               .layout = "BSH"};
    c.version = mode == 0 ? 1 : 3;
    c.pse = mode == 2 ? PseForm::kCompressedEach : PseForm::kCompressed;
    c.mask = mode == 0 ? MaskForm::kLongest : MaskForm::kCompressed;
    c.mode = mode;
    c.next = 0;
    Expect(c);
  }
}

// With 1024 queries, 1024 rows are all there are, and need no mask.
TEST(Score, ABiasOf1024RowsMayBeTheWhole) {
  TrainingCase c;
  c.sizes = {.type = ACL_FLOAT,
             .rows = {1024},
             .columns = {3},
             .heads = 1,
             .dim = 1,
             .v_dim = 1,
             .layout = "BNSD"};
  c.pse = PseForm::kEvery;
  c.version = 1;
  Expect(c);
}

TEST(Score, TakesSlopesAndStarts) {
  for (const char* layout : kLayouts) {
    for (const int64_t pse_type : {2, 3}) {
      for (const PseForm form : {PseForm::kSlopes, PseForm::kSlopesEach}) {
        TrainingCase c = Plain(layout);
        c.sizes.columns = c.sizes.rows;
        c.pse = form;
        c.pse_type = pse_type;
        Expect(c);
        c.q_start = 3;
        c.spread = true;
        Expect(c);
        c.kv_start = 1;
        Expect(c);
      }
    }
  }
}

// Slope 0.5 on 4 x 4 scores of 0: the document's biases, as maxima.
TEST(Score, SlopesAreTheDocumentsNumbers) {
  const TrainingSizes sizes{.type = ACL_FLOAT,
                            .rows = {4},
                            .columns = {4},
                            .heads = 1,
                            .dim = 1,
                            .v_dim = 1,
                            .layout = "BNSD"};
  TrainingForward call(sizes, 2);
  call.realShift = Form{ACL_FLOAT, {1}};
  call.pseType = 2;
  call.qStartIdx = {3};
  call.kvStartIdx = {1};
  // One key at a time: row 0 is -1, -0.5, 0, -0.5 and row 3 -2.5 to -1.
  const double rows[2][4] = {{-1, -0.5, 0, -0.5}, {-2.5, -2, -1.5, -1}};
  for (int64_t j = 0; j < 4; ++j) {
    call.attenMask = Form{ACL_BOOL, {4, 4}};
    TrainingFixture made(call);
    const auto& t = made.t;
    t.realShift->SetNth(0, 0.5);
    t.attenMask->FillWith(1);
    for (int64_t i = 0; i < 4; ++i) t.attenMask->Set({i, j}, 0);
    ASSERT_TRUE(made.Run());
    EXPECT_EQ(t.softmaxMax->Nth(0), rows[0][j]);
    EXPECT_EQ(t.softmaxMax->Nth(3 * 8), rows[1][j]);
  }
}

TEST(Score, AppliesTheDropMask) {
  for (const char* layout : kLayouts) {
    for (const double keep : {1.0, 0.5, 0.9}) {
      TrainingCase c = Plain(layout);
      c.dropout = true;
      c.keep = keep;
      Expect(c);
    }
  }
  // Without a mask the probability changes nothing.
  TrainingCase c = Plain();
  c.keep = 0.5;
  Expect(c);
}

TEST(Score, TakesEveryFormOfMask) {
  for (const char* layout : kLayouts) {
    for (const MaskForm form : {MaskForm::kLongest, MaskForm::kOne,
                                MaskForm::kPerSequence, MaskForm::kPerHead}) {
      for (const int64_t mode : {0, 1}) {
        TrainingCase c = Plain(layout);
        c.mask = form;
        c.mask_type = mode == 0 ? ACL_BOOL : ACL_UINT8;
        c.mode = mode;
        c.spread = mode == 1;
        Expect(c);
      }
    }
  }
}

// In mode 5 the mask says it all, whatever the prefix.
TEST(Score, TakesMasksOfPrefixes) {
  for (const MaskForm form : {MaskForm::kPerSequence, MaskForm::kPerHead}) {
    TrainingCase c = Plain();
    c.mask = form;
    c.mode = 5;
    Expect(c);
    c.prefix = {{1}};
    Expect(c);
  }
  for (const MaskForm form : {MaskForm::kLongest, MaskForm::kOne}) {
    TrainingCase c = Plain();
    c.sizes.rows = {3};
    c.sizes.columns = {4};
    c.mask = form;
    c.mode = 5;
    Expect(c);
  }
}

TEST(Score, TakesEverySparseMode) {
  struct Mode {
    int64_t mode, pre, next;
  };
  for (const Mode& mode : std::vector<Mode>{{0, 1, 2},
                                            {0, -1, 2},
                                            {0, 2, -1},
                                            {2, -9, -9},
                                            {3, 0, 0},
                                            {4, 1, 0},
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

TEST(Score, WithoutMaskSeesAllWhateverElseIsSaid) {
  for (const int64_t mode : {0, 3, 5, 6, 7, 99}) {
    TrainingCase c = Plain();
    c.mode = mode;
    c.pre = -7;
    c.next = -7;
    c.prefix = {{1}};
    Expect(c);
  }
}

TEST(Score, TakesSink) {
  for (const char* layout : kLayouts) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
      TrainingCase c = Plain(layout);
      c.sizes.type = type;
      c.sink = true;
      c.mask = MaskForm::kPerHead;
      c.mode = 1;
      c.spread = type == ACL_BF16;
      Expect(c);
    }
  }
}

TEST(Score, TakesAnyInnerPreciseAndReservedArguments) {
  for (const int64_t precise : {-1, 0, 1, 2, 99}) {
    TrainingCase c = Plain();
    c.inner_precise = precise;
    c.mask = MaskForm::kLongest;  // with rows that are hidden whole
    c.mode = 1;
    Expect(c);
  }
  TrainingForward call(Plain().sizes);
  call.paddingMask = Form{ACL_DOUBLE, {1, 2, 3}};
  call.softmaxOut = Form{ACL_FLOAT, {0, 0, 0, 0}};
  EXPECT_TRUE(Runs(call));
}

TEST(Score, EmptyOutputsAreDoneAtOnce) {
  for (const char* layout : kLayouts) {
    TrainingForward call({.rows = {0}, .columns = {3}, .layout = layout});
    TrainingFixture(call).ExpectNothingToDo();
  }
}

// No keys, no heads of keys, or no channels: results are zero.
TEST(Score, EmptyKeysGiveZeros) {
  for (const char* layout : kLayouts) {
    TrainingSizes no_rows{.rows = {3, 3}, .columns = {0, 0}};
    TrainingSizes no_heads{.rows = {3, 3}, .columns = {4, 4}, .kv_heads = 0};
    TrainingSizes no_dim{
        .rows = {3, 3}, .columns = {4, 4}, .dim = 0, .v_dim = 0};
    for (TrainingSizes* sizes : {&no_rows, &no_heads, &no_dim}) {
      sizes->layout = layout;
      const TrainingForward call(*sizes);
      TrainingFixture made(call);
      const auto& t = made.t;
      ASSERT_TRUE(made.Run()) << layout;
      for (const DeviceTensor* tensor :
           {t.attentionOut, t.softmaxMax, t.softmaxSum}) {
        for (const double x : tensor->Values()) EXPECT_EQ(x, 0);
      }
    }
  }
}

TEST(Score, ComputesTheWorkedExample) {
  for (const char* layout : kLayouts) ExpectWorkedExample(layout);
}

}  // namespace
}  // namespace flashacl::testing
