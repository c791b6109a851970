// SPDX-License-Identifier: Apache-2.0
// Rows, whose channels lie in lanes, into panels, [channel, lane] with rows in
// lanes, and back.
//
// Both are cut into blocks of 4 x 4, which interleaving transposes in registers
// in two rounds: one block at a time, four rows by four channels, or as many as
// a vector has (PanelFromRows), and those of as many vectors change places
// where there are as many rows (PanelToWholeRows). Rows are outer, channels
// inner. A block may pass the last channel, so that rows and panels have room
// for whole blocks. What must happen to every element on its way is done to the
// block: biases are added, outputs multiplied by 1 / sum, rows multiplied with
// rows (DotsOfFour).

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_TILE_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_TRANSPOSE_INL_H_
#undef FLASHACL_CPU_TILE_TRANSPOSE_INL_H_
#else
#define FLASHACL_CPU_TILE_TRANSPOSE_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using Quad = hn::FixedTag<float, 4>;
using QuadVector = VectorOf<Quad>;
inline constexpr Quad kQ;

// Blocks of 4 x 4, as many side by side as a vector has.
template <class D>
struct QuadsOf {
  VectorOf<D> at[4];

  HWY_INLINE void Transpose() {
    const D d;
    const auto low02 = hn::InterleaveLower(d, at[0], at[2]);
    const auto high02 = hn::InterleaveUpper(d, at[0], at[2]);
    const auto low13 = hn::InterleaveLower(d, at[1], at[3]);
    const auto high13 = hn::InterleaveUpper(d, at[1], at[3]);
    at[0] = hn::InterleaveLower(d, low02, low13);
    at[1] = hn::InterleaveUpper(d, low02, low13);
    at[2] = hn::InterleaveLower(d, high02, high13);
    at[3] = hn::InterleaveUpper(d, high02, high13);
  }
};

using Quads = QuadsOf<Quad>;

// A vector of quads: quad(first), quad(first + 1) and so on.
template <class D, typename Of>
HWY_INLINE VectorOf<D> JoinQuads(D d, int first, Of quad) {
  if constexpr (LanesOf(d) == 4) {
    return quad(first);
  } else {
    const hn::Half<D> half;
    constexpr int kQuads = LanesOf(half) / 4;
    return hn::Combine(d, JoinQuads(half, first + kQuads, quad),
                       JoinQuads(half, first, quad));
  }
}

// A vector of quads that are loaded. They meet when they are, as shuffles all
// go to one port.
template <typename Of>
HWY_INLINE Vector JoinLoaded(Of quad) {
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  __m512 v = _mm512_castps128_ps512(quad(0).raw);
  v = _mm512_insertf32x4(v, quad(1).raw, 1);
  v = _mm512_insertf32x4(v, quad(2).raw, 2);
  return Vector{_mm512_insertf32x4(v, quad(3).raw, 3)};
#else
  return JoinQuads(kF, 0, quad);
#endif
}

// A panel's rows become its lanes, `count` elements of each from `panel` on, a
// multiple of 4; at(r, k) is the quad of elements k to k + 3 of row r.
template <typename At>
HWY_INLINE void PanelFromRows(int64_t count, float* HWY_RESTRICT panel, At at) {
  for (ptrdiff_t lane = 0; lane < Width(); lane += Lanes()) {
    for (int64_t k = 0; k < count; k += 4) {
      const auto rows = [&](int r) HWY_ATTR {
        return JoinQuads(
            kF, 0, [&](int n) HWY_ATTR { return at(lane + 4 * n + r, k); });
      };
      // All at once: GCC has no constructor for this on NEON.
      QuadsOf<Floats> quads{{rows(0), rows(1), rows(2), rows(3)}};
      quads.Transpose();
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) {
        hn::Store(quads.at[n], kF, panel + (k + n) * Width() + lane);
      }
    }
  }
}

// Four rows, `stride` floats apart.
struct FourRows {
  float* first;
  ptrdiff_t stride;

  HWY_INLINE Quads Load(int64_t k) const {
    return {{hn::LoadU(kQ, first + k), hn::LoadU(kQ, first + stride + k),
             hn::LoadU(kQ, first + 2 * stride + k),
             hn::LoadU(kQ, first + 3 * stride + k)}};
  }
  HWY_INLINE void Store(const Quads& quads, int64_t k) const {
    hn::StoreU(quads.at[0], kQ, first + k);
    hn::StoreU(quads.at[1], kQ, first + stride + k);
    hn::StoreU(quads.at[2], kQ, first + 2 * stride + k);
    hn::StoreU(quads.at[3], kQ, first + 3 * stride + k);
  }
};

