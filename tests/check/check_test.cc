// SPDX-License-Identifier: Apache-2.0
// The C function and its C++ face; what it judges is tests/verify's.
#include "flashacl/check.h"

#include <gtest/gtest.h>

namespace {

// One row that sees one key: the result is the value.
const float kQuery[] = {1, 2};
const float kValue[] = {3, 4};
const float kOther[] = {3, 5};
constexpr char kLine[] = "fwd f32 h=1 d=2 q=1 k=1";

flashacl::CheckReport Judge(const float* out) {
  const std::vector<int64_t> dims = {1, 1, 2};
  return flashacl::Check(kLine, {{"q", "f32", dims, kQuery},
                                 {"k", "f32", dims, kQuery},
                                 {"v", "f32", dims, kValue},
                                 {"out", "f32", dims, out}});
}

TEST(Check, SaysWhoIsRight) {
  EXPECT_TRUE(Judge(kValue).right());
  const flashacl::CheckReport wrong = Judge(kOther);
  EXPECT_EQ(wrong.verdict, FLASHACL_CHECK_WRONG);
  EXPECT_NE(wrong.text.find("row 0 channel 1: 5 is not 4"), std::string::npos)
      << wrong.text;
}

// The row's only score is its maximum, and its log-sum-exp.
TEST(Check, JudgesWhatSoftmaxLeaves) {
  const std::vector<int64_t> dims = {1, 1, 2};
  const auto judge = [&](float max, float sum, float lse) {
    return flashacl::Check("fwd f32 h=1 d=2 q=1 k=1 scale:1 stats lse",
                           {{"q", "f32", dims, kQuery},
                            {"k", "f32", dims, kQuery},
                            {"v", "f32", dims, kValue},
                            {"max", "f32", {1, 1}, &max},
                            {"sum", "f32", {1, 1}, &sum},
                            {"lse", "f32", {1, 1}, &lse}});
  };
  EXPECT_TRUE(judge(5, 1, 5).right()) << judge(5, 1, 5).text;
  const flashacl::CheckReport wrong = judge(5, 2, 5);
  EXPECT_EQ(wrong.verdict, FLASHACL_CHECK_WRONG);
  EXPECT_NE(wrong.text.find("row sum sequence 0 head 0 row 0"),
            std::string::npos)
      << wrong.text;
  EXPECT_EQ(judge(6, 1, 5).verdict, FLASHACL_CHECK_WRONG);
  EXPECT_EQ(judge(5, 1, 6).verdict, FLASHACL_CHECK_WRONG);
}

TEST(Check, SaysWhatMakesNoSense) {
  char text[16];
  EXPECT_EQ(flashaclCheck(nullptr, nullptr, nullptr, 0, text, sizeof(text)),
            FLASHACL_CHECK_MISTAKE);
  EXPECT_STREQ(text, "line: null");
  EXPECT_EQ(flashaclCheck(kLine, nullptr, nullptr, 0, text, sizeof(text)),
            FLASHACL_CHECK_MISTAKE);
  EXPECT_STREQ(text, "tensors: null");
  flashaclCheckTensor tensor = {};
  EXPECT_EQ(flashaclCheck(kLine, nullptr, &tensor, 1, nullptr, 0),
            FLASHACL_CHECK_MISTAKE);
  const flashacl::CheckReport none = flashacl::Check(kLine, {});
  EXPECT_EQ(none.verdict, FLASHACL_CHECK_MISTAKE);
  const int64_t dims[] = {1, 1, -2};
  tensor = {"out", "f32", dims, 3, kValue};
  EXPECT_EQ(flashaclCheck(kLine, nullptr, &tensor, 1, text, sizeof(text)),
            FLASHACL_CHECK_MISTAKE);
  EXPECT_STREQ(text, "out: (1, 1, -2)");
}

}  // namespace
