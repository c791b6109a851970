// SPDX-License-Identifier: Apache-2.0
// sscanf_s: what plain scanf reads, within the buffers it was given.
#include <gtest/gtest.h>

#include <string>

#include "securec.h"

namespace {

TEST(SecurecScan, ReadsNumbersAndText) {
  int number = 0;
  unsigned hex = 0;
  char word[4] = "";
  char set[8] = "";
  char two[2] = {};
  EXPECT_EQ(sscanf_s("12 abc xyz9 0x1F !?", "%d %s %[a-z]9 %x %2c", &number,
                     word, sizeof word, set, 8u, &hex, two, 2u),
            5);
  EXPECT_EQ(number, 12);
  EXPECT_STREQ(word, "abc");
  EXPECT_STREQ(set, "xyz");
  EXPECT_EQ(hex, 0x1Fu);
  EXPECT_EQ(std::string(two, 2), "!?");
}

TEST(SecurecScan, TextThatDoesNotFitIsRefused) {
  int number = 0;
  char word[4] = "old";
  EXPECT_EQ(sscanf_s("12 abcd", "%d %s", &number, word, 4u), 1);
  EXPECT_STREQ(word, "");
  EXPECT_EQ(sscanf_s("abcd", "%3s", word, 4u), 1);
  EXPECT_STREQ(word, "abc");
  EXPECT_EQ(sscanf_s("abcd", "%2c", word, 1u), 0);
  EXPECT_EQ(sscanf_s("abcd", "%s", word, 0u), 0);
}

TEST(SecurecScan, FollowsScanfOtherwise) {
  int a = 7, b = 7, n = 0;
  char word[4];
  EXPECT_EQ(sscanf_s("", "%d", &a), -1);
  EXPECT_EQ(sscanf_s("x", "%d", &a), 0);
  EXPECT_EQ(a, 7);
  EXPECT_EQ(sscanf_s("1%2", "%d%%%d%n", &a, &b, &n), 2);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(sscanf_s("skip 5", "%*s %d", &a), 1);
  EXPECT_EQ(a, 5);
  EXPECT_EQ(sscanf_s("]a", "%[]a]", word, 4u), 1);
  EXPECT_STREQ(word, "]a");
}

TEST(SecurecScan, BadArgumentsAndWhatCannotBeBounded) {
  int a = 0;
  char word[4];
  const char* const null = nullptr;
  EXPECT_EQ(sscanf_s(nullptr, "%d", &a), -1);
  EXPECT_EQ(sscanf_s("1", null, &a), -1);
  EXPECT_EQ(sscanf_s("1", "%d", static_cast<int*>(nullptr)), -1);
  EXPECT_EQ(sscanf_s("a", "%ls", word, 4u), -1);
  EXPECT_EQ(sscanf_s("a", "%ms", word, 4u), -1);
  EXPECT_EQ(sscanf_s("a", "%", word, 4u), -1);
  EXPECT_EQ(sscanf_s("a", "%[a", word, 4u), -1);
  EXPECT_EQ(sscanf_s("a", "%9999999c", word, 4u), -1);
}

}  // namespace
