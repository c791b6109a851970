// SPDX-License-Identifier: Apache-2.0
// Every row of the backward's parameter table computes what its document says,
// in every version that has it, down to the sample program's numbers. What it
// refuses is in flash_attention_varlen_grad_refusal_test.cc.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <vector>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "tests/testing/call.h"
#include "tests/testing/rounding.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_oracle.h"

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

void Expect(const TrainingCase& c) {
  SCOPED_TRACE(ToString(c));
  Random random(29);
  ExpectBackward(c, random);
}

TEST(VarLenScoreGrad, TakesEveryTypeOfQueryKeyValue) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
    for (const bool spread : {false, true}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.spread = spread;
      Expect(c);
    }
  }
}

TEST(VarLenScoreGrad, TakesEveryFormOfPseShift) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
    for (const int64_t pse_type : {0, 1}) {
      for (const PseForm form : {PseForm::kEvery, PseForm::kShared}) {
        TrainingCase c = Plain();
        c.sizes.type = type;
        c.pse = form;
        c.pse_type = pse_type;
        Expect(c);
      }
    }
  }
}

TEST(VarLenScoreGrad, TakesSlopesAndStarts) {
  for (const int64_t pse_type : {2, 3}) {
    for (const PseForm form : {PseForm::kSlopes, PseForm::kSlopesEach}) {
      TrainingCase c = Plain();
      c.sizes.type = ACL_FLOAT16;
      c.pse = form;
      c.pse_type = pse_type;
      Expect(c);
      c.q_start = 3;
      Expect(c);
      c.kv_start = 1;
      Expect(c);
      c.q_start.reset();
      c.spread = true;
      Expect(c);
    }
  }
}

// In mode 8 the starts belong to the first sequence, the one that was cut.
TEST(VarLenScoreGrad, StartsOfACutSequenceAreItsOwn) {
  TrainingCase c = Plain();
  c.sizes.rows = {3, 4};
  c.sizes.columns = {4, 4};
  c.pse = PseForm::kSlopes;
  c.pse_type = 2;
  c.mask = MaskForm::kCompressed;
  c.mode = 8;
  c.pre = 4;
  c.next = 1;
  c.q_start = 2;
  c.kv_start = 1;
  Expect(c);
}

TEST(VarLenScoreGrad, TakesCompressedPseShift) {
  for (const PseForm form : {PseForm::kCompressed, PseForm::kCompressedEach}) {
    TrainingCase c;
    // A short sequence may have other lengths than the one stored whole.
    c.sizes = {.type = ACL_FLOAT,
               .rows = {20, 1030},
               .columns = {24, 1030},
               .heads = 1,
               .dim = 1,
               .v_dim = 1};
    c.pse = form;
    c.pse_type = form == PseForm::kCompressed ? 0 : 1;
    c.mask = MaskForm::kCompressed;
    c.mode = 2;
    c.version = 2;  // of all, as this takes long
    Expect(c);
  }
}

// The device leaves dpse alone; here it is the gradient, in pse's shape.
TEST(VarLenScoreGrad, ComputesTheGradientOfPse) {
  for (const int64_t pse_type : {0, 1, 2, 3}) {
    for (const bool each : {false, true}) {
      TrainingCase c = Plain();
      c.pse_type = pse_type;
      c.pse = pse_type < 2 ? (each ? PseForm::kEvery : PseForm::kShared)
                           : (each ? PseForm::kSlopesEach : PseForm::kSlopes);
      c.pse_gradient = true;
      Expect(c);
    }
  }
}

