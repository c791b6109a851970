// SPDX-License-Identifier: Apache-2.0
// The products of attention on matrix registers: rows of pairs times a panel of
// pairs, both as pairs-inl.h leaves them.
//
// Scores: rows are keys, k are channels, the panel is queries. Outputs: rows
// are channels of values, k are keys, the panel is probs. Blocks are two times
// two sums: the outer loop is over 32 rows, the inner one over k, 32 numbers at
// a time, so that four loads feed four multiplications. Row counts go up to
// whole matrices of 16, and k to 32: operands have that much room, with zeros
// along k.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#undef FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#else
#define FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#endif

#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Where a panel is wider than a matrix has lanes, it is two of them.
HWY_INLINE constexpr int MatricesOfPanel() {
  return static_cast<int>(Width() / MatrixLanes());
}

// Words of pairs, [row, k], `stride` of them apart: of numbers that are a sum
// of `terms`, each term `term_stride` after that before it.
struct MatrixRowsOf {
  const void* at;
  ptrdiff_t stride;
  int terms = 1;
  ptrdiff_t term_stride = 0;

  HWY_INLINE const void* Block(int64_t row, int64_t k, int term) const {
    return static_cast<const float*>(at) + row * stride + k * kMatrixWords +
           term * term_stride;
  }
};

// Words of pairs of a panel, [k, lane]. Only terms of rows and panel whose
// numbers are `last_term` together, or less, are multiplied: of the small terms
// of both nothing may be left.
struct MatrixPanel {
  const float* at;
  ptrdiff_t stride;
  int terms = 1;
  ptrdiff_t term_stride = 0;
  int last_term = 2;

  HWY_INLINE const float* Block(int64_t k, int term, int half) const {
    return at + k * kMatrixWords * stride + term * term_stride +
           half * MatrixLanes();
  }
};

// Sums 0 to 3 are those of two blocks of rows and two halves of a panel.
template <bool kTwoRows, bool kTwoHalves, class M>
HWY_INLINE void MultiplyAddBlock(const MatrixRowsOf& rows, int64_t row,
                                 const MatrixPanel& panel, int64_t blocks,
                                 M& m) {
  for (int64_t k = 0; k < blocks; ++k) {
    for (int of_rows = 0; of_rows < rows.terms; ++of_rows) {
      m.template LoadRows<4>(rows.Block(row, k, of_rows), rows.stride);
      if constexpr (kTwoRows) {
        m.template LoadRows<5>(rows.Block(row + kMatrixRows, k, of_rows),
                               rows.stride);
      }
      const int end = std::min(panel.terms, panel.last_term + 1 - of_rows);
      for (int term = 0; term < end; ++term) {
        m.template LoadLanes<6>(panel.Block(k, term, 0), panel.stride);
        m.template MultiplyAdd<0, 4, 6>();
        if constexpr (kTwoRows) m.template MultiplyAdd<1, 5, 6>();
        if constexpr (kTwoHalves) {
          m.template LoadLanes<7>(panel.Block(k, term, 1), panel.stride);
          m.template MultiplyAdd<2, 4, 7>();
          if constexpr (kTwoRows) m.template MultiplyAdd<3, 5, 7>();
        }
      }
    }
  }
}

// One block of sums, [row, lane] of a panel: loaded unless it is `fresh`.
template <bool kTwoRows, bool kTwoHalves, class M>
HWY_INLINE void SumBlock(const MatrixRowsOf& rows, int64_t row,
                         const MatrixPanel& panel, int64_t blocks, bool fresh,
                         float* sums, M& m) {
  constexpr ptrdiff_t kNextRows = kMatrixRows;
  float* const first = sums + row * Width();
  float* const next = first + kNextRows * Width();
  if (fresh) {
    m.template Clear<0>();
    if constexpr (kTwoRows) m.template Clear<1>();
    if constexpr (kTwoHalves) m.template Clear<2>();
    if constexpr (kTwoRows && kTwoHalves) m.template Clear<3>();
  } else {
    m.template LoadLanes<0>(first, Width());
    if constexpr (kTwoRows) m.template LoadLanes<1>(next, Width());
    if constexpr (kTwoHalves) {
      m.template LoadLanes<2>(first + MatrixLanes(), Width());
      if constexpr (kTwoRows) {
        m.template LoadLanes<3>(next + MatrixLanes(), Width());
      }
    }
  }
  MultiplyAddBlock<kTwoRows, kTwoHalves>(rows, row, panel, blocks, m);
  m.template StoreLanes<0>(first, Width());
  if constexpr (kTwoRows) m.template StoreLanes<1>(next, Width());
  if constexpr (kTwoHalves) {
    m.template StoreLanes<2>(first + MatrixLanes(), Width());
    if constexpr (kTwoRows) {
      m.template StoreLanes<3>(next + MatrixLanes(), Width());
    }
  }
}

// sums[row, lane] += sum over k of rows[row, k] * panel[k, lane], of `count`
// rows and `words` along k.
template <class M>
HWY_NOINLINE void AddMatrixProducts(const MatrixRowsOf& rows, int64_t count,
                                    const MatrixPanel& panel, int64_t words,
                                    bool fresh, float* sums, M& m,
                                    PrefetchQueue& prefetch) {
  constexpr bool kTwoHalves = MatricesOfPanel() == 2;
  const int64_t blocks = CeilDiv(words, kMatrixWords);
  int64_t row = 0;
  for (; row + kMatrixRows < count; row += 2 * kMatrixRows) {
    SumBlock<true, kTwoHalves>(rows, row, panel, blocks, fresh, sums, m);
    prefetch.Issue();
    prefetch.Issue();
  }
  if (row < count) {
    SumBlock<false, kTwoHalves>(rows, row, panel, blocks, fresh, sums, m);
    prefetch.Issue();
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
