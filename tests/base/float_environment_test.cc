// SPDX-License-Identifier: Apache-2.0
#include "base/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cfloat>

namespace flashacl {
namespace {

float Third() {
  volatile float three = 3;
  return 1 / three;
}

TEST(DefaultFloats, RoundsToNearestAndPutsBack) {
  const float nearest = Third();
  ASSERT_EQ(std::fesetround(FE_DOWNWARD), 0);
  std::feclearexcept(FE_ALL_EXCEPT);
  const float down = Third();
  std::feclearexcept(FE_ALL_EXCEPT);
  float within = 0;
  {
    const DefaultFloats floats;
    within = Third();
  }
  const float after = Third();
  const bool clean = [] {
    std::feclearexcept(FE_ALL_EXCEPT);
    {
      const DefaultFloats floats;
      (void)Third();
    }
    return std::fetestexcept(FE_ALL_EXCEPT) == 0;
  }();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(within, nearest);
  EXPECT_EQ(after, down);
  EXPECT_TRUE(clean);
  EXPECT_NE(down, nearest);
}

#if defined(__x86_64__)
TEST(DefaultFloats, KeepsDenormals) {
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flushes them, in and out
  float half = 0;
  {
    const DefaultFloats floats;
    volatile float least = FLT_MIN;
    half = least / 2;
  }
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(half, FLT_MIN / 2);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

}  // namespace
}  // namespace flashacl