// Of a compressed pse, a stored diagonal takes the gradients of the whole one.
TEST(VarLenScoreGrad, ComputesTheGradientOfCompressedPse) {
  constexpr int64_t kRows = 1030;
  constexpr int64_t kMissing = kRows - 1024;
  TrainingBackward call({.type = ACL_FLOAT,
                         .rows = {kRows},
                         .columns = {kRows},
                         .heads = 1,
                         .dim = 1,
                         .v_dim = 1});
  call.pseShift = call.dpse = Form{ACL_FLOAT, {1, 1, 1024, kRows}};
  call.pseType = 0;
  call.attenMask = Form{ACL_BOOL, {2048, 2048}, {0, 0}};
  call.sparseMode = 2;
  TrainingFixture made(call);
  const auto& t = made.t;
  Random random(41);
  for (DeviceTensor* tensor :
       {t.query, t.keyIn, t.value, t.dy, t.attentionIn}) {
    tensor->Fill(random, -1, 1);
  }
  t.softmaxSum->FillWith(100);
  ASSERT_TRUE(made.Run());

  std::vector<double> expected(kRows, 0), got(kRows, 0), size(kRows, 0);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double p = std::exp(0.5 * t.query->Nth(i) * t.keyIn->Nth(j)) / 100;
      const double ds =
          p * t.dy->Nth(i) * (t.value->Nth(j) - t.attentionIn->Nth(i));
      expected[static_cast<size_t>(i - j)] += ds;
      size[static_cast<size_t>(i - j)] +=
          std::fabs(p * t.dy->Nth(i)) *
          (std::fabs(t.value->Nth(j)) + std::fabs(t.attentionIn->Nth(i)));
    }
  }
  for (int64_t n = 0; n < t.dpse->elements(); ++n) {
    const int64_t diagonal = n / kRows + kMissing - n % kRows;
    if (diagonal < 0) {
      EXPECT_EQ(t.dpse->Nth(n), 0);
    } else {
      got[static_cast<size_t>(diagonal)] += t.dpse->Nth(n);
    }
  }
  for (size_t d = 0; d < got.size(); ++d) {
    // Of a term, an exp and five products and differences.
    const double of_terms = ExpError(1) + 5 * kRoundoff;
    EXPECT_NEAR(got[d], expected[d],
                SumError(kRows, size[d]) + of_terms * size[d])
        << "diagonal " << d;
  }
}

// No call is refused because of its gradient of pse.
TEST(VarLenScoreGrad, TakesAPseGradientItCannotWrite) {
  TrainingBackward call({.rows = {4}, .columns = {4}});
  call.pseShift = Form{ACL_FLOAT16, {2 * 16}};
  call.dpse = Form{ACL_FLOAT16, {2 * 16}, {0}};
  TrainingFixture(call).ExpectPlanned();
}

// A dpse of another shape, or without pse, is left as it was.
TEST(VarLenScoreGrad, LeavesOtherPseGradientsAlone) {
  for (const bool pse : {false, true}) {
    TrainingBackward call({.rows = {4}, .columns = {4}});
    if (pse) call.pseShift = Form{ACL_FLOAT16, {2 * 16}};
    call.dpse = Form{ACL_FLOAT16, {3, 3}};
    TrainingFixture made(call);
    const auto& t = made.t;
    for (DeviceTensor* tensor : {t.softmaxMax, t.softmaxSum}) {
      tensor->FillWith(1);
    }
    for (DeviceTensor* tensor : {t.query, t.keyIn, t.value, t.dy, t.pseShift,
                                 t.attentionIn, t.softmaxMax, t.softmaxSum}) {
      if (tensor != nullptr) tensor->Upload();
    }
    t.dpse->FillWith(42);
    t.dpse->Upload();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(made.PhaseOne(&size, &executor), 0) << aclGetRecentErrMsg();
    void* workspace = nullptr;
    ASSERT_EQ(aclrtMalloc(&workspace, size + 1, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclnnFlashAttentionUnpaddingScoreGradV5(workspace, size, executor,
                                                      nullptr),
              0);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
    EXPECT_EQ(aclrtFree(workspace), 0);
    t.dpse->Download();
    for (const double x : t.dpse->Values()) EXPECT_EQ(x, 42);
  }
}

TEST(VarLenScoreGrad, AppliesTheDropMask) {
  for (const double keep : {0.9, 0.5, 0.1}) {
    TrainingCase c = Plain();
    c.dropout = true;
    c.keep = keep;
    Expect(c);
  }
}

// With a probability of 1 the mask is not looked at.
TEST(VarLenScoreGrad, IgnoresTheDropMaskAtProbabilityOne) {
  std::vector<double> with, without;
  for (const bool mask : {false, true}) {
    TrainingBackward call({.type = ACL_FLOAT, .rows = {4}, .columns = {4}});
    if (mask) call.dropMask = Form{ACL_UINT8, {1}};
    TrainingFixture made(call);
    const auto& t = made.t;
    Random random(31);
    for (DeviceTensor* tensor : {t.query, t.keyIn, t.value, t.dy}) {
      tensor->Fill(random, -1, 1);
    }
    t.softmaxSum->FillWith(4);
    ASSERT_TRUE(made.Run());
    (mask ? with : without) = t.dv->Values();
  }
  EXPECT_EQ(with, without);
}

TEST(VarLenScoreGrad, TakesEveryFormOfMask) {
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
        Expect(c);
      }
    }
  }
}

