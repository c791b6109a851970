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
#include <type_traits>

#include "base/range.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#undef FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#else
#define FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
#endif

#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Words of pairs, [row, k], `stride` of them apart: of numbers that are a sum
// of `terms`, each term `term_stride` after that before it. `block_stride`
// words lie between blocks of a matrix's words along k.
struct MatrixRowsOf {
  const void* at;
  ptrdiff_t stride;
  int terms = 1;
  ptrdiff_t term_stride = 0;
  ptrdiff_t block_stride = kMatrixWords;

  // From block `k` on.
  MatrixRowsOf From(int64_t k) const {
    MatrixRowsOf rest = *this;
    rest.at = static_cast<const float*>(at) + k * block_stride;
    return rest;
  }

  HWY_INLINE const void* Block(int64_t row, int64_t k, int term) const {
    return static_cast<const float*>(at) + row * stride + k * block_stride +
           term * term_stride;
  }
};

// Words of pairs of a panel, [k, lane], of terms likewise: each term of rows
// meets each of the panel.
struct MatrixPanel {
  const float* at;
  ptrdiff_t stride;
  int terms = 1;
  ptrdiff_t term_stride = 0;
  bool half = false;  // nobody needs the sums of its upper lanes

  // From block `k` on.
  MatrixPanel From(int64_t k) const {
    MatrixPanel rest = *this;
    rest.at += k * kMatrixWords * stride;
    return rest;
  }

  HWY_INLINE const float* Block(int64_t k, int term, int half) const {
    return at + k * kMatrixWords * stride + term * term_stride +
           half * MatrixLanes();
  }
};

