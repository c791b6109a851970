// SPDX-License-Identifier: Apache-2.0
// Sizes and names of element types, and elements as numbers.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/number.h"

namespace flashacl {
namespace {

constexpr DType kAll[] = {DType::kF32, DType::kF16,  DType::kBf16, DType::kI8,
                          DType::kU8,  DType::kBool, DType::kI32,  DType::kI64,
                          DType::kU64, DType::kF64};

TEST(DType, NamesAreReadBack) {
  for (DType dtype : kAll) {
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
    EXPECT_GT(SizeOf(dtype), 0);
  }
  EXPECT_EQ(SizeOf(DType::kNone), 0);
  EXPECT_EQ(SizeOf(DType::kBf16), 2);
  EXPECT_EQ(ParseDType("quad"), DType::kNone);
  for (const char* name : {"fp16", "float16", "half"}) {
    EXPECT_EQ(ParseDType(name), DType::kF16);
  }
  EXPECT_EQ(ParseDType("bfloat16"), DType::kBf16);
  for (const char* name : {"fp32", "float32", "float"}) {
    EXPECT_EQ(ParseDType(name), DType::kF32);
  }
  EXPECT_EQ(ParseDType(""), DType::kNone);
}

TEST(DType, ThreeAreFloats) {
  int floats = 0;
  for (DType dtype : kAll) floats += IsFloat(dtype);
  EXPECT_EQ(floats, 3);
  EXPECT_FALSE(IsFloat(DType::kF64));
}

TEST(Number, IsWrittenAndReadBack) {
  for (DType dtype : kAll) {
    std::byte bytes[16];
    for (std::byte& byte : bytes) byte = std::byte{0xAA};
    WriteNumber(dtype, bytes, 100);
    EXPECT_EQ(ReadNumber(dtype, bytes), 100) << Name(dtype);
    EXPECT_EQ(bytes[SizeOf(dtype)], std::byte{0xAA}) << Name(dtype);
  }
}

TEST(Number, IndicesAreExactWhereverTheyLie) {
  std::byte bytes[16];
  for (const int64_t offset : {0, 3}) {
    Store(bytes + offset, int32_t{-7});
    EXPECT_EQ(ReadIndex(DType::kI32, bytes + offset), -7);
    Store(bytes + offset, (int64_t{1} << 53) + 1);
    EXPECT_EQ(ReadIndex(DType::kI64, bytes + offset), (int64_t{1} << 53) + 1);
  }
}

TEST(Number, RoundsToNearestEven) {
  const auto rounded = [](DType dtype, double value) {
    std::byte bytes[8];
    WriteNumber(dtype, bytes, value);
    return ReadNumber(dtype, bytes);
  };
  EXPECT_EQ(rounded(DType::kI8, -2.5), -2);
  EXPECT_EQ(rounded(DType::kI8, 3.5), 4);
  EXPECT_EQ(rounded(DType::kI32, -7), -7);
  EXPECT_EQ(rounded(DType::kF32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(rounded(DType::kF16, 2049), 2048);
  EXPECT_EQ(rounded(DType::kBf16, 259), 260);
  EXPECT_EQ(rounded(DType::kF64, 0.1), 0.1);
  EXPECT_TRUE(std::isnan(rounded(DType::kF16, std::nan(""))));
}

}  // namespace
}  // namespace flashacl