struct Mode {
  int64_t mode, pre, next;
};

TEST(VarLenScoreGrad, TakesEverySparseMode) {
  for (const Mode& mode : std::vector<Mode>{{0, 1, 2},
                                            {0, -1, 2},
                                            {0, 3, -2},
                                            {1, 0, 0},
                                            {2, 0, 0},
                                            {3, 0, 0},
                                            {4, 1, 0},
                                            {4, -1, 2},
                                            {6, 0, 0},
                                            {7, 6, -1},
                                            {8, 6, 1}}) {
    TrainingCase c = Plain();
    // The last sequence has rows that see nothing in modes 3 and 4.
    c.sizes.rows = {4, 0, 5};
    c.sizes.columns = {6, 0, 3};
    c.mask = mode.mode < 2 ? MaskForm::kLongest : MaskForm::kCompressed;
    c.mode = mode.mode;
    c.pre = mode.pre;
    c.next = mode.next;
    c.prefix = {{4, 0, 2}};
    Expect(c);
  }
}

TEST(VarLenScoreGrad, WithoutMaskSeesAllWhateverElseIsSaid) {
  for (const int64_t mode : {0, 3, 5, 6, 99}) {
    TrainingCase c = Plain();
    c.mode = mode;
    c.pre = -7;
    c.next = -7;
    c.prefix = {{1}};
    Expect(c);
  }
}

TEST(VarLenScoreGrad, TakesRope) {
  for (const int64_t mode : {0, 2, 4}) {
    for (const int64_t rope_dim : {1, 4, 6}) {
      TrainingCase c = Plain();
      c.sizes.type = ACL_BF16;
      c.rope_dim = rope_dim;
      c.mask = mode == 0 ? MaskForm::kLongest : MaskForm::kCompressed;
      c.mode = mode;
      c.pre = 2;
      c.next = 1;
      c.spread = rope_dim == 4;
      Expect(c);
    }
  }
}

TEST(VarLenScoreGrad, TakesSinkWithAndWithoutItsGradient) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const bool gradient : {false, true}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.sink = true;
      c.sink_gradient = gradient;
      c.dropout = gradient;
      c.keep = gradient ? 0.5 : 1;
      Expect(c);
    }
  }
}

TEST(VarLenScoreGrad, TakesBothOrdersOfMaxAndSum) {
  for (const bool same : {false, true}) {
    for (const bool foreign : {false, true}) {
      TrainingCase c = Plain();
      c.same_as_input = same;
      c.foreign = foreign;
      c.spread = same;
      Expect(c);
    }
  }
}

