// SPDX-License-Identifier: Apache-2.0
// ARM's BFMMLA: pairs of bf16 two rows by two rows at a time, four channels of
// each. Each 128 bits of a vector have 2 x 2 sums, and of both operands two
// words of one row and two of another. It does what two BFDOT do, one after the
// other, with the same roundings, so bits are those of BFDOT by half as many
// products. Every processor that has one has the other.
//
// Nothing else knows of it: operands are those of BFDOT and are brought into
// this order in registers, a panel's for all rows or channels of a block, sums
// before the first product and after the last.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(FLASHACL_CPU_TILE_TWO_BY_TWO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_TWO_BY_TWO_INL_H_
#undef FLASHACL_CPU_TILE_TWO_BY_TWO_INL_H_
#else
#define FLASHACL_CPU_TILE_TWO_BY_TWO_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/vector-inl.h"
#include "cpu/tile/zip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

#if FLASHACL_SVE_BITS
// Two words, in every 64 bits.
HWY_INLINE Vector TwoWords(const float* at) {
  double words;
  std::memcpy(&words, at, sizeof(words));
  return svreinterpret_f32_f64(svdup_n_f64(words));
}
// Two words, and two others, in every 128 bits.
HWY_INLINE Vector TwosOf(const float* first, const float* second) {
  return ZipLowerTwos(TwoWords(first), TwoWords(second));
}
// Words of four channels, and the next words of these: in every 128 bits those
// of the first two, and of the others.
struct FourColumns {
  Vector low, high;

  HWY_INLINE FourColumns(const float* first, const float* second)
      : low(ZipLower(TwoWords(first), TwoWords(second))),
        high(ZipLower(TwoWords(first + 2), TwoWords(second + 2))) {}
};
#else
HWY_INLINE Vector TwosOf(const float* first, const float* second) {
  const hn::FixedTag<float, 2> two;
  return hn::Combine(kF, hn::LoadU(two, second), hn::LoadU(two, first));
}
struct FourColumns {
  Vector low, high;

  HWY_INLINE FourColumns(const float* first, const float* second)
      : low(ZipLower(hn::LoadU(kF, first), hn::LoadU(kF, second))),
        high(ZipUpper(hn::LoadU(kF, first), hn::LoadU(kF, second))) {}
};
#endif

// Sums += those of two words of two rows, x, with two words of two others, y.
template <class V>
HWY_INLINE V AddTwoByTwo(const V& x, const V& y, V sum) {
#if FLASHACL_SVE_BITS
  // bfmmla %0.s, %1.h, %2.h
  asm(FLASHACL_ASM_VECTORS("0x6460E400") : "+w"(sum) : "w"(x), "w"(y));
#else
  // bfmmla %0.4s, %1.8h, %2.8h
  asm(FLASHACL_ASM_VECTORS("0x6E40EC00")
      : "+w"(sum.raw)
      : "w"(x.raw), "w"(y.raw));
#endif
  return sum;
}

// Sums of rows n and n + 1 for even n, a panel's rows in lanes, become 2 x 2:
// at[n] has those with the first rows of each half of a panel, at[n + 1] those
// with the others.
template <int kRows>
HWY_INLINE void RowsToTwoByTwo(Sums<kRows>& sums) {
  HWY_UNROLL_ALL
  for (int n = 0; n < kRows; ++n) {
    const int r = n / 2 * 2, half = n % 2;
    const Vector first = sums.at[r][half], second = sums.at[r + 1][half];
    sums.at[r][half] = ZipLowerTwos(first, second);
    sums.at[r + 1][half] = ZipUpperTwos(first, second);
  }
}

template <int kRows>
HWY_INLINE void TwoByTwoToRows(Sums<kRows>& sums) {
  HWY_UNROLL_ALL
  for (int n = 0; n < kRows; ++n) {
    const int r = n / 2 * 2, half = n % 2;
    const Vector lower = sums.at[r][half], upper = sums.at[r + 1][half];
    sums.at[r][half] = EvenTwos(lower, upper);
    sums.at[r + 1][half] = OddTwos(lower, upper);
  }
}

