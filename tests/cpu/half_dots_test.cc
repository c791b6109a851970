// SPDX-License-Identifier: Apache-2.0
// Whether this processor multiplies fp16 as it is.
#include "cpu/half_dots.h"

#include <gtest/gtest.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdint>

namespace flashacl::cpu {
namespace {

TEST(HalfDots, AreThoseOfTheProcessor) {
#if defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
    uint64_t features = 0;
    asm("mrs %0, ID_AA64ISAR0_EL1" : "=r"(features));
    EXPECT_EQ(HasHalfInstruction(), (features >> 48 & 0xF) != 0);
  }
#else
  EXPECT_FALSE(HasHalfInstruction());
#endif
  EXPECT_EQ(ChooseHalfDots(true), HasHalfInstruction());
  EXPECT_FALSE(ChooseHalfDots(false));
}

TEST(HalfDots, AreWhatTestsChoose) {
  SetHalfDotsForTest(true);
  EXPECT_TRUE(ChooseHalfDots(true));
  EXPECT_FALSE(ChooseHalfDots(false));
  SetHalfDotsForTest(false);
  EXPECT_FALSE(ChooseHalfDots(true));
  SetHalfDotsForTest({});
  EXPECT_EQ(ChooseHalfDots(true), HasHalfInstruction());
}

}  // namespace
}  // namespace flashacl::cpu