// Sums 0 to 3 are those of two blocks of rows and two halves of a panel.
template <bool kTwoRows, bool kTwoHalves, class M>
HWY_INLINE void MultiplyAddBlock(const MatrixRowsOf& rows, int64_t row,
                                 const MatrixPanel& panel, int64_t blocks, M& m,
                                 PrefetchQueue& prefetch) {
  for (int64_t k = 0; k < blocks; ++k) {
    prefetch.Issue();
    for (int of_rows = 0; of_rows < rows.terms; ++of_rows) {
      m.template LoadRows<4>(rows.Block(row, k, of_rows), rows.stride);
      if constexpr (kTwoRows) {
        m.template LoadRows<5>(rows.Block(row + kMatrixRows, k, of_rows),
                               rows.stride);
      }
      for (int term = 0; term < panel.terms; ++term) {
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

// Sums, [row, lane], rows `stride` floats apart.
struct MatrixSums {
  float* at;
  ptrdiff_t stride;
};

// One block of sums from `sums` on: loaded unless they are `fresh`.
template <bool kTwoRows, bool kTwoHalves, class M>
HWY_INLINE void SumBlock(const MatrixRowsOf& rows, int64_t row,
                         const MatrixPanel& panel, int64_t blocks, bool fresh,
                         const MatrixSums& sums, M& m,
                         PrefetchQueue& prefetch) {
  float* const first = sums.at;
  float* const next = first + kMatrixRows * sums.stride;
  if (fresh) {
    m.template Clear<0>();
    if constexpr (kTwoRows) m.template Clear<1>();
    if constexpr (kTwoHalves) m.template Clear<2>();
    if constexpr (kTwoRows && kTwoHalves) m.template Clear<3>();
  } else {
    m.template LoadLanes<0>(first, sums.stride);
    if constexpr (kTwoRows) m.template LoadLanes<1>(next, sums.stride);
    if constexpr (kTwoHalves) {
      m.template LoadLanes<2>(first + MatrixLanes(), sums.stride);
      if constexpr (kTwoRows) {
        m.template LoadLanes<3>(next + MatrixLanes(), sums.stride);
      }
    }
  }
  MultiplyAddBlock<kTwoRows, kTwoHalves>(rows, row, panel, blocks, m, prefetch);
  m.template StoreLanes<0>(first, sums.stride);
  if constexpr (kTwoRows) m.template StoreLanes<1>(next, sums.stride);
  if constexpr (kTwoHalves) {
    m.template StoreLanes<2>(first + MatrixLanes(), sums.stride);
    if constexpr (kTwoRows) {
      m.template StoreLanes<3>(next + MatrixLanes(), sums.stride);
    }
  }
}

template <bool kTwoHalves, class M>
HWY_NOINLINE void AddPanelProducts(const MatrixRowsOf& rows, int64_t count,
                                   const MatrixPanel& panel, int64_t blocks,
                                   bool fresh, float* sums, M& m,
                                   PrefetchQueue& prefetch) {
  const auto at = [&](int64_t row) {
    return MatrixSums{sums + row * Width(), Width()};
  };
  int64_t row = 0;
  for (; row + kMatrixRows < count; row += 2 * kMatrixRows) {
    SumBlock<true, kTwoHalves>(rows, row, panel, blocks, fresh, at(row), m,
                               prefetch);
  }
  if (row < count) {
    SumBlock<false, kTwoHalves>(rows, row, panel, blocks, fresh, at(row), m,
                                prefetch);
  }
}

// Blocks of a panel that all rows meet before the next ones: all, unless they
// leave a first cache too little room for rows.
inline int64_t DepthOfPanel(const MatrixPanel& panel, int64_t blocks,
                            int64_t count) {
  const bool fits = blocks * panel.terms <= kMostPanelBlocks;
  if (fits || count <= 2 * kMatrixRows) return std::max<int64_t>(blocks, 1);
  return kPanelBlocks / panel.terms;
}

// sums[row, lane] += sum over k of rows[row, k] * panel[k, lane], of `count`
// rows and `words` along k. Sums are those of a panel; the half that nobody
// needs becomes 0 with fresh ones. Prefetches with each of MatrixBlocks().
template <class M>
inline void AddMatrixProducts(const MatrixRowsOf& rows, int64_t count,
                              const MatrixPanel& panel, int64_t words,
                              bool fresh, float* sums, M& m,
                              PrefetchQueue& prefetch) {
  const int64_t blocks = CeilDiv(words, kMatrixWords);
  const auto add =
      panel.half ? AddPanelProducts<false, M> : AddPanelProducts<true, M>;
  const int64_t depth = DepthOfPanel(panel, blocks, count);
  // Also without words: then fresh sums are 0.
  for (int64_t k = 0; k == 0 || k < blocks; k += depth) {
    const MatrixRowsOf some_rows = rows.From(k);
    const MatrixPanel some = panel.From(k);
    add(some_rows, count, some, std::min(depth, blocks - k), fresh && k == 0,
        sums, m, prefetch);
  }
  for (int64_t row = 0; panel.half && fresh && row < count; ++row) {
    hn::Store(hn::Zero(kF), kF, sums + row * Width() + MatrixLanes());
  }
}

// Blocks of arithmetic of so many rows and words along k.
constexpr int64_t MatrixBlocks(int64_t rows, int64_t words) {
  return CeilDiv(rows, 2 * kMatrixRows) * CeilDiv(words, kMatrixWords);
}

// The blocks along k that rows of a product need, as all others are 0: of each
// kDepthRows rows.
inline constexpr int64_t kDepthRows = 2 * kMatrixRows;
using MatrixDepths = const Range*;

// Adds to `count` rows and no more: what lies after them belongs to others. The
// panel is as wide as one or two matrices. Sums begin as 0 if they are `fresh`.
template <bool kTwoHalves, class M>
HWY_INLINE void AddExactRows(const MatrixRowsOf& rows, int64_t count,
                             const MatrixPanel& panel, MatrixDepths depths,
                             bool fresh, const MatrixSums& sums, M& m) {
  constexpr ptrdiff_t kWidth = (kTwoHalves ? 2 : 1) * MatrixLanes();
  const auto at = [&](int64_t row) {
    return MatrixSums{sums.at + row * sums.stride, sums.stride};
  };
  PrefetchQueue nothing;
  const auto add = [&](auto two_rows, int64_t row, bool clear,
                       const MatrixSums& to) HWY_ATTR {
    const Range depth = depths[row / kDepthRows];
    if (depth.empty() && !clear) return;
    SumBlock<two_rows(), kTwoHalves>(rows.From(depth.first), row,
                                     panel.From(depth.first), depth.size(),
                                     clear, to, m, nothing);
  };
  int64_t row = 0;
  for (; row + kDepthRows <= count; row += kDepthRows) {
    add(std::true_type(), row, fresh, at(row));
  }
  for (; row + kMatrixRows <= count; row += kMatrixRows) {
    add(std::false_type(), row, fresh, at(row));
  }
  if (row == count) return;
  HWY_ALIGN float some[kMatrixRows * kWidth];
  add(std::false_type(), row, true, {some, kWidth});
  for (int64_t r = 0; row + r < count; ++r) {
    float* const to = at(row + r).at;
    for (ptrdiff_t n = 0; n < kWidth; n += Lanes()) {
      Vector sum = hn::Load(kF, some + r * kWidth + n);
      if (!fresh) sum = hn::Add(hn::Load(kF, to + n), sum);
      hn::Store(sum, kF, to + n);
    }
  }
}

// The same of `columns` lanes, a multiple of those of a matrix.
template <class M>
HWY_NOINLINE void AddMatrixColumns(const MatrixRowsOf& rows, int64_t count,
                                   const MatrixPanel& panel,
                                   MatrixDepths depths, int64_t columns,
                                   bool fresh, const MatrixSums& sums, M& m) {
  MatrixPanel some = panel;
  MatrixSums to = sums;
  int64_t left = columns;
  for (; left >= 2 * MatrixLanes(); left -= 2 * MatrixLanes()) {
    AddExactRows<true>(rows, count, some, depths, fresh, to, m);
    some.at += 2 * MatrixLanes();
    to.at += 2 * MatrixLanes();
  }
  if (left > 0) AddExactRows<false>(rows, count, some, depths, fresh, to, m);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MATRIX_PRODUCTS_INL_H_