// [T, N, 8] or [N, T, 8] may be declared; the text decides, and any other than
// "same_as_input" means blocks.
TEST(VarLenScoreGrad, ShapeOfMaxAndSumDecidesNothing) {
  std::vector<std::vector<double>> results;
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{5, 2, 8}, {2, 5, 8}}) {
    for (const char* layout : {"", "blocks"}) {
      TrainingBackward call({.type = ACL_FLOAT});
      call.softmaxMax->dims = call.softmaxSum->dims = dims;
      call.softmaxInLayout = layout;
      TrainingFixture made(call);
      const auto& t = made.t;
      Random random(37);
      for (DeviceTensor* tensor : {t.query, t.keyIn, t.value, t.dy}) {
        tensor->Fill(random, -1, 1);
      }
      for (int64_t n = 0; n < 80; ++n) {
        t.softmaxSum->SetNth(n, 1 + static_cast<double>(n / 8));
      }
      ASSERT_TRUE(made.Run());
      results.push_back(t.dv->Values());
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(VarLenScoreGrad, TakesEmptySequencesAndTails) {
  TrainingCase c = Plain();
  c.sizes.rows = {0, 3, 2, 0};
  c.sizes.columns = {4, 0, 5, 0};
  c.sizes.row_tail = 2;
  c.sizes.column_tail = 3;
  Expect(c);
  c.sizes.rows = {0, 0, 0, 0};
  c.sizes.columns = {0, 0, 0, 0};
  Expect(c);
}

// Padding mask, softmaxIn and, without sink, dsink mean nothing.
TEST(VarLenScoreGrad, IgnoresReservedArguments) {
  TrainingBackward call;
  call.paddingMask = Form{ACL_DOUBLE, {1, 2, 3}};
  call.softmaxIn = Form{ACL_INT64, {4}};
  call.dqRope = Form{ACL_BF16, {0}};
  call.dkRope = Form{ACL_BF16, {0}};
  TrainingFixture made(call);
  const auto& t = made.t;
  t.softmaxSum->FillWith(1);
  EXPECT_TRUE(made.Run());
}

TEST(VarLenScoreGrad, TakesAnyInnerPrecise) {
  for (const int64_t precise : {-1, 0, 1, 2, 99}) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      TrainingCase c = Plain();
      c.sizes.type = type;
      c.inner_precise = precise;
      Expect(c);
    }
  }
}

TEST(VarLenScoreGrad, EmptyGradientsAreDoneAtOnce) {
  TrainingBackward call({.rows = {0}, .columns = {0}});
  TrainingFixture(call).ExpectNothingToDo();
}

TEST(VarLenScoreGrad, SomeEmptyGradientsMakeTheOthersZero) {
  TrainingBackward no_rows({.rows = {0}, .columns = {3}});
  TrainingBackward no_columns({.rows = {3}, .columns = {0}});
  TrainingBackward no_heads({.rows = {3}, .columns = {4}, .kv_heads = 0});
  for (TrainingBackward* call : {&no_rows, &no_columns, &no_heads}) {
    TrainingFixture made(*call);
    const auto& t = made.t;
    ASSERT_TRUE(made.Run());
    for (const DeviceTensor* tensor : {t.dq, t.dk, t.dv}) {
      for (const double x : tensor->Values()) EXPECT_EQ(x, 0);
    }
  }
}

// The sample program of the operator's document: fp16 tensors over the bytes of
// floats, so that halves alternate between 0 and 1.875, with max = sum = 3.
TEST(VarLenScoreGrad, ComputesTheDocumentsSample) {
  TrainingBackward call(
      {.rows = {256}, .columns = {256}, .heads = 1, .dim = 128, .v_dim = 128});
  call.attenMask = Form{ACL_UINT8, {256, 256}};
  call.sinkIn = call.dsink = Form{ACL_FLOAT, {1}};
  call.prefix = {{0}};
  call.qStartIdx = call.kvStartIdx = {{0}};
  call.scaleValue = 0.088388;
  call.softmaxInLayout = "same_as_input";
  TrainingFixture made(call);
  const auto& t = made.t;
  for (DeviceTensor* tensor :
       {t.query, t.keyIn, t.value, t.dy, t.attentionIn}) {
    for (int64_t n = 1; n < tensor->elements(); n += 2) {
      tensor->SetNth(n, 1.875);
    }
  }
  t.softmaxMax->FillWith(3);
  t.softmaxSum->FillWith(3);
  ASSERT_TRUE(made.Run());
  for (const double x : t.dq->Values()) EXPECT_EQ(x, 0);
  for (const double x : t.dk->Values()) EXPECT_EQ(x, 0);
  EXPECT_NEAR(t.dsink->Nth(0), -1.76e12, 0.02e12);
}

}  // namespace
}  // namespace flashacl::testing