// Lanes 0 to 3 from `panel` on get the rows, element by element. Rows have room
// for `count` rounded up to 4; what is between has no meaning. each(k, quads)
// sees elements k to k + 3, with rows in lanes.
template <typename Each>
HWY_INLINE void RowsToPanel(const FourRows& rows, int64_t count,
                            float* HWY_RESTRICT panel, Each each) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    Quads quads = rows.Load(k);
    quads.Transpose();
    FourRows{panel + k * Width(), Width()}.Store(quads, 0);
    each(k, quads);
  }
  if (k == count) return;
  Quads quads = rows.Load(k);
  quads.Transpose();
  HWY_UNROLL_ALL
  for (int n = 0; n < 3; ++n) {
    if (k + n < count) hn::StoreU(quads.at[n], kQ, panel + (k + n) * Width());
  }
  each(k, quads);
}

HWY_INLINE void RowsToPanel(const FourRows& rows, int64_t count,
                            float* HWY_RESTRICT panel) {
  RowsToPanel(rows, count, panel, [](int64_t, const Quads&) {});
}

// The other way round: calls store(k, quads) with elements k to k + 3 of lanes
// 0 to 3, for every fourth k below `count`. Before that, finish(quads) gets
// them with rows in lanes.
template <typename Finish, typename Store>
HWY_INLINE void PanelToRows(const float* HWY_RESTRICT panel, int64_t count,
                            Finish finish, Store store) {
  for (int64_t k = 0; k < count; k += 4) {
    Quads quads =
        FourRows{const_cast<float*>(panel) + k * Width(), Width()}.Load(0);
    finish(quads);
    quads.Transpose();
    store(k, quads);
  }
}

// Dot products of four rows with four others, which are 0 from `count` to the
// next multiple of 4. Summed in the order of products with keys, so what should
// cancel one of those does.
inline void DotsOfFour(const FourRows& a, const FourRows& b, int64_t count,
                       float* HWY_RESTRICT dots) {
  QuadVector sum = hn::Zero(kQ);
  for (int64_t k = 0; k < count; k += 4) {
    Quads x = a.Load(k), y = b.Load(k);
    x.Transpose();
    y.Transpose();
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) sum = hn::MulAdd(x.at[n], y.at[n], sum);
  }
  hn::StoreU(sum, kQ, dots);
}

// The same, and RowsToPanel of the former rows.
inline void RowsToPanelAndDots(const FourRows& a, const FourRows& b,
                               int64_t count, float* HWY_RESTRICT panel,
                               float* HWY_RESTRICT dots) {
  QuadVector sum = hn::Zero(kQ);
  RowsToPanel(a, count, panel, [&](int64_t k, const Quads& x) HWY_ATTR {
    Quads y = b.Load(k);
    y.Transpose();
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) sum = hn::MulAdd(x.at[n], y.at[n], sum);
  });
  hn::StoreU(sum, kQ, dots);
}

// Dot products in the order of matrix registers: 32 at a time, even ones and
// odd ones apart.
inline void DotsOfFourByMatrices(const FourRows& a, const FourRows& b,
                                 int64_t count, float* HWY_RESTRICT dots) {
  QuadVector sum = hn::Zero(kQ);
  for (int64_t first = 0; first < count; first += 32) {
    QuadVector even = hn::Zero(kQ), odd = hn::Zero(kQ);
    for (int64_t k = first; k < first + 32 && k < count; k += 4) {
      Quads x = a.Load(k), y = b.Load(k);
      x.Transpose();
      y.Transpose();
      even = hn::MulAdd(x.at[0], y.at[0], even);
      odd = hn::MulAdd(x.at[1], y.at[1], odd);
      even = hn::MulAdd(x.at[2], y.at[2], even);
      odd = hn::MulAdd(x.at[3], y.at[3], odd);
    }
    sum = hn::Add(sum, hn::Add(even, odd));
  }
  hn::StoreU(sum, kQ, dots);
}

// Lanes 0 to 3 of elements `width` floats apart become (lane + row) * factor.
HWY_INLINE void AddRowsToPanel(const FourRows& rows, int64_t count,
                               float factor, float* HWY_RESTRICT panel,
                               ptrdiff_t width = Width()) {
  const QuadVector scale = hn::Set(kQ, factor);
  for (int64_t k = 0; k < count; k += 4) {
    Quads added = rows.Load(k);
    added.Transpose();
    const FourRows lanes{panel + k * width, width};
    Quads sums = lanes.Load(0);
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) {
      sums.at[n] = hn::Mul(hn::Add(sums.at[n], added.at[n]), scale);
    }
    lanes.Store(sums, 0);
  }
}

