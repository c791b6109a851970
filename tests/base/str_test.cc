// SPDX-License-Identifier: Apache-2.0
// Text is what the format says.
#include "base/str.h"

#include <gtest/gtest.h>

#include <vector>

namespace flashacl {
namespace {

TEST(Str, Formats) {
  EXPECT_EQ(Str("head {} of {}", 3, 8), "head 3 of 8");
  EXPECT_EQ(Str("{:.2f} {:>5} {}", 1.0 / 3, "ab", std::string("c")),
            "0.33    ab c");
}

TEST(Join, SeparatesAndForgivesNothing) {
  EXPECT_EQ(Join(std::vector<int64_t>{2, 16, 128}, ", "), "2, 16, 128");
  EXPECT_EQ(Join(std::vector<int64_t>{}, ", "), "");
  EXPECT_EQ(Join(std::vector<const char*>{"a"}, "-"), "a");
}

}  // namespace
}  // namespace flashacl
