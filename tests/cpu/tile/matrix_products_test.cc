// SPDX-License-Identifier: Apache-2.0
// Products of deep panels, which rows meet a part at a time, and of rows that
// need a part of a panel, have the bits of those of the whole: emulated on
// every target, and on matrix registers where this processor has them.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/range.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

#ifndef FLASHACL_TESTS_MATRIX_PRODUCTS
#define FLASHACL_TESTS_MATRIX_PRODUCTS
namespace flashacl::cpu {

// Of a product; of `blocks` along k.
struct ProductShape {
  int64_t count;
  int64_t blocks;
  int terms;
  bool half;
  bool fresh;
};

// Of a product that adds to some rows of a matrix of `columns`.
struct ColumnsShape {
  int64_t count;
  int64_t blocks;
  int terms;
  int64_t columns;
  bool fresh;
};

struct ProductCalls {
  // sums, aligned, of aligned rows and panels; whole: not in parts.
  void (*multiply)(const ProductShape& shape, bool whole, const float* rows,
                   const float* panel, float* sums);
  // The same; each 32 rows need `depths` of the blocks.
  void (*add_columns)(const ColumnsShape& shape, const Range* depths,
                      const float* rows, const float* panel, float* sums);
  int64_t width;
  bool has_instructions;
};

}  // namespace flashacl::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/tile/matrix_products_test.cc"
#include "hwy/aligned_allocator.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/matrix_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void MultiplyPanel(const ProductShape& shape, bool whole, const float* rows,
                   const float* panel, float* sums) {
  const int64_t words = shape.blocks * kMatrixWords;
  const MatrixRowsOf of_rows{rows, shape.terms * words, shape.terms, words};
  const MatrixPanel of_panel{panel, Width(), shape.terms, words * Width(),
                             shape.half};
  PrefetchQueue nothing;
  Matrices m;
  Matrices::Configure();
  if (!whole) {
    AddMatrixProducts(of_rows, shape.count, of_panel, words, shape.fresh, sums,
                      m, nothing);
  } else if (shape.half) {
    AddPanelProducts<false>(of_rows, shape.count, of_panel, shape.blocks,
                            shape.fresh, sums, m, nothing);
  } else {
    AddPanelProducts<true>(of_rows, shape.count, of_panel, shape.blocks,
                           shape.fresh, sums, m, nothing);
  }
  Matrices::Release();
}

void AddColumnsOf(const ColumnsShape& shape, const Range* depths,
                  const float* rows, const float* panel, float* sums) {
  const int64_t words = shape.blocks * kMatrixWords;
  Matrices m;
  Matrices::Configure();
  AddMatrixColumns({rows, shape.terms * words, shape.terms, words}, shape.count,
                   {panel, shape.columns, shape.terms, words * shape.columns},
                   depths, shape.columns, shape.fresh, {sums, shape.columns},
                   m);
  Matrices::Release();
}