// Two words of each of a panel's rows, 2 x 2.
struct TwosOfPanel {
  Vector at[2][2];

  HWY_INLINE explicit TwosOfPanel(const float* HWY_RESTRICT panel) {
    HWY_UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const Vector first = hn::Load(kF, panel + half * Lanes());
      const Vector second = hn::Load(kF, panel + Width() + half * Lanes());
      at[0][half] = ZipLower(first, second);
      at[1][half] = ZipUpper(first, second);
    }
  }
};

template <int kRows>
HWY_INLINE void AddTwoRows(int r, const Vector& words, const TwosOfPanel& panel,
                           Sums<kRows>& sums) {
  HWY_UNROLL_ALL
  for (int n = 0; n < 4; ++n) {
    Vector& sum = sums.at[r + n / 2][n % 2];
    sum = AddTwoByTwo(words, panel.at[n / 2][n % 2], sum);
  }
}

// AddChain of an even number of words, with 2 x 2 sums.
template <int kRows>
HWY_INLINE void AddChainTwoByTwo(const float* HWY_RESTRICT rows,
                                 ptrdiff_t stride,
                                 const float* HWY_RESTRICT panel, int64_t depth,
                                 Sums<kRows>& sums) {
  const float* base[kRows];
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) base[r] = rows + r * stride;
  FLASHACL_UNROLL_8
  for (int64_t k = 0; k < depth; k += 2) {
    const TwosOfPanel words(panel);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; r += 2) {
      AddTwoRows(r, TwosOf(base[r], base[r + 1]), words, sums);
    }
    panel += 2 * Width();
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) base[r] += 2;
  }
}

// AddRows, in chains of kChain words, an even number. A word that has no
// neighbour is added as it lies.
template <class Product, int kRows>
HWY_INLINE void AddRowsTwoByTwo(const float* HWY_RESTRICT rows,
                                ptrdiff_t stride,
                                const float* HWY_RESTRICT panel, int64_t depth,
                                Sums<kRows>& sums) {
  static_assert(kRows % 2 == 0 && Product::kChain % 2 == 0);
  // In memory, or GCC moves them to and fro while a chain fills registers.
  HWY_ALIGN float memory[kRows * Width()];
  float* kept = memory;
  asm("" : "+r"(kept));
  RowsToTwoByTwo(sums);
  sums.Store(kept);
  for (int64_t k = 0; k < depth; k += Product::kChain) {
    const int64_t words = std::min(Product::kChain, depth - k);
    const int64_t even = words / 2 * 2;
    sums.Clear();
    AddChainTwoByTwo(rows + k, stride, panel + k * Width(), even, sums);
    if (even < words) {
      TwoByTwoToRows(sums);
      AddChain<Product>(rows + k + even, stride, panel + (k + even) * Width(),
                        1, sums);
      RowsToTwoByTwo(sums);
    }
    sums.AddFrom(kept);
    sums.Store(kept);
  }
  sums.Load(kept);
  TwoByTwoToRows(sums);
}

// AddColumns, in one chain.
template <class Product, int kRows>
HWY_INLINE void AddColumnsTwoByTwo(const float* HWY_RESTRICT columns,
                                   const float* HWY_RESTRICT panel,
                                   int64_t depth, Sums<kRows>& sums) {
  static_assert(kRows % 4 == 0);
  RowsToTwoByTwo(sums);
  int64_t k = 0;
  for (; k + 2 <= depth; k += 2) {
    const TwosOfPanel words(panel);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; r += 4) {
      const FourColumns four(columns + r, columns + kRows + r);
      AddTwoRows(r, four.low, words, sums);
      AddTwoRows(r + 2, four.high, words, sums);
    }
    panel += 2 * Width();
    columns += 2 * kRows;
  }
  TwoByTwoToRows(sums);
  if (k < depth) AddColumn<Product>(columns, panel, sums);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_TWO_BY_TWO_INL_H_
