// SPDX-License-Identifier: Apache-2.0
// Dense rows of a step, against the definition: floats side by side, and values
// by blocks of channels. Rows end where nobody may read on; on every
// instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "base/number.h"
#include "base/random.h"
#include "base/range.h"
#include "cpu/tile/attention_params.h"
#include "tests/cpu/targets.h"
#include "tests/testing/fenced.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/tile/dense_rows_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pack_values-inl.h"

// Vector code as plain functions.
#ifndef FLASHACL_TESTS_CPU_DENSE_ROW_PIECES
#define FLASHACL_TESTS_CPU_DENSE_ROW_PIECES
namespace flashacl::cpu {
struct DenseRowPieces {
  int64_t lanes;
  void (*load)(DType dtype, const std::byte* const* rows, Range some,
               int64_t count, float* to, ptrdiff_t stride);
  // Returns the greatest pattern.
  int32_t (*pack)(DType dtype, const std::byte* const* rows, Range some,
                  int64_t v_dim, const PackedValues& values);
  void (*blocks)(int64_t v_dim, std::vector<Range>& blocks);
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void LoadOf(DType dtype, const std::byte* const* rows, Range some,
            int64_t count, float* to, ptrdiff_t stride) {
  WithVectorType(dtype, [&](auto type) HWY_ATTR {
    LoadDenseRows<type()>(rows, some, count, to, stride);
  });
}

int32_t PackOf(DType dtype, const std::byte* const* rows, Range some,
               int64_t v_dim, const PackedValues& values) {
  int32_t greatest = 0;
  WithVectorType(dtype, [&](auto type) HWY_ATTR {
    greatest = PackRows<type()>(rows, some, v_dim, values);
  });
  return greatest;
}

void BlocksOf(int64_t v_dim, std::vector<Range>& blocks) {
  ForBlocks(v_dim, [&](int64_t first, auto size) {
    blocks.push_back({first, first + size()});
  });
}

DenseRowPieces DenseRowPieceTable() {
  return {Lanes(), LoadOf, PackOf, BlocksOf};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {

FLASHACL_EXPORT(DenseRowPieces, DenseRowPieceTable);

namespace {

using testing::FencedBytes;
using testing::OnTarget;

uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

// Rows of one type, each between fences.
struct Rows {
  DType dtype;
  std::vector<FencedBytes> memory;
  std::vector<const std::byte*> at;

  Rows(DType type, int64_t count, int64_t channels, Random& random)
      : dtype(type) {
    for (int64_t j = 0; j < count; ++j) {
      memory.emplace_back(channels * SizeOf(dtype));
      for (int64_t d = 0; d < channels; ++d) {
        WriteNumber(dtype, memory.back().data() + d * SizeOf(dtype),
                    double{random.Bell()});
      }
      at.push_back(memory.back().data());
    }
  }

  float Of(int64_t j, int64_t d) const {
    return static_cast<float>(
        ReadNumber(dtype, at[static_cast<size_t>(j)] + d * SizeOf(dtype)));
  }
};

class DenseRowsOn : public ::testing::TestWithParam<int64_t> {
 protected:
  // Calls body(rows, some of them, channels) for many.
  template <typename Body>
  void ForRows(Body body) {
    for (int n = 0; n < 300; ++n) {
      const auto dtype =
          std::array{DType::kF32, DType::kF16, DType::kBf16}[n % 3];
      const int64_t most = random_.OneIn(2) ? 40 : 200;
      int64_t channels = random_.Within(pieces_.lanes, most);
      if (random_.OneIn(2)) channels = RoundUp(channels, 4);
      const int64_t count = random_.Within(1, 14);
      const int64_t first = random_.Within(0, count - 1) / 4 * 4;
      const Rows rows(dtype, count, channels, random_);
      body(rows, Range{first, random_.Within(first + 1, count)}, channels);
    }
  }

  const OnTarget target_{GetParam()};
  const DenseRowPieces pieces_ = FLASHACL_DISPATCH(DenseRowPieceTable);
  Random random_{3};
};

TEST_P(DenseRowsOn, BecomeFloats) {
  ForRows([&](const Rows& rows, Range some, int64_t channels) {
    const int64_t stride = channels + random_.Within(0, 5);
    const FencedBytes memory((some.last * stride - (stride - channels)) * 4);
    pieces_.load(rows.dtype, rows.at.data(), some, channels, memory.as<float>(),
                 stride);
    for (int64_t j = some.first; j < some.last; ++j) {
      for (int64_t d = 0; d < channels; ++d) {
        ASSERT_EQ(BitsOf(memory.as<float>()[j * stride + d]),
                  BitsOf(rows.Of(j, d)))
            << j << " " << d << " of " << channels;
      }
    }
  });
}

TEST_P(DenseRowsOn, ArePackedByBlocks) {
  ForRows([&](const Rows& rows, Range some, int64_t channels) {
    std::vector<Range> blocks;
    pieces_.blocks(channels, blocks);
    // Room for what passes the end of a key's vector.
    const int64_t keys = some.last + pieces_.lanes;
    const FencedBytes memory(blocks.back().last * keys * 4);
    auto* const packed = memory.as<float>();
    std::fill_n(packed, blocks.back().last * keys, 12345.0f);
    const int32_t greatest = pieces_.pack(rows.dtype, rows.at.data(), some,
                                          channels, {packed, keys});
    float most = 0;
    for (const Range& block : blocks) {
      for (int64_t j = 0; j < some.last; ++j) {
        for (int64_t d = block.first; d < std::min(block.last, channels); ++d) {
          const float found =
              packed[block.first * keys + j * block.size() + d - block.first];
          const float expected = j < some.first ? 12345.0f : rows.Of(j, d);
          if (j >= some.first) most = std::max(most, std::fabs(expected));
          ASSERT_EQ(BitsOf(found), BitsOf(expected))
              << j << " " << d << " of " << channels;
        }
      }
    }
    EXPECT_EQ(greatest, std::bit_cast<int32_t>(most));
  });
}

// Infinities and NaNs are above all numbers.
TEST_P(DenseRowsOn, TellWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float special : {infinity, -infinity, NAN, -NAN}) {
    ForRows([&](const Rows& rows, Range some, int64_t channels) {
      const int64_t j = random_.Within(some.first, some.last - 1);
      const int64_t d = random_.Within(0, channels - 1);
      WriteNumber(
          rows.dtype,
          rows.memory[static_cast<size_t>(j)].data() + d * SizeOf(rows.dtype),
          double{special});
      std::vector<float> packed(
          static_cast<size_t>((some.last + 16) * RoundUp(channels, 12) + 192));
      EXPECT_GE(pieces_.pack(rows.dtype, rows.at.data(), some, channels,
                             {packed.data(), some.last + 16}),
                0x7F800000);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DenseRowsOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
#endif  // FLASHACL_ONCE
