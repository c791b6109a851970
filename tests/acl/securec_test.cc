// SPDX-License-Identifier: Apache-2.0
// The bounded functions: their codes, what they write and what they clear.
#include "securec.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace {

constexpr size_t kTooLarge = size_t{1} << 31;

class SecurecTest : public ::testing::Test {
 protected:
  // Whether everything is zero up to `n`, and as before after it.
  bool ZeroUpTo(size_t n) const {
    for (size_t i = 0; i < sizeof to_; ++i) {
      if (to_[i] != (i < n ? 0 : 'x')) return false;
    }
    return true;
  }
  void Reset() { std::memset(to_, 'x', sizeof to_); }
  void SetUp() override { Reset(); }

  char to_[16];
};

TEST_F(SecurecTest, CopiesOfMemory) {
  for (auto* copy : {memcpy_s, memmove_s}) {
    EXPECT_EQ(copy(to_, 4, "abcd", 4), EOK);
    EXPECT_EQ(std::string(to_, 5), "abcdx");
    EXPECT_EQ(copy(to_, 4, "abcd", 0), EOK);
    EXPECT_EQ(copy(to_, 4, to_, 4), EOK);
    EXPECT_EQ(copy(to_, 0, "a", 0), ERANGE);
    EXPECT_EQ(copy(to_, kTooLarge, "a", 1), ERANGE);
    EXPECT_EQ(copy(nullptr, 4, "a", 1), EINVAL);
    Reset();
    EXPECT_EQ(copy(to_, 4, nullptr, 1), EINVAL_AND_RESET);
    EXPECT_TRUE(ZeroUpTo(4));
    Reset();
    EXPECT_EQ(copy(to_, 4, "abcdef", 5), ERANGE_AND_RESET);
    EXPECT_TRUE(ZeroUpTo(4));
    Reset();
  }
  std::memcpy(to_, "abcdef", 6);
  EXPECT_EQ(memmove_s(to_ + 2, 4, to_, 4), EOK);
  EXPECT_EQ(std::string(to_, 6), "ababcd");
  EXPECT_EQ(memcpy_s(to_ + 2, 4, to_, 4), EOVERLAP_AND_RESET);
  EXPECT_EQ(std::string(to_, 6), std::string("ab\0\0\0\0", 6));
}

TEST_F(SecurecTest, Setting) {
  EXPECT_EQ(memset_s(to_, 8, 0, 4), EOK);
  EXPECT_TRUE(ZeroUpTo(4));
  EXPECT_EQ(memset_s(to_, 8, 0, 9), ERANGE_AND_RESET);
  EXPECT_TRUE(ZeroUpTo(8));
  EXPECT_EQ(memset_s(nullptr, 8, 0, 4), EINVAL);
  EXPECT_EQ(memset_s(to_, 0, 0, 4), ERANGE);
}

TEST_F(SecurecTest, CopiesOfStrings) {
  EXPECT_EQ(strcpy_s(to_, 4, "abc"), EOK);
  EXPECT_STREQ(to_, "abc");
  EXPECT_EQ(to_[4], 'x');
  EXPECT_EQ(strcpy_s(to_, 4, to_), EOK);
  EXPECT_EQ(strcpy_s(to_, 4, to_ + 1), EOVERLAP_AND_RESET);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(strcpy_s(to_, 4, "abcd"), ERANGE_AND_RESET);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(strcpy_s(to_, 4, nullptr), EINVAL_AND_RESET);
  EXPECT_EQ(strcpy_s(nullptr, 4, "a"), EINVAL);
  EXPECT_EQ(strcpy_s(to_, 0, "a"), ERANGE);
  EXPECT_EQ(strncpy_s(to_, 4, "abcdef", 3), EOK);
  EXPECT_STREQ(to_, "abc");
  EXPECT_EQ(strncpy_s(to_, 4, "abcdef", 4), ERANGE_AND_RESET);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(strncpy_s(to_, 4, "a", SIZE_MAX), ERANGE_AND_RESET);
}

TEST_F(SecurecTest, Appending) {
  std::strcpy(to_, "ab");
  EXPECT_EQ(strcat_s(to_, 6, "cd"), EOK);
  EXPECT_STREQ(to_, "abcd");
  EXPECT_EQ(strncat_s(to_, 6, "efg", 1), EOK);
  EXPECT_STREQ(to_, "abcde");
  EXPECT_EQ(strcat_s(to_, 6, "f"), ERANGE_AND_RESET);
  EXPECT_STREQ(to_, "");
  std::strcpy(to_, "ab");
  EXPECT_EQ(strcat_s(to_, 6, to_ + 1), EOVERLAP_AND_RESET);
  Reset();
  EXPECT_EQ(strcat_s(to_, 6, "a"), EINVAL_AND_RESET);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(strcat_s(nullptr, 6, "a"), EINVAL);
  EXPECT_EQ(strncat_s(to_, 6, nullptr, 1), EINVAL_AND_RESET);
}

TEST_F(SecurecTest, Tokens) {
  char text[] = "a,b;;c";
  char* state = nullptr;
  EXPECT_STREQ(strtok_s(text, ",;", &state), "a");
  EXPECT_STREQ(strtok_s(nullptr, ",;", &state), "b");
  EXPECT_STREQ(strtok_s(nullptr, ",;", &state), "c");
  EXPECT_EQ(strtok_s(nullptr, ",;", &state), nullptr);
  EXPECT_EQ(strtok_s(text, nullptr, &state), nullptr);
  EXPECT_EQ(strtok_s(text, ",", nullptr), nullptr);
  state = nullptr;
  EXPECT_EQ(strtok_s(nullptr, ",", &state), nullptr);
}

TEST_F(SecurecTest, Printing) {
  EXPECT_EQ(sprintf_s(to_, 6, "%d-%s", 12, "ab"), 5);
  EXPECT_STREQ(to_, "12-ab");
  EXPECT_EQ(to_[6], 'x');
  EXPECT_EQ(sprintf_s(to_, 5, "%d-%s", 12, "ab"), -1);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(snprintf_s(to_, 8, 7, "%s", "abcdefg"), 7);
  EXPECT_EQ(snprintf_s(to_, 8, 3, "%s", "abcdefg"), -1);
  EXPECT_STREQ(to_, "abc");
  EXPECT_EQ(snprintf_s(to_, 4, SIZE_MAX, "%s", "abcdefg"), -1);
  EXPECT_STREQ(to_, "abc");
  EXPECT_EQ(snprintf_s(to_, 4, 8, "%s", "abcdefg"), -1);
  EXPECT_STREQ(to_, "");
  EXPECT_EQ(sprintf_s(nullptr, 4, "a"), -1);
  EXPECT_EQ(sprintf_s(to_, 0, "a"), -1);
  const char* const null = nullptr;
  EXPECT_EQ(snprintf_s(to_, 4, 3, null), -1);
  EXPECT_STREQ(to_, "");
}

}  // namespace
