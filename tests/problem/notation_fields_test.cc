// SPDX-License-Identifier: Apache-2.0
// NotationFields are read whole or not at all, and written as they are read.
#include "problem/notation_fields.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/random.h"

namespace flashacl::notation_fields {
namespace {

TEST(NotationFields, SplitKeepsEmptyParts) {
  EXPECT_EQ(Split("a::b:", ':'),
            (std::vector<std::string_view>{"a", "", "b", ""}));
  EXPECT_EQ(Split("", ':'), (std::vector<std::string_view>{""}));
}

TEST(NotationFields, WholeNumbersAreWhole) {
  EXPECT_EQ(ReadWhole("0", 0), 0);
  EXPECT_EQ(ReadWhole("-7", -9), -7);
  EXPECT_EQ(ReadWhole("1099511627776", 0), Band::kOpen);
  for (const char* wrong : {"", "+1", " 1", "1 ", "1.0", "0x1", "--1",
                            "1099511627777", "99999999999999999999", "-1"}) {
    EXPECT_FALSE(ReadWhole(wrong, 0)) << wrong;
  }
}

TEST(NotationFields, FloatsComeBackTheSame) {
  Random random(1);
  for (int round = 0; round < 10000; ++round) {
    const auto value = static_cast<float>(
        (random.Fraction() - 0.5) *
        static_cast<double>(int64_t{1} << random.Within(0, 60)));
    ASSERT_EQ(ReadFloat(WriteFloat(value)), value) << WriteFloat(value);
  }
  EXPECT_EQ(WriteFloat(0.1f), "0.1");
  for (const char* wrong : {"", "nan", "inf", "1x", "1e99"}) {
    EXPECT_FALSE(ReadFloat(wrong)) << wrong;
  }
}

TEST(NotationFields, LengthsRunTogether) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(ReadLengths("3,2x5,0x9,1"), (Lengths{3, 5, 5, 1}));
  EXPECT_EQ(WriteLengths({3, 5, 5, 1}), "3,2x5,1");
  EXPECT_EQ(WriteLengths({}), "0x0");
  EXPECT_EQ(ReadLengths("0x0"), Lengths());
  for (const char* wrong : {"", ",", "1,", "x5", "2x", "2x-5", "2y5", "2x3x4",
                            "2000000x1", "1048576x1,1"}) {
    EXPECT_FALSE(ReadLengths(wrong)) << wrong;
  }
}

TEST(NotationFields, RulesHaveTheirNames) {
  const auto same = [](const char* text, const MaskRule& rule) {
    const auto rules = ReadRules(text);
    ASSERT_TRUE(rules && rules->size() == 1) << text;
    EXPECT_EQ((*rules)[0], rule) << text;
    EXPECT_EQ(WriteRules(*rules), text);
  };
  same("full", MaskRule{});
  same("causal", Causal());
  same("causal-left", CausalTopLeft());
  same("window:3:-1", Window(3, -1));
  same("window:*:*", Window(Band::kOpen, Band::kOpen));
  same("band:-3:*", TopLeftBand(-3, Band::kOpen));
  MaskRule prefixed = TopLeftBand(-Band::kOpen, Band::kOpen);
  prefixed.band.prefix = 4;
  same("band:*:*:4", prefixed);
  EXPECT_EQ(WriteRules({Causal(), Causal(), MaskRule{}}), "2xcausal,full");
  EXPECT_EQ(ReadRules("2xcausal,full")->size(), 3u);
  for (const char* wrong :
       {"", "causal,", "window", "window:1", "band:1:2:3:4", "band:1:2:*",
        "causal:*", "left", "2causal", "band::1"}) {
    EXPECT_FALSE(ReadRules(wrong)) << wrong;
  }
}

TEST(NotationFields, AxesHaveAnOrder) {
  for (const char* text :
       {"j", "ij", "hj", "hij", "bj", "bij", "bhj", "bhij"}) {
    const auto axes = ReadAxes(text, "j");
    ASSERT_TRUE(axes) << text;
    EXPECT_EQ(WriteAxes(*axes, "j"), text);
  }
  for (const char* text : {"1", "h", "b", "bh"}) {
    const auto axes = ReadAxes(text, "");
    ASSERT_TRUE(axes) << text;
    EXPECT_EQ(WriteAxes(*axes, ""), text);
  }
  for (const char* wrong : {"", "i", "hbj", "jj", "bhi", "1"}) {
    EXPECT_FALSE(ReadAxes(wrong, "j")) << wrong;
  }
}

TEST(NotationFields, EncodingsMayHaveOffsets) {
  for (const char* text :
       {"tensor", "channel", "tensor+offset", "channel+offset", "row",
        "row-head+offset", "page-row", "page-row-head"}) {
    const auto encoding = ReadEncoding(text);
    ASSERT_TRUE(encoding) << text;
    EXPECT_EQ(WriteEncoding(*encoding), text);
  }
  for (const char* wrong : {"", "token", "tensor+", "tensor+offset+offset"}) {
    EXPECT_FALSE(ReadEncoding(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace flashacl::notation_fields
