// SPDX-License-Identifier: Apache-2.0
// Which way of multiplying rows of 8 bits this processor gets.
#include "cpu/byte_dots.h"

#include <gtest/gtest.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace flashacl::cpu {
namespace {

#if defined(__x86_64__)
TEST(ByteDots, AreThoseOfTheProcessorThatLinuxDescribes) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const bool has = text.find(" avx512_vnni") != text.npos;
  EXPECT_EQ(HasByteInstruction(), has);
  EXPECT_FALSE(HasByteTwoByTwo());
  EXPECT_EQ(ChooseByteDots(true),
            has ? ByteDots::kInstruction : ByteDots::kNone);
  const bool matrices = HasMatrices() && text.find(" amx_int8") != text.npos;
  EXPECT_EQ(HasByteMatrices(), matrices);
  if (matrices) {
    EXPECT_EQ(ChooseByteDots(true, MatrixCode::kInstructions),
              ByteDots::kMatrices);
  }
}
#elif defined(__aarch64__)
// Not those of the file: under qemu-user it is about the processor beneath.
TEST(ByteDots, AreThoseOfTheProcessor) {
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
    uint64_t features = 0;
    asm("mrs %0, ID_AA64ISAR0_EL1" : "=r"(features));
    EXPECT_EQ(HasByteInstruction(), (features >> 44 & 0xF) != 0);
    asm("mrs %0, ID_AA64ISAR1_EL1" : "=r"(features));
    EXPECT_EQ(HasByteTwoByTwo(), (features >> 52 & 0xF) != 0);
  }
  EXPECT_EQ(ChooseByteDots(true), HasByteTwoByTwo() ? ByteDots::kTwoByTwo
                                  : HasByteInstruction()
                                      ? ByteDots::kInstruction
                                      : ByteDots::kNone);
  EXPECT_FALSE(HasByteMatrices());
}
#endif

TEST(ByteDots, AreWhatTestsChoose) {
  EXPECT_EQ(ChooseByteDots(false), ByteDots::kNone);
  SetByteDotsForTest(ByteDots::kMultiplyAdds);
  EXPECT_EQ(ChooseByteDots(true), ByteDots::kMultiplyAdds);
  EXPECT_EQ(ChooseByteDots(false), ByteDots::kMultiplyAdds);
  SetByteDotsForTest(ByteDots::kMatrices);
  EXPECT_EQ(ChooseByteDots(true), ByteDots::kNone);
  EXPECT_EQ(ChooseByteDots(false, MatrixCode::kEmulated), ByteDots::kMatrices);
  EXPECT_EQ(ChooseByteDots(true, MatrixCode::kInstructions),
            HasByteMatrices() ? ByteDots::kMatrices : ByteDots::kNone);
  SetByteDotsForTest(ByteDots::kNone);
  EXPECT_EQ(ChooseByteDots(true), ByteDots::kNone);
  SetByteDotsForTest({});
  EXPECT_EQ(ChooseByteDots(false), ByteDots::kNone);
}

}  // namespace
}  // namespace flashacl::cpu
