// SPDX-License-Identifier: Apache-2.0
// Products of small matrices out of registers: a few rows of scalars times a
// panel of two vectors. Everything heavy in attention is one of these.
//
// What lies in lanes is the panel's, [k, lane]; the other operand is scalars,
// each broadcast: keys as rows of channels (AddRows), or channels of values,
// packed (AddColumns) or not (AddColumnsApart). The outer loop is ForBlocks,
// over rows of scalars; inside a block the sums stay in registers, and the
// inner loop is over k. Each sum is one chain in the order of k: nothing is
// combined, within a vector or between blocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(FLASHACL_CPU_TILE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MATMUL_INL_H_
#undef FLASHACL_CPU_TILE_MATMUL_INL_H_
#else
#define FLASHACL_CPU_TILE_MATMUL_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Scalars of one block, in units: a block of 3 units keeps as many sums in
// registers as there are, one of 2 units is what the rest is cut into, so that
// every multiple of the unit but the unit itself is cut without waste. Both
// have enough sums to hide the latency of an addition.
inline constexpr int kUnit = kVectorRegisters / 8;  // 24 sums of 32, 12 of 16
inline constexpr int kBig = 3 * kUnit;
inline constexpr int kSmall = 2 * kUnit;

// Calls body(first, size) for blocks that cover [0, count) in order; the last
// may pass the end by less than kSmall, so operands have that much room.
// body's second argument is an integral_constant.
template <typename Body>
HWY_INLINE void ForBlocks(int64_t count, Body body) {
  const int64_t units = (count + kUnit - 1) / kUnit;
  // Two small blocks are 4 units, one is 2; a unit alone is one, too.
  const int64_t smalls = units == 1 ? 1 : (3 - units % 3) % 3;
  const int64_t bigs = std::max<int64_t>(units - 2 * smalls, 0) / 3;
  int64_t first = 0;
  for (int64_t n = 0; n < bigs; ++n, first += kBig) {
    body(first, std::integral_constant<int, kBig>());
  }
  for (int64_t n = 0; n < smalls; ++n, first += kSmall) {
    body(first, std::integral_constant<int, kSmall>());
  }
}

// How far ForBlocks goes.
constexpr int64_t BlockEnd(int64_t count) {
  const int64_t units = (count + kUnit - 1) / kUnit;
  return (units == 1 ? 2 : units) * kUnit;
}

// Rows of channels, `stride` floats apart. Blocks may read some past the last.
struct ChannelRows {
  const float* at;
  ptrdiff_t stride;
};

// What becomes of a scalar, a lane and their sum; pairs-inl.h has others.
struct OfFloats {
  // How many words of scores one chain of sums may take; 0: all of them. Where
  // chains are short the product has loops of its own.
  static constexpr int64_t kChain = 0;

  // A scalar as Add takes it, instead of a vector.
  static HWY_INLINE Vector Every(float scalar) { return hn::Set(kF, scalar); }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    return hn::MulAdd(x, y, sum);
  }
};

// Whether the sums of a panel whose rows fill one vector may be those of that
// vector. Every multiply-add then loads its scalar, for half of the arithmetic,
// and where registers are few there are too few sums to hide the latency of
// all. ARM's pairs have loops of their own, of both vectors.
inline constexpr bool kHasHalfPanels = HWY_ARCH_X86;

// The sums of one block: kRows scalars times one panel, or its lower half.
template <int kRows, int kHalves = 2>
struct Sums {
  Vector at[kRows][kHalves];

  // Nothing; said so that it is compiled for the target, too.
  HWY_INLINE Sums() {}

  HWY_INLINE void Clear() {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      for (Vector& half : at[r]) half = hn::Zero(kF);
    }
  }

  HWY_INLINE void Load(const float* HWY_RESTRICT from,
                       ptrdiff_t stride = Width()) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL_ALL
      for (int h = 0; h < kHalves; ++h) {
        at[r][h] = hn::Load(kF, from + r * stride + h * Lanes());
      }
    }
  }

  // 0 where there are no sums of it.
  HWY_INLINE Vector UpperHalf(int r) const {
    if constexpr (kHalves == 2) return at[r][1];
    return hn::Zero(kF);
  }

  // Both halves.
  HWY_INLINE void Store(float* HWY_RESTRICT to,
                        ptrdiff_t stride = Width()) const {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(at[r][0], kF, to + r * stride);
      hn::Store(UpperHalf(r), kF, to + r * stride + Lanes());
    }
  }

  HWY_INLINE void AddFrom(const float* HWY_RESTRICT from) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const float* const row = from + r * Width();
      at[r][0] = hn::Add(at[r][0], hn::Load(kF, row));
      at[r][1] = hn::Add(at[r][1], hn::Load(kF, row + Lanes()));
    }
  }

  HWY_INLINE void Scale(const PanelPair& factors) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      at[r][0] = hn::Mul(at[r][0], factors.low);
      if constexpr (kHalves == 2) at[r][1] = hn::Mul(at[r][1], factors.high);
    }
  }

  template <class Product = OfFloats>
  HWY_INLINE void Add(int r, float scalar, const Vector& low,
                      const Vector& high) {
    AddEvery<Product>(r, Product::Every(scalar), low, high);
  }

  // The same of a scalar that is in all lanes, or as Product::Every has it.
  template <class Product = OfFloats, typename Scalar>
  HWY_INLINE void AddEvery(int r, const Scalar& x, const Vector& low,
                           const Vector& high) {
    at[r][0] = Product::Add(x, low, at[r][0]);
    if constexpr (kHalves == 2) at[r][1] = Product::Add(x, high, at[r][1]);
  }
};

