// SPDX-License-Identifier: Apache-2.0
#include "cpu/int16_dots.h"

#include <gtest/gtest.h>

#include "cpu/byte_dots.h"
#include "cpu/processor_kind.h"

namespace flashacl::cpu {
namespace {

class ChooseInt16 : public ::testing::Test {
 protected:
  ~ChooseInt16() override { SetInt16DotsForTest({}); }
};

TEST_F(ChooseInt16, IsNothingBesideMatrixRegistersOrWithoutTheCode) {
  EXPECT_EQ(ChooseInt16Dots(true, ByteDots::kMatrices), Int16Dots::kNone);
  EXPECT_EQ(ChooseInt16Dots(false, ByteDots::kNone), Int16Dots::kNone);
  const Int16Dots wanted = !HasByteInstruction() ? Int16Dots::kMultiplyAdds
                           : kProcessorKind == ProcessorKind::kOther
                               ? Int16Dots::kInTwos
                               : Int16Dots::kInstruction;
  for (const ByteDots bytes : {ByteDots::kNone, ByteDots::kInstruction}) {
    EXPECT_EQ(ChooseInt16Dots(true, bytes), wanted);
  }
}

TEST_F(ChooseInt16, IsWhatATestChooses) {
  SetInt16DotsForTest(Int16Dots::kMultiplyAdds);
  EXPECT_EQ(ChooseInt16Dots(true, ByteDots::kMatrices),
            Int16Dots::kMultiplyAdds);
  EXPECT_EQ(ChooseInt16Dots(false, ByteDots::kNone), Int16Dots::kNone);
  SetInt16DotsForTest(Int16Dots::kNone);
  EXPECT_EQ(ChooseInt16Dots(true, ByteDots::kInstruction), Int16Dots::kNone);
}

}  // namespace
}  // namespace flashacl::cpu
