// SPDX-License-Identifier: Apache-2.0
// The report: verdicts, the worst rows with both numbers, and what the cause
// is.
#include "verify/check/tensor_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/verify/causes/plain_attention.h"

namespace flashacl {
namespace {

constexpr char kLine[] = "fwd f32 h=2 d=4 q=2x3 k=2x5";

// Element [row, head, channel] of the two sequences of three rows.
double& At(PlainAttention& of, int64_t row, int64_t head, int64_t channel) {
  return of["out"].values[static_cast<size_t>((row * 2 + head) * 4 + channel)];
}

bool Says(const TensorCheck& check, const std::string& text) {
  return Describe(check).find(text) != std::string::npos;
}

TEST(TensorCheck, NamesTheRowTheHeadAndBothNumbers) {
  PlainAttention wrong(kLine);
  wrong.Run();
  At(wrong, 4, 1, 2) = 77;  // row 1 of sequence 1
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  const CheckedResult& result = check->results[0];
  EXPECT_EQ(result.judgement.rows, 12);
  EXPECT_EQ(result.judgement.wrong_rows, 1);
  EXPECT_TRUE(Says(*check, "npu: WRONG in 1 of 12 rows")) << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 0: right")) << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 1: WRONG in heads 1; right in 0"))
      << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 1 head 1 row 1 channel 2: 77 is not"))
      << Describe(*check);
}

TEST(TensorCheck, TellsRowsThatNobodyWroteAndNaN) {
  PlainAttention wrong(kLine);
  wrong.Run();
  for (int64_t d = 0; d < 4; ++d) At(wrong, 0, 0, d) = 0;
  At(wrong, 1, 0, 3) = std::nan("");
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_EQ(check->results[0].wrong_zeros, 1);
  EXPECT_EQ(check->results[0].wrong_specials, 1);
  EXPECT_TRUE(Says(*check, "1 of the wrong rows are all 0"));
  EXPECT_TRUE(Says(*check, "1 of the wrong rows have a NaN or an infinity"));
}

TEST(TensorCheck, SaysTheCauseAndHowSureItIs) {
  PlainAttention wrong("fwd bf16 h=4/2 d=32 q=9 k=40");
  wrong.scale = 1;
  wrong.Run();
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_TRUE(Says(*check, "cause, sure: scale forgotten")) << Describe(*check);
}

}  // namespace
}  // namespace flashacl
