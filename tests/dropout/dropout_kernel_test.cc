// SPDX-License-Identifier: Apache-2.0
// Drawing bits and selecting by them, on every instruction set.
#include "dropout/dropout_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/number.h"
#include "base/random.h"
#include "tests/cpu/targets.h"
#include "tests/testing/philox.h"

namespace flashacl::dropout {
namespace {

using testing::OnTarget;
using testing::Philox;
using testing::PhiloxMask;
using testing::PhiloxWords;

// Published with the generator.
TEST(Philox, HasItsKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

class DropoutKernel : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

std::vector<uint8_t> Draw(const MaskDraw& of, int64_t first, int64_t units) {
  std::vector<uint8_t> bytes(static_cast<size_t>(units * kUnitBytes));
  Kernels().draw(of, first, units, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

TEST_P(DropoutKernel, DrawsTheGeneratorsBits) {
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    const auto any = [&] {
      return static_cast<uint64_t>(random.Within(0, 0xFFFFFFFF)) << 32 |
             static_cast<uint64_t>(random.Within(0, 0xFFFFFFFF));
    };
    PhiloxMask mask{any(), any(), random.Fraction()};
    if (round == 0) mask.prob = 0;
    if (round == 1) mask.prob = 1;
    const double threshold =
        std::ceil(double{static_cast<float>(mask.prob)} * 0x1p23);
    const MaskDraw draw{mask.seed, mask.offset,
                        static_cast<int32_t>(threshold)};
    EXPECT_EQ(Draw(draw, 0, 9), mask.Bytes(9 * kUnitBits));
  }
}

// A number that is prob itself keeps; numbers are 23 bits, so it takes care to
// meet one.
TEST_P(DropoutKernel, KeepsFromTheThresholdOn) {
  for (const uint32_t word : Philox({0, 0, 6, 0}, {5, 0})) {
    const auto number = static_cast<int32_t>(word & 0x7FFFFF);
    for (const int32_t threshold : {number, number + 1}) {
      const PhiloxMask mask{5, 6, threshold * 0x1p-23};
      EXPECT_EQ(Draw({5, 6, threshold}, 0, 1), mask.Bytes(kUnitBits));
    }
  }
}

// Where the low word of block numbers ends, and far after it.
TEST_P(DropoutKernel, DrawsUnitsByTheirNumbers) {
  const PhiloxMask mask{5, 6, 0.5};
  const MaskDraw draw{5, 6, 1 << 22};
  for (const int64_t first :
       {int64_t{1}, (int64_t{1} << 27) - 1, (int64_t{1} << 50) + 3}) {
    const std::vector<uint8_t> bytes = Draw(draw, first, 2);
    for (uint64_t n = 0; n < 2 * kUnitBits; ++n) {
      const uint64_t g = static_cast<uint64_t>(first * kUnitBits) + n;
      EXPECT_EQ(bytes[n / 8] >> (n % 8) & 1, mask.Keeps(g)) << g;
    }
  }
}

cpu::ElementFormat Format(DType dtype, int64_t step) {
  cpu::ElementFormat format;
  format.dtype = dtype;
  format.step = step;
  format.element_bytes = SizeOf(dtype);
  return format;
}

TEST_P(DropoutKernel, SelectsByBits) {
  Random random(2);
  for (const int64_t count : {1, 3, 7, 16, 31, 33, 100, 511, 512}) {
    for (const bool divides : {false, true}) {
      std::vector<float> self(static_cast<size_t>(3 * count));
      std::vector<float> out(self.size(), 7);
      std::vector<uint32_t> bits(kSelectBlock / 32);
      for (float& value : self) value = static_cast<float>(random.Fraction());
      self[0] = std::nanf("");
      for (uint32_t& word : bits) {
        word = static_cast<uint32_t>(random.Within(0, 0xFFFFFFFF));
      }
      bits[0] &= ~1u;
      Kernels().select({.self = Format(DType::kF32, 3),
                        .out = Format(DType::kF32, 2),
                        .from = reinterpret_cast<std::byte*>(self.data()),
                        .to = reinterpret_cast<std::byte*>(out.data()),
                        .count = count,
                        .bits = bits.data(),
                        .amount = 0.7f,
                        .divides = divides});
      for (int64_t n = 0; n < count; ++n) {
        const float value = self[static_cast<size_t>(3 * n)];
        const float kept = divides ? value / 0.7f : value * 0.7f;
        const bool keeps =
            (bits[static_cast<size_t>(n / 32)] >> (n % 32) & 1) != 0;
        EXPECT_EQ(out[static_cast<size_t>(2 * n)], keeps ? kept : 0) << n;
        EXPECT_EQ(out[static_cast<size_t>(2 * n + 1)], 7) << n;
      }
    }
  }
}

// Of the same elements, two apart, the same bits: past the caches, in place and
// where no line begins.
TEST_P(DropoutKernel, SelectsDenseElementsAsOthers) {
  Random random(4);
  struct alignas(64) Block {
    std::byte at[kSelectBlock * 8 + 64]{};
  };
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const auto bytes = static_cast<size_t>(SizeOf(dtype));
    for (const int64_t count : {512, 64, 48, 20}) {
      Block self, apart, expected, out, shifted;
      for (int64_t n = 0; n < count; ++n) {
        std::byte* const at = self.at + static_cast<size_t>(n) * bytes;
        WriteNumber(dtype, at, random.OneIn(9) ? INFINITY : random.Fraction());
        std::memcpy(apart.at + 2 * static_cast<size_t>(n) * bytes, at, bytes);
      }
      std::vector<uint32_t> bits(kSelectBlock / 32);
      for (uint32_t& word : bits) {
        word = static_cast<uint32_t>(random.Within(0, 0xFFFFFFFF));
      }
      SelectBlock block{.self = Format(dtype, 2),
                        .out = Format(dtype, 1),
                        .from = apart.at,
                        .to = expected.at,
                        .count = count,
                        .bits = bits.data(),
                        .amount = 0.7f,
                        .divides = random.OneIn(2)};
      Kernels().select(block);
      block.self = Format(dtype, 1);
      block.from = self.at;
      block.streams = true;
      block.to = out.at;
      Kernels().select(block);
      block.to = shifted.at + bytes;
      Kernels().select(block);
      Kernels().flush();
      block.to = self.at;
      block.streams = false;
      Kernels().select(block);
      const size_t size = static_cast<size_t>(count) * bytes;
      EXPECT_EQ(0, std::memcmp(out.at, expected.at, sizeof(out.at)));
      EXPECT_EQ(0, std::memcmp(shifted.at + bytes, expected.at, size));
      EXPECT_EQ(0, std::memcmp(self.at, expected.at, size));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DropoutKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::dropout
