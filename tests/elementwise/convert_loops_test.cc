// SPDX-License-Identifier: Apache-2.0
// Every pair of types, at the numbers where conversions go wrong, in loops with
// and without steps; all halves there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "base/str.h"
#include "elementwise/convert.h"
#include "elementwise/loops.h"
#include "elementwise/type.h"
#include "tests/testing/element.h"

namespace flashacl::elementwise {
namespace {

using testing::ConvertElement;
using testing::IsElement;
using testing::ReadElement;
using testing::RealElement;
using testing::WriteElement;

struct Named {
  Type type;
  aclDataType number;
};
constexpr Named kAll[] = {
    {Type::kF32, ACL_FLOAT},  {Type::kF16, ACL_FLOAT16},
    {Type::kBf16, ACL_BF16},  {Type::kF64, ACL_DOUBLE},
    {Type::kI8, ACL_INT8},    {Type::kI16, ACL_INT16},
    {Type::kI32, ACL_INT32},  {Type::kI64, ACL_INT64},
    {Type::kU8, ACL_UINT8},   {Type::kU16, ACL_UINT16},
    {Type::kU32, ACL_UINT32}, {Type::kU64, ACL_UINT64},
    {Type::kBool, ACL_BOOL},
};

TEST(Type, SizesAreThoseOfTheInterface) {
  for (const Named& named : kAll) {
    EXPECT_EQ(SizeOf(named.type), testing::BytesOfType(named.number))
        << Name(named.type);
  }
  EXPECT_EQ(SizeOf(Type::kC64), 8);
  EXPECT_EQ(SizeOf(Type::kC128), 16);
}

TEST(Convert, EveryHalfWidens) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(WidenF16(half)),
              std::bit_cast<uint32_t>(F32FromF16(half)))
        << bits;
  }
}

// Around each half, and around the middle of each two: whatever decides a
// rounding.
TEST(Convert, EveryFloatBesideAHalfNarrows) {
  for (uint32_t bits = 0; bits <= 0x7F80; ++bits) {
    for (const uint32_t low : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu}) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const uint32_t wide = (bits << 16 | low | (bits & 7) << 13) | sign;
        const float value = std::bit_cast<float>(wide);
        ASSERT_EQ(NarrowF16(value), F16FromF32(value)) << wide;
      }
    }
  }
  for (uint32_t half = 0; half < 0x7C00; ++half) {
    const float one = F32FromF16(static_cast<uint16_t>(half));
    const float next = F32FromF16(static_cast<uint16_t>(half + 1));
    const auto middle = std::bit_cast<uint32_t>(one + (next - one) / 2);
    for (const uint32_t wide : {middle - 1, middle, middle + 1}) {
      const float value = std::bit_cast<float>(wide);
      ASSERT_EQ(NarrowF16(value), F16FromF32(value)) << wide;
    }
  }
}

// Elements of a type at random, and some that are at the edges of others.
std::vector<std::byte> Samples(const Named& named, Random& random) {
  constexpr int64_t kCount = 2000;
  const int64_t bytes = SizeOf(named.type);
  std::vector<std::byte> samples(static_cast<size_t>(kCount * bytes));
  constexpr double kEdges[] = {
      0,        -0.0,     0.5,     -0.5,   127,      127.5,    128,
      -128.5,   -129,     255.5,   256,    32767.5,  32768,    -32769,
      65535.5,  65519.99, 65520,   2049,   2051,     257,      259,
      16777217, 0x1p31,   -0x1p31, 0x1p32, 0x1p63,   -0x1p63,  0x1p64,
      1e300,    -1e300,   1e-45,   6e-8,   HUGE_VAL, -HUGE_VAL};
  for (int64_t n = 0; n < kCount; ++n) {
    std::byte* const at = samples.data() + n * bytes;
    if (n < static_cast<int64_t>(std::size(kEdges))) {
      const auto element = RealElement(kEdges[n]);
      WriteElement(named.number, at, ConvertElement(element, named.number));
    } else if (n % 3 == 0 && named.type == Type::kI64) {
      // A one far after where a 16-bit float ends, so that two roundings show.
      const int64_t tie = int64_t{0x101} << random.Within(30, 53);
      std::memcpy(at, &tie, 8);
      at[0] = static_cast<std::byte>(random.Within(0, 1));
    } else {
      for (int64_t b = 0; b < bytes; ++b) {
        at[b] = static_cast<std::byte>(random.Within(0, 255));
      }
    }
  }
  return samples;
}

void CheckPair(const Named& from, const Named& to, int64_t from_step,
               int64_t to_step) {
  Random random(static_cast<uint64_t>(from.number) * 64 +
                static_cast<uint64_t>(to.number));
  const std::vector<std::byte> samples = Samples(from, random);
  const int64_t from_bytes = SizeOf(from.type);
  const int64_t to_bytes = SizeOf(to.type);
  const int64_t count =
      (static_cast<int64_t>(samples.size()) / from_bytes - 1) /
          std::max<int64_t>(from_step, 1) +
      1;
  std::vector<std::byte> results(
      static_cast<size_t>(count * to_step * to_bytes));
  ConvertLoopOf(from.type, to.type)({samples.data(), from_step},
                                    {results.data(), to_step}, count);
  for (int64_t n = 0; n < count; ++n) {
    const auto element =
        ReadElement(from.number, samples.data() + n * from_step * from_bytes);
    const auto expected = ConvertElement(element, to.number);
    ASSERT_TRUE(
        IsElement(to.number, results.data() + n * to_step * to_bytes, expected))
        << "element " << n << ": "
        << (element.whole ? static_cast<double>(element.integer)
                          : element.real);
  }
}

TEST(ConvertLoops, EveryPairIsExact) {
  for (const Named& from : kAll) {
    for (const Named& to : kAll) {
      SCOPED_TRACE(Str("{} to {}", Name(from.type), Name(to.type)));
      CheckPair(from, to, 1, 1);
      CheckPair(from, to, 3, 2);
      CheckPair(from, to, 0, 1);
    }
  }
}

TEST(ConvertLoops, ComplexNumbersHaveNoOther) {
  for (const Type complex : {Type::kC64, Type::kC128}) {
    EXPECT_NE(ConvertLoopOf(complex, complex), nullptr);
    EXPECT_EQ(ConvertLoopOf(complex, Type::kF32), nullptr);
    EXPECT_EQ(ConvertLoopOf(Type::kBool, complex), nullptr);
  }
  EXPECT_EQ(ConvertLoopOf(Type::kC64, Type::kC128), nullptr);
}

}  // namespace
}  // namespace flashacl::elementwise
