// SPDX-License-Identifier: Apache-2.0
// Sizes of element types, and half precision without infinities.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "acl/acl.h"

namespace {

TEST(DataType, SizesAreThoseOfTheTable) {
  const struct {
    int type;
    size_t size;
  } table[] = {{-1, 0},
               {0, 4},
               {1, 2},
               {2, 1},
               {3, 4},
               {4, 1},
               {6, 2},
               {7, 2},
               {8, 4},
               {9, 8},
               {10, 8},
               {11, 8},
               {12, 1},
               {13, 0},
               {16, 8},
               {17, 16},
               {27, 2},
               {29, 1},
               {30, 1},
               {33, 4},
               {34, 1},
               {35, 1},
               {36, 1},
               {37, 1},
               {38, 8},
               {39, 8},
               {40, 8},
               {41, 8},
               // Unknown ones, as in CANN.
               {5, 8},
               {14, 8},
               {28, 8},
               {42, 8}};
  for (const auto& row : table) {
    EXPECT_EQ(aclDataTypeSize(static_cast<aclDataType>(row.type)), row.size)
        << row.type;
  }
}

TEST(DataType, HalvesSaturate) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    float value;
    aclFloat16 half;
  } table[] = {{0.0f, 0},
               {-0.0f, 0x8000},
               {1.0f, 0x3C00},
               {65504.0f, 0x7BFF},
               {65520.0f, 0x7BFF},
               {1e30f, 0x7BFF},
               {inf, 0x7BFF},
               {-inf, 0xFBFF},
               {nan, 0x7BFF},
               {-nan, 0x7BFF},
               {-1e30f, 0xFBFF},
               {0x1p-24f, 1},
               {0x1p-25f, 0},
               {0x1.8p-24f, 2},
               {1.00048828125f, 0x3C00},
               {1.00146484375f, 0x3C02}};
  for (const auto& row : table) {
    EXPECT_EQ(aclFloatToFloat16(row.value), row.half) << row.value;
  }
}

TEST(DataType, EveryFiniteHalfComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<aclFloat16>(bits);
    const float value = aclFloat16ToFloat(half);
    ASSERT_TRUE(std::isfinite(value)) << bits;
    if ((bits & 0x7C00) != 0x7C00) {
      ASSERT_EQ(aclFloatToFloat16(value), half) << bits;
    }
  }
  EXPECT_EQ(aclFloat16ToFloat(0x7C00), 65536.0f);
  EXPECT_EQ(aclFloat16ToFloat(0xFC00), -65536.0f);
  EXPECT_EQ(aclFloat16ToFloat(0x7E00), 98304.0f);
  EXPECT_EQ(aclFloat16ToFloat(1), 0x1p-24f);
}

}  // namespace