ProductCalls ProductTable() {
  return {MultiplyPanel, AddColumnsOf, Width(), FLASHACL_HAS_MATRICES != 0};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(ProductCalls, ProductTable);
namespace {

class MatrixProductsOn : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
  const ProductCalls calls_ = FLASHACL_DISPATCH(ProductTable);
};

INSTANTIATE_TEST_SUITE_P(All, MatrixProductsOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         [](const auto& one) {
                           return std::string(cpu::TargetName(one.param));
                         });

using Floats = hwy::AlignedFreeUniquePtr<float[]>;

Floats Words(int64_t count, Random& random) {
  Floats words = hwy::AllocateAligned<float>(static_cast<size_t>(count));
  for (int64_t n = 0; n < count; ++n) {
    const auto half = [&] {
      const auto exponent = static_cast<uint32_t>(random.Within(120, 130));
      return static_cast<uint32_t>(random.Bits() & 0x807F) | exponent << 7;
    };
    words[static_cast<size_t>(n)] = std::bit_cast<float>(half() | half() << 16);
  }
  return words;
}

TEST_P(MatrixProductsOn, OfPartsHaveTheBitsOfTheWhole) {
  if (calls_.has_instructions && !HasMatrices()) {
    GTEST_SKIP() << "this processor has no matrix registers";
  }
  Random random(1);
  const int64_t width = calls_.width;
  for (const int64_t blocks : {1, 8, 12, 13, 16, 20}) {
    for (const int64_t count : {1, 32, 33, 48, 70}) {
      for (int64_t n = 0; n < 12; ++n) {
        const ProductShape shape{count, blocks, static_cast<int>(1 + n / 4),
                                 n % 4 / 2 != 0, n % 2 != 0};
        const int64_t words = blocks * 16 * shape.terms;
        const Floats rows = Words((count + 31) * words, random);
        const Floats panel = Words(words * width, random);
        const auto floats = static_cast<size_t>((count + 31) * width);
        const Floats parts = hwy::AllocateAligned<float>(floats);
        const Floats whole = hwy::AllocateAligned<float>(floats);
        for (size_t i = 0; i < floats; ++i) {
          parts[i] = whole[i] = shape.fresh
                                    ? std::numeric_limits<float>::quiet_NaN()
                                    : static_cast<float>(random.Within(-9, 9));
        }
        calls_.multiply(shape, false, rows.get(), panel.get(), parts.get());
        calls_.multiply(shape, true, rows.get(), panel.get(), whole.get());
        for (int64_t i = 0; i < count * width; ++i) {
          const bool needed = !shape.half || i % width < width / 2;
          const float expected = needed        ? whole[static_cast<size_t>(i)]
                                 : shape.fresh ? 0.0f
                                               : parts[static_cast<size_t>(i)];
          ASSERT_EQ(parts[static_cast<size_t>(i)], expected)
              << count << " rows, " << blocks << " blocks, " << shape.terms
              << " terms, element " << i;
        }
      }
    }
  }
}

// What lies outside of the depths is no number, and 0 for the whole.
TEST_P(MatrixProductsOn, OfSomeDepthHaveTheBitsOfTheWhole) {
  if (calls_.has_instructions && !HasMatrices()) {
    GTEST_SKIP() << "this processor has no matrix registers";
  }
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  Random random(2);
  for (int64_t n = 0; n < testing::ShareOf(200); ++n) {
    const ColumnsShape shape{random.Within(1, 70), random.Within(1, 6),
                             static_cast<int>(random.Within(1, 2)),
                             calls_.width / 2 * random.Within(1, 4),
                             random.OneIn(2)};
    SCOPED_TRACE(::testing::Message()
                 << shape.count << " rows, " << shape.blocks << " blocks, "
                 << shape.terms << " terms, " << shape.columns << " columns");
    const int64_t words = shape.blocks * 16;
    const Floats rows = Words((shape.count + 31) * shape.terms * words, random);
    const Floats panel = Words(shape.terms * words * shape.columns, random);
    const auto floats = static_cast<size_t>(shape.count * shape.columns);
    const Floats parts = hwy::AllocateAligned<float>(floats);
    const Floats whole = hwy::AllocateAligned<float>(floats);
    for (size_t i = 0; i < floats; ++i) {
      parts[i] = whole[i] =
          shape.fresh ? kNone : static_cast<float>(random.Within(-9, 9));
    }
    std::array<Range, 3> depths, all;
    for (Range& depth : depths) {
      depth.first = random.Within(0, shape.blocks);
      depth.last = random.Within(depth.first, shape.blocks);
    }
    all.fill({0, shape.blocks});
    const auto put_outside = [&](float x) {
      for (int64_t r = 0; r < shape.count; ++r) {
        const Range depth = depths[static_cast<size_t>(r / 32)];
        for (int64_t word = 0; word < shape.terms * words; ++word) {
          const int64_t block = word % words / 16;
          const bool inside = depth.first <= block && block < depth.last;
          if (!inside) {
            rows[static_cast<size_t>(r * shape.terms * words + word)] = x;
          }
        }
      }
    };
    put_outside(kNone);
    calls_.add_columns(shape, depths.data(), rows.get(), panel.get(),
                       parts.get());
    put_outside(0.0f);
    calls_.add_columns(shape, all.data(), rows.get(), panel.get(), whole.get());
    for (size_t i = 0; i < floats; ++i) {
      ASSERT_EQ(parts[i], whole[i]) << "element " << i;
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
#endif
