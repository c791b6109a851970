// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/wrap.h"

#include <gtest/gtest.h>

namespace flashacl::tool {
namespace {

TEST(Wrap, BreaksAtBlanks) {
  EXPECT_EQ(Wrap("", 30), "");
  EXPECT_EQ(Wrap("short", 30), "short");
  EXPECT_EQ(Wrap("one two three four five six seven", 20),
            "one two three four\nfive six seven");
  EXPECT_EQ(Wrap("a line\nand another\n", 30), "a line\nand another\n");
}

TEST(Wrap, KeepsIndents) {
  EXPECT_EQ(Wrap("  one two three four five", 20),
            "  one two three four\n  five");
  EXPECT_EQ(Wrap("  one two three four five", 20, 2),
            "  one two three four\n    five");
}

TEST(Wrap, LeavesLongWords) {
  EXPECT_EQ(Wrap("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", 20),
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nb");
  EXPECT_EQ(Wrap("a bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", 20),
            "a\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
}

// Any text: no blank line comes up, no word is lost.
TEST(Wrap, LosesNothing) {
  const std::string text = "  ab c   def  ghijklmnopqrstuvwxyz  0123456789  z";
  for (int columns = 1; columns < 60; ++columns) {
    std::string words, wrapped_words;
    for (const char c : text) words += c == ' ' ? "" : std::string(1, c);
    for (const char c : Wrap(text, columns, 3)) {
      wrapped_words += c == ' ' || c == '\n' ? "" : std::string(1, c);
    }
    EXPECT_EQ(words, wrapped_words) << columns;
  }
}

}  // namespace
}  // namespace flashacl::tool
