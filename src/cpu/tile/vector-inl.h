// SPDX-License-Identifier: Apache-2.0
// The vector types of the tiles, and the panel.
//
// A panel is as many rows as two vectors have lanes, one row to a lane. It is
// packed as [k, lane]: element k of its rows is one pair of vectors at
// k * Width(). So whatever is computed for a row is computed in its lane, loops
// over k are outer, and nothing is combined across lanes. Two vectors, as a
// scalar that is broadcast then serves two multiply-adds (matmul-inl.h). The
// lanes of a target are a constant, so arrays of vectors may have their number.

#include <cstddef>

#if defined(FLASHACL_CPU_TILE_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_VECTOR_INL_H_
#undef FLASHACL_CPU_TILE_VECTOR_INL_H_
#else
#define FLASHACL_CPU_TILE_VECTOR_INL_H_
#endif

#include "cpu/tile/sve-inl.h"
#include "hwy/highway.h"

// The loops that keep vectors in arrays must vanish, or the arrays live in
// memory.
#undef HWY_UNROLL_ALL
#if HWY_COMPILER_CLANG
#define HWY_UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#define HWY_UNROLL_ALL _Pragma("GCC unroll 32")
#endif

// Loops of few instructions that run at the speed of the multiply-adds only
// while nothing else is decoded: written out eight times, they count once.
#undef FLASHACL_UNROLL_8
#if HWY_COMPILER_CLANG
#define FLASHACL_UNROLL_8 _Pragma("clang loop unroll_count(8)")
#else
#define FLASHACL_UNROLL_8 _Pragma("GCC unroll 8")
#endif

// An instruction of three vector registers by its bits, as compilers' options
// need not allow it, and clang 14 takes no other word for it. Operands are v0
// to v31, or SVE's z0 to z31, which symbols turn into numbers.
#undef FLASHACL_ASM_VECTORS
#define FLASHACL_ASM_VECTORS(code)                                        \
  ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17," \
  "18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n\t"            \
  ".set .Lvector_v\\n, \\n\n\t"                                           \
  ".set .Lvector_z\\n, \\n\n\t"                                           \
  ".endr\n\t"                                                             \
  ".inst " code " | .Lvector_%2 << 16 | .Lvector_%1 << 5 | .Lvector_%0"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Registers that hold vectors. Blocks of arithmetic are as large as these
// allow.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 || HWY_ARCH_ARM_A64
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif

// Lanes of a tag, its vector and other vectors of Highway's as arrays and
// members may have them: as they are, but where those have no size.
#if FLASHACL_SVE_BITS
template <typename T, size_t kAtMost, int kPower>
HWY_INLINE constexpr size_t LanesOf(hn::Simd<T, kAtMost, kPower>) {
  constexpr size_t kAll = FLASHACL_SVE_BITS / 8 / sizeof(T);
  return HWY_MIN(kPower < 0 ? kAll >> -kPower : kAll << kPower, kAtMost);
}
template <class D>
using VectorOf = typename SizedVector<hn::TFromD<D>>::type;
template <class V>
using Stored = VectorOf<hn::DFromV<V>>;
#else
template <class D>
HWY_INLINE constexpr size_t LanesOf(D d) {
  return hn::MaxLanes(d);
}
template <class D>
using VectorOf = hn::Vec<D>;
template <class V>
using Stored = V;
#endif

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToSigned<Floats>;
using Vector = VectorOf<Floats>;
inline constexpr Floats kF;
inline constexpr Words kW;

HWY_INLINE constexpr ptrdiff_t Lanes() { return LanesOf(kF); }
HWY_INLINE constexpr ptrdiff_t Width() { return 2 * LanesOf(kF); }

// A value for every row of a panel.
struct PanelPair {
  Vector low, high;

  static HWY_INLINE PanelPair Of(float value) {
    return {hn::Set(kF, value), hn::Set(kF, value)};
  }
  static HWY_INLINE PanelPair Load(const float* HWY_RESTRICT from) {
    return {hn::Load(kF, from), hn::Load(kF, from + Lanes())};
  }
  HWY_INLINE void Store(float* HWY_RESTRICT to) const {
    hn::Store(low, kF, to);
    hn::Store(high, kF, to + Lanes());
  }
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_VECTOR_INL_H_
