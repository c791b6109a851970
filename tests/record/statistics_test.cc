// SPDX-License-Identifier: Apache-2.0
// Statistics are those of a plain loop over the elements of a view.
#include "record/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/number.h"
#include "tests/cpu/targets.h"
#include "tests/testing/random.h"

namespace flashacl::record {
namespace {

template <typename T>
std::vector<std::byte> Bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Statistics, AreOfTheViewAlone) {
  const float nan = std::nanf("");
  const std::vector<std::byte> bytes =
      Bytes<float>({1, nan, -3, 5, INFINITY, nan, 100});
  const std::vector<int64_t> shape = {2, 2};
  const std::vector<int64_t> strides = {4, 2};
  // 1, -3, inf, 100.
  const Statistics found = StatisticsOf(bytes, {DType::kF32, shape, strides});
  EXPECT_EQ(found, (Statistics{4, 0, 1, -3, 100, 98.0 / 3}));
  EXPECT_FALSE(IsDense({DType::kF32, shape, strides}));
  const std::vector<int64_t> together = {2, 1};
  EXPECT_TRUE(IsDense({DType::kF32, shape, together}));
}

TEST(Statistics, KnowTheTypes) {
  const std::vector<int64_t> shape = {2};
  const std::vector<int64_t> strides = {1};
  const auto halves = Bytes<uint16_t>({F16FromF32(0.5f), 0x7C00});
  EXPECT_EQ(StatisticsOf(halves, {DType::kF16, shape, strides}),
            (Statistics{2, 0, 1, 0.5, 0.5, 0.5}));
  const auto brains = Bytes<uint16_t>({Bf16FromF32(-2), 0x7FC0});
  EXPECT_EQ(StatisticsOf(brains, {DType::kBf16, shape, strides}),
            (Statistics{2, 1, 0, -2, -2, -2}));
  const auto bytes = Bytes<int8_t>({-128, 127});
  EXPECT_EQ(StatisticsOf(bytes, {DType::kI8, shape, strides}),
            (Statistics{2, 0, 0, -128, 127, -0.5}));
  EXPECT_EQ(StatisticsOf(bytes, {DType::kNone, shape, strides}), Statistics());
}

// What a plain loop finds.
Statistics PlainStatistics(DType dtype, std::span<const std::byte> bytes) {
  Statistics found;
  double sum = 0;
  for (size_t at = 0; at < bytes.size(); at += SizeOf(dtype)) {
    const double x = ReadNumber(dtype, bytes.data() + at);
    ++found.count;
    found.nans += std::isnan(x);
    found.infinities += std::isinf(x);
    if (!std::isfinite(x)) continue;
    const bool first = found.count - found.nans - found.infinities == 1;
    found.min = first ? x : std::min(found.min, x);
    found.max = first ? x : std::max(found.max, x);
    sum += x;
  }
  const int64_t finite = found.count - found.nans - found.infinities;
  if (finite > 0) found.mean = sum / static_cast<double>(finite);
  return found;
}

void ExpectPlainStatistics(DType dtype, const std::vector<std::byte>& bytes) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(bytes.size()) /
                                      SizeOf(dtype)};
  const std::vector<int64_t> strides = {1};
  const Statistics found = StatisticsOf(bytes, {dtype, shape, strides});
  Statistics plain = PlainStatistics(dtype, bytes);
  // Sums in fp64 of so few numbers differ by less, in any order; fp32 sums of
  // four, by a rounding of each pair and one of both.
  const double size = std::max(std::fabs(plain.min), std::fabs(plain.max));
  const double of_four = (2 * 2 + 4) * 0x1p-24 / 4;
  EXPECT_NEAR(found.mean, plain.mean,
              (0x1p-52 * 1e5 + (SizeOf(dtype) == 2 ? of_four : 0)) * size);
  plain.mean = found.mean;
  EXPECT_EQ(found, plain) << Name(dtype) << ", " << shape[0] << " elements";
}

class StatisticsOn : public ::testing::TestWithParam<int64_t> {
 private:
  const testing::OnTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(EveryTarget, StatisticsOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

// Every number of 16 bits, alone and beside its neighbours; and random ones,
// few and many, with NaNs and infinities in some parts.
TEST_P(StatisticsOn, AreThoseOfAPlainLoop) {
  std::vector<std::byte> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto two = Bytes<uint16_t>({static_cast<uint16_t>(bits)});
    all.insert(all.end(), two.begin(), two.end());
    if (bits % 7 != 0) continue;
    ExpectPlainStatistics(DType::kF16, two);
    ExpectPlainStatistics(DType::kBf16, two);
  }
  Random random(3);
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBf16, DType::kI8, DType::kU8,
        DType::kBool, DType::kI32, DType::kI64, DType::kF64}) {
    if (SizeOf(dtype) == 2) ExpectPlainStatistics(dtype, all);
    for (const int64_t count : {0, 1, 3, 1023, 1024, 1025, 5000}) {
      const bool bits = dtype == DType::kU8 || dtype == DType::kBool;
      const int64_t least = bits ? 0 : -100;
      std::vector<std::byte> bytes(count * SizeOf(dtype));
      for (int64_t n = 0; n < count; ++n) {
        const bool special = n >= 2048 && random.OneIn(500);
        const bool floats =
            dtype == DType::kF32 || dtype == DType::kF64 || SizeOf(dtype) == 2;
        WriteNumber(dtype, &bytes[n * SizeOf(dtype)],
                    special && floats
                        ? INFINITY * static_cast<double>(random.Within(-1, 1))
                        : static_cast<double>(random.Within(least, 100)));
      }
      ExpectPlainStatistics(dtype, bytes);
    }
  }
}

// Of any number of them, whether they fill vectors or not.
TEST_P(StatisticsOn, HaveNoNegativeZero) {
  for (const size_t count : {1, 3, 64, 67, 1024}) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(count)};
    const std::vector<int64_t> strides = {1};
    const auto zeros = Bytes(std::vector<float>(count, -0.0f));
    const Statistics found = StatisticsOf(zeros, {DType::kF32, shape, strides});
    EXPECT_FALSE(std::signbit(found.min) || std::signbit(found.max)) << count;
    EXPECT_EQ(found.count, static_cast<int64_t>(count));
  }
}

// Their sums need more bits than any part of them that is summed by itself.
TEST(Statistics, AreOfManyExtremeBytes) {
  for (const int64_t count : {127, 128, 129, 1024, 3000}) {
    const auto size = static_cast<size_t>(count);
    ExpectPlainStatistics(DType::kU8, Bytes(std::vector<uint8_t>(size, 255)));
    ExpectPlainStatistics(DType::kI8, Bytes(std::vector<int8_t>(size, -128)));
    ExpectPlainStatistics(DType::kI8, Bytes(std::vector<int8_t>(size, 127)));
  }
}

}  // namespace
}  // namespace flashacl::record
