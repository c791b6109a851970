// SPDX-License-Identifier: Apache-2.0
// What a data type explains is right, and what it does not is wrong, row by
// row.
#include "verify/answer/judgement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/verify/causes/plain_attention.h"
#include "verify/check/tensor_check.h"

namespace flashacl {
namespace {

const CheckedResult& Only(const Result<TensorCheck>& check) {
  EXPECT_TRUE(check.ok()) << check.status().message();
  return check->results[0];
}

TEST(Judgement, SaysWhichRowsHeadsAndChannels) {
  PlainAttention plain("fwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal");
  plain.Run();
  // Row 5 of sequence 1, which is row 14 of all, head 2, channel 7.
  double& element = plain["out"].values[(14 * 4 + 2) * 32 + 7];
  const double was = element;
  element += 0.5;
  const Result<TensorCheck> check = plain.Check();
  const Judgement& judgement = Only(check).judgement;
  EXPECT_EQ(judgement.wrong_rows, 1);
  EXPECT_EQ(judgement.rows, 4 * 39);
  for (const HeadJudgement& head : judgement.heads) {
    const bool wrong = head.sequence == 1 && head.head == 2;
    EXPECT_EQ(head.wrong_rows, wrong ? 1 : 0);
    if (!wrong) continue;
    EXPECT_NEAR(head.error, 0.5, 0.05);
    const RowJudgement& row = head.rows[5];
    EXPECT_TRUE(row.wrong());
    EXPECT_EQ(row.row, 5);
    EXPECT_EQ(row.channel, 7);
    EXPECT_EQ(row.got, AsType(DType::kBf16, was + 0.5));
    EXPECT_NEAR(row.want, was, 0.05);
  }
  EXPECT_NE(Describe(*check).find("out sequence 1 head 2 row 5 channel 7"),
            std::string::npos);
}

// A quarter of a step of the type is explained; eight are not.
TEST(Judgement, KnowsTheStepsOfTheType) {
  for (const auto& [dtype, step] :
       {std::pair{"f32", 0x1p-23}, {"f16", 0x1p-10}, {"bf16", 0x1p-7}}) {
    for (const double steps : {0.25, 8.0}) {
      PlainAttention plain(Str("fwd {} h=2 d=32 q=30 k=40", dtype));
      plain.Run();
      for (double& x : plain["out"].values) x *= 1 + steps * step;
      EXPECT_EQ(Only(plain.Check()).judgement.right(), steps < 1) << dtype;
    }
  }
}

TEST(Judgement, NoticesWhatIsNoNumber) {
  for (const double value : {NAN, INFINITY, -INFINITY}) {
    PlainAttention plain("fwd f16 h=2 d=32 q=30 k=40");
    plain.Run();
    plain["out"].values[100] = value;
    const Result<TensorCheck> check = plain.Check();
    EXPECT_EQ(Only(check).judgement.wrong_rows, 1);
    EXPECT_EQ(Only(check).wrong_specials, 1);
    EXPECT_EQ(Only(check).wrong_zeros, 0);
  }
}

TEST(Judgement, CountsRowsThatNobodyWrote) {
  PlainAttention plain("fwd f16 h=2 d=32 q=30 k=40");
  plain.Run();
  std::fill_n(plain["out"].values.begin(), 3 * 2 * 32, 0.0);
  const Result<TensorCheck> check = plain.Check();
  EXPECT_EQ(Only(check).judgement.wrong_rows, 6);
  EXPECT_EQ(Only(check).wrong_zeros, 6);
}

// Rows that see nothing are 0, to the last bit.
TEST(Judgement, WantsZerosWhereNothingIsSeen) {
  PlainAttention plain("fwd bf16 h=2 d=32 q=30 k=20 causal");
  plain.Run();
  for (double& x : plain["out"].values) x = std::isnan(x) ? 0 : x;
  EXPECT_TRUE(Only(plain.Check()).judgement.right());
  plain["out"].values[40] = 0x1p-20;
  EXPECT_EQ(Only(plain.Check()).judgement.wrong_rows, 1);
}

}  // namespace
}  // namespace flashacl
