// SPDX-License-Identifier: Apache-2.0
// Three vectors times four vectors or four numbers, added to twelve sums: what
// 16 registers hold. In assembly where there are no more of them: left alone,
// GCC 12 moves sums between registers and keeps some in memory, and values of
// four rows took a seventh longer.

#if defined(FLASHACL_CPU_TILE_OUTER_PRODUCT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_OUTER_PRODUCT_INL_H_
#undef FLASHACL_CPU_TILE_OUTER_PRODUCT_INL_H_
#else
#define FLASHACL_CPU_TILE_OUTER_PRODUCT_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

#if HWY_TARGET == HWY_AVX2

#define FLASHACL_ADD_PRODUCTS_OF(LOAD, OFFSET, R) \
  LOAD " " OFFSET                                 \
       "+%[from], %[y]\n\t"                       \
       "vfmadd231ps %[y], %[x0], %[s0" R          \
       "]\n\t"                                    \
       "vfmadd231ps %[y], %[x1], %[s1" R          \
       "]\n\t"                                    \
       "vfmadd231ps %[y], %[x2], %[s2" R "]\n\t"
#define FLASHACL_ADD_OUTER_PRODUCT(LOAD, FLOATS, O1, O2, O3)             \
  struct Operand {                                                       \
    float at[FLOATS];                                                    \
  };                                                                     \
  Vector y;                                                              \
  asm(FLASHACL_ADD_PRODUCTS_OF(LOAD, "0", "0") FLASHACL_ADD_PRODUCTS_OF( \
          LOAD, O1, "1") FLASHACL_ADD_PRODUCTS_OF(LOAD, O2, "2")         \
          FLASHACL_ADD_PRODUCTS_OF(LOAD, O3, "3")                        \
      : [s00] "+&x"(sums[0][0].raw), [s01] "+&x"(sums[0][1].raw),        \
        [s02] "+&x"(sums[0][2].raw), [s03] "+&x"(sums[0][3].raw),        \
        [s10] "+&x"(sums[1][0].raw), [s11] "+&x"(sums[1][1].raw),        \
        [s12] "+&x"(sums[1][2].raw), [s13] "+&x"(sums[1][3].raw),        \
        [s20] "+&x"(sums[2][0].raw), [s21] "+&x"(sums[2][1].raw),        \
        [s22] "+&x"(sums[2][2].raw), [s23] "+&x"(sums[2][3].raw),        \
        [y] "=&x"(y.raw)                                                 \
      : [x0] "x"(x[0].raw), [x1] "x"(x[1].raw), [x2] "x"(x[2].raw),      \
        [from] "o"(*reinterpret_cast<const Operand*>(from)))

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// sums[n][r] += x[n] * (vector r of those at `from`)
HWY_INLINE void AddOuterProduct(const Vector (&x)[3],
                                const float* HWY_RESTRICT from,
                                Vector (&sums)[3][4]) {
  FLASHACL_ADD_OUTER_PRODUCT("vmovaps", 4 * Lanes(), "32", "64", "96");
}

// sums[n][r] += x[n] * from[r]
HWY_INLINE void AddBroadcastOuterProduct(const Vector (&x)[3],
                                         const float* HWY_RESTRICT from,
                                         Vector (&sums)[3][4]) {
  FLASHACL_ADD_OUTER_PRODUCT("vbroadcastss", 4, "4", "8", "12");
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#undef FLASHACL_ADD_OUTER_PRODUCT
#undef FLASHACL_ADD_PRODUCTS_OF

#endif  // HWY_TARGET == HWY_AVX2

#endif  // FLASHACL_CPU_TILE_OUTER_PRODUCT_INL_H_
