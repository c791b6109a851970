// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <gtest/gtest.h>

namespace flashacl {
namespace {

constexpr std::string_view kKnown[] = {
    "info", "explain", "mask", "verify", "bench", "causal", "causal-left", "h"};

TEST(Nearest, FindsWhatWasMistyped) {
  EXPECT_EQ(Nearest("verfiy", kKnown), "verify");  // swapped
  EXPECT_EQ(Nearest("verif", kKnown), "verify");   // dropped
  EXPECT_EQ(Nearest("masks", kKnown), "mask");     // added
  EXPECT_EQ(Nearest("bemch", kKnown), "bench");    // changed
  EXPECT_EQ(Nearest("Casual", kKnown), "causal");  // swapped, another case
  EXPECT_EQ(Nearest("casual-left", kKnown), "causal-left");
  EXPECT_EQ(Nearest("explain", kKnown), "explain");
}

TEST(Nearest, DoesNotGuess) {
  EXPECT_EQ(Nearest("paint", kKnown), "");
  EXPECT_EQ(Nearest("", kKnown), "");
  // Any letter is one change from any other.
  EXPECT_EQ(Nearest("g", kKnown), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), kKnown), "");
  EXPECT_EQ(Nearest("mask", {}), "");
}

TEST(Nearest, AsksAQuestion) {
  EXPECT_EQ(DidYouMean("verfiy", kKnown), "; did you mean verify?");
  EXPECT_EQ(DidYouMean("paint", kKnown), "");
}

}  // namespace
}  // namespace flashacl
