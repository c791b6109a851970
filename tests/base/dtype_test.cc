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

TEST(DType, AWordHasEightNumbers) {
  EXPECT_EQ(ParseDType(Name(DType::kI4x8)), DType::kI4x8);
  EXPECT_EQ(SizeOf(DType::kI4x8), 4);
  EXPECT_EQ(NumbersOf(DType::kI4x8), 8);
  for (DType dtype : kAll) {
    EXPECT_EQ(NumbersOf(dtype), 1);
    EXPECT_EQ(IsQuantised(dtype), dtype == DType::kI8) << Name(dtype);
  }
  EXPECT_TRUE(IsQuantised(DType::kI4x8));
  EXPECT_FALSE(IsFloat(DType::kI4x8));
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

// The first is in the lowest bits; a word may lie anywhere.
TEST(Number, FourBitsAreReadAndWrittenOneByOne) {
  std::byte bytes[8]{};
  Store(bytes + 1, uint32_t{0x00000008});
  EXPECT_EQ(ReadFourBits(bytes + 1, 0), -8);
  for (int64_t n = 1; n < 8; ++n) EXPECT_EQ(ReadFourBits(bytes + 1, n), 0);
  Store(bytes + 1, uint32_t{0xFEDCBA98});
  for (int32_t n = 0; n < 8; ++n) {
    EXPECT_EQ(ReadFourBits(bytes + 1, n), n - 8);
    WriteFourBits(bytes + 1, n, n);
    EXPECT_EQ(ReadFourBits(bytes + 1, n), n);
    for (int32_t other = n + 1; other < 8; ++other) {
      EXPECT_EQ(ReadFourBits(bytes + 1, other), other - 8) << "left alone";
    }
  }
  EXPECT_EQ(Load<uint32_t>(bytes + 1), 0x76543210u);
  WriteFourBits(bytes + 1, 7, -1);
  EXPECT_EQ(Load<uint32_t>(bytes + 1), 0xF6543210u);
  EXPECT_EQ(bytes[0], std::byte{0});
  EXPECT_EQ(bytes[5], std::byte{0});
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
