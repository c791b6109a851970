// SPDX-License-Identifier: Apache-2.0
// What kernels leave to others: no number but the last, that fill no vector.
#include "record/statistics_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half.h"
#include "tests/cpu/targets.h"

namespace flashacl::record {
namespace {

class StatisticsKernel : public ::testing::TestWithParam<int64_t> {
 private:
  const testing::OnTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(EveryTarget, StatisticsKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

template <typename T>
FloatBlock LookAt(LookAtFloats look, const std::vector<T>& numbers) {
  return look(reinterpret_cast<const std::byte*>(numbers.data()),
              static_cast<int64_t>(numbers.size()));
}

// Four vectors are 64 numbers at most.
TEST_P(StatisticsKernel, LeavesFewNumbers) {
  for (const size_t size : {0, 1, 63, 64, 100, 1024, 1087}) {
    const FloatBlock found =
        LookAt(Kernels().f32, std::vector<float>(size, 2.0f));
    EXPECT_LE(found.count, static_cast<int64_t>(size));
    EXPECT_LT(static_cast<int64_t>(size) - found.count, 64);
    EXPECT_EQ(found.sum, 2.0 * static_cast<double>(found.count));
  }
}

TEST_P(StatisticsKernel, CountsWhatIsNotFinite) {
  std::vector<uint16_t> numbers(1024, F16FromF32(-0.5f));
  numbers[3] = F16FromF32(INFINITY);
  numbers[700] = F16FromF32(-INFINITY);
  numbers[701] = F16FromF32(std::nanf(""));
  numbers[1023] = F16FromF32(7);
  const FloatBlock found = LookAt(Kernels().f16, numbers);
  EXPECT_EQ(found.count, 1024);
  EXPECT_EQ(found.infinities, 2);
  EXPECT_EQ(found.nans, 1);
  EXPECT_EQ(found.min, -0.5f);
  EXPECT_EQ(found.max, 7.0f);
  EXPECT_EQ(found.sum, -0.5 * 1020 + 7);
}

// Of which four would be infinite in fp32.
TEST_P(StatisticsKernel, AddsGreatNumbers) {
  const float great = F32FromBf16(0x7F7F);
  const FloatBlock found =
      LookAt(Kernels().bf16, std::vector<uint16_t>(1024, 0x7F7F));
  EXPECT_EQ(found.count, 1024);
  EXPECT_EQ(found.infinities, 0);
  EXPECT_EQ(found.max, great);
  EXPECT_EQ(found.sum, 1024 * static_cast<double>(great));
}

}  // namespace
}  // namespace flashacl::record