// Of four vectors of blocks of four lanes, or as many as a vector has of them:
// block q of vector g becomes block g of vector q. They are every fourth of
// `v`, from `n` on.
HWY_INLINE void TransposeBlocks(Vector (&v)[Lanes()], int n) {
  if constexpr (Lanes() == 8) {
    const Vector a = v[n], b = v[n + 4];
    v[n] = hn::ConcatLowerLower(kF, b, a);
    v[n + 4] = hn::ConcatUpperUpper(kF, b, a);
  } else if constexpr (Lanes() == 16) {
    const auto two = [&](const Vector& even, const Vector& odd,
                         int q) HWY_ATTR {
      v[n + 4 * q] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even);
      v[n + 4 * q + 4] = hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even));
    };
    const Vector a = v[n], b = v[n + 4], c = v[n + 8], d = v[n + 12];
    two(hn::ConcatLowerLower(kF, c, a), hn::ConcatLowerLower(kF, d, b), 0);
    two(hn::ConcatUpperUpper(kF, c, a), hn::ConcatUpperUpper(kF, d, b), 2);
  }
}

// Lane r of vector k becomes lane k of vector r.
HWY_INLINE void TransposeAll(Vector (&v)[Lanes()]) {
  constexpr int kLanes = Lanes();
  HWY_UNROLL_ALL
  for (int g = 0; g < kLanes; g += 4) {
    QuadsOf<Floats> quads{{v[g], v[g + 1], v[g + 2], v[g + 3]}};
    quads.Transpose();
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) v[g + n] = quads.at[n];
  }
  HWY_UNROLL_ALL
  for (int n = 0; n < 4; ++n) TransposeBlocks(v, n);
}

// PanelToRows of as many lanes as a vector has, a multiple of as many elements:
// calls store(r, k, vector) with elements from k on of lane r, block by block
// of all lanes. Before that, finish(vector) returns element k of all of them.
// A block's place in the panel may be stored to.
template <typename Finish, typename Store>
HWY_INLINE void PanelToWholeRows(const float* panel, int64_t count,
                                 Finish finish, Store store) {
  constexpr int kLanes = Lanes();
  for (int64_t k = 0; k < count; k += kLanes) {
    Vector v[kLanes];
    HWY_UNROLL_ALL
    for (int n = 0; n < kLanes; ++n) {
      v[n] = finish(hn::Load(kF, panel + (k + n) * Width()));
    }
    TransposeAll(v);
    HWY_UNROLL_ALL
    for (int r = 0; r < kLanes; ++r) store(r, k, v[r]);
  }
}

// The blocks of four lanes of a vector, combined into one.
template <class D, typename Combine>
HWY_INLINE QuadVector CombineBlocks(D d, const VectorOf<D>& v,
                                    Combine combine) {
  if constexpr (LanesOf(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return CombineBlocks(
        half, combine(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), combine);
  }
}

// Of four blocks of four lanes the second and the third change places; fewer
// stay as they are.
HWY_INLINE Vector SwapInnerBlocks(const Vector& v) {
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  return Vector{_mm512_shuffle_f32x4(v.raw, v.raw, 0xD8)};
#else
  if constexpr (Lanes() < 16) return v;
  static constexpr int32_t kOrder[] = {0, 1, 2, 3, 8,  9,  10, 11,
                                       4, 5, 6, 7, 12, 13, 14, 15};
  return hn::TableLookupLanes(v, hn::SetTableIndices(kF, kOrder));
#endif
}

// Of four vectors that interleaving rows left, block b of vector n with
// channels 16 b + 4 n and the three after, the order of channels: vector m of
// the result has block m of each.
HWY_INLINE void OrderChannels(Vector (&v)[4]) {
  if constexpr (Lanes() == 4) return;
  const Vector low01 = hn::ConcatLowerLower(kF, v[1], v[0]);
  const Vector low23 = hn::ConcatLowerLower(kF, v[3], v[2]);
  const Vector high01 = hn::ConcatUpperUpper(kF, v[1], v[0]);
  const Vector high23 = hn::ConcatUpperUpper(kF, v[3], v[2]);
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  v[0] = Vector{_mm512_shuffle_f32x4(low01.raw, low23.raw, 0x88)};
  v[1] = Vector{_mm512_shuffle_f32x4(low01.raw, low23.raw, 0xDD)};
  v[2] = Vector{_mm512_shuffle_f32x4(high01.raw, high23.raw, 0x88)};
  v[3] = Vector{_mm512_shuffle_f32x4(high01.raw, high23.raw, 0xDD)};
#else
  v[0] = low01;
  v[1] = low23;
  v[2] = high01;
  v[3] = high23;
  if constexpr (Lanes() == 16) {
    const auto split = [](Vector& first, Vector& second) HWY_ATTR {
      const Vector of01 = SwapInnerBlocks(first);
      const Vector of23 = SwapInnerBlocks(second);
      first = hn::ConcatLowerLower(kF, of23, of01);
      second = hn::ConcatUpperUpper(kF, of23, of01);
    };
    split(v[0], v[1]);
    split(v[2], v[3]);
  }
#endif
}

HWY_INLINE QuadVector SumOfBlocks(const Vector& v) {
  return CombineBlocks(kF, v, [](const auto& a, const auto& b) HWY_ATTR {
    return hn::Add(a, b);
  });
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_TRANSPOSE_INL_H_