// Calls body(halves) with how many halves of a panel are computed: one where it
// is enough and there are such loops. body's argument is an integral_constant.
template <typename Body>
HWY_INLINE auto WithHalves(bool half, Body body) {
  if constexpr (kHasHalfPanels) {
    if (half) return body(std::integral_constant<int, 1>());
  }
  return body(std::integral_constant<int, 2>());
}

// What a loop prefetches: nothing. prefetch_queue-inl.h has another.
struct NoLines {
  // Calls turn() so many times.
  template <typename Turn>
  HWY_INLINE void ForTurns(int64_t turns, const Turn& turn) {
    FLASHACL_UNROLL_8
    for (int64_t k = 0; k < turns; ++k) turn();
  }
};

// A row of a panel in memory: two vectors of floats. topk_grad-inl.h has
// another.
struct FloatsOfPanel {
  static constexpr ptrdiff_t Stride() { return Width(); }

  // Not as a PanelPair, of which GCC 12 stores a vector with every row.
  template <int kHalves>
  static HWY_INLINE void Load(const float* HWY_RESTRICT at, Vector& low,
                              Vector& high) {
    low = hn::Load(kF, at);
    high = low;
    if constexpr (kHalves == 2) high = hn::Load(kF, at + Lanes());
  }
};

// sums[r] += sum over k < depth of rows[r * stride + k] * panel[k], in one
// chain. `lines` are prefetched meanwhile.
template <class Product, class Panel = FloatsOfPanel, int kRows, int kHalves,
          class Lines = NoLines>
HWY_INLINE void AddChain(const float* HWY_RESTRICT rows, ptrdiff_t stride,
                         const float* HWY_RESTRICT panel, int64_t depth,
                         Sums<kRows, kHalves>& sums, Lines lines = {}) {
  // On x86 a base for every three rows: one scaled index register serves them
  // all. ARM's loads of a scalar add nothing but a constant.
  constexpr int kOfBase = HWY_ARCH_ARM_A64 ? 1 : 3;
  constexpr int kBases = (kRows + kOfBase - 1) / kOfBase;
  const float* base[kBases];
  HWY_UNROLL_ALL
  for (int n = 0; n < kBases; ++n) base[n] = rows + kOfBase * n * stride;
  lines.ForTurns(depth, [&]() HWY_ATTR {
    Vector low, high;
    Panel::template Load<kHalves>(panel, low, high);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums.template Add<Product>(r, base[r / kOfBase][r % kOfBase * stride],
                                 low, high);
    }
    panel += Panel::Stride();
    HWY_UNROLL_ALL
    for (int n = 0; n < kBases; ++n) ++base[n];
  });
}

// The same: scores, where rows are keys as they lie in memory. Chains are as
// long as the product allows, and are added.
template <class Product = OfFloats, int kRows, int kHalves,
          class Lines = NoLines>
HWY_INLINE void AddRows(const float* HWY_RESTRICT rows, ptrdiff_t stride,
                        const float* HWY_RESTRICT panel, int64_t depth,
                        Sums<kRows, kHalves>& sums, Lines lines = {}) {
  if constexpr (Product::kChain == 0) {
    AddChain<Product>(rows, stride, panel, depth, sums, lines);
  } else {
    Product::AddRows(rows, stride, panel, depth, sums);
  }
}

// sums[r] += column[r] * panel.
template <class Product, int kRows, int kHalves>
HWY_INLINE void AddColumn(const float* HWY_RESTRICT column,
                          const float* HWY_RESTRICT panel,
                          Sums<kRows, kHalves>& sums) {
  Vector low, high;
  FloatsOfPanel::Load<kHalves>(panel, low, high);
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    sums.template Add<Product>(r, column[r], low, high);
  }
}

// sums[r] += sum over k < depth of columns[k][r] * panel[k]: outputs, where
// columns are a block of channels, one key after the other.
template <class Product = OfFloats, int kRows, int kHalves,
          class Lines = NoLines>
HWY_INLINE void AddColumns(const float* HWY_RESTRICT columns,
                           const float* HWY_RESTRICT panel, int64_t depth,
                           Sums<kRows, kHalves>& sums, Lines lines = {}) {
  if constexpr (Product::kChain == 0) {
    lines.ForTurns(depth, [&]() HWY_ATTR {
      AddColumn<Product>(columns, panel, sums);
      panel += Width();
      columns += kRows;
    });
  } else {
    Product::AddColumns(columns, panel, depth, sums);
  }
}

// The same where columns lie `stride` floats apart: channels of rows that were
// not packed.
template <int kRows, int kHalves>
HWY_INLINE void AddColumnsApart(const float* HWY_RESTRICT columns,
                                ptrdiff_t stride,
                                const float* HWY_RESTRICT panel, int64_t depth,
                                Sums<kRows, kHalves>& sums) {
  for (int64_t k = 0; k < depth; ++k) {
    Vector low, high;
    FloatsOfPanel::Load<kHalves>(panel, low, high);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums.Add(r, columns[r], low, high);
    }
    panel += Width();
    columns += stride;
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MATMUL_INL_H_
