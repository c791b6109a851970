// SPDX-License-Identifier: Apache-2.0
// SVE's vectors at the one width that this file is compiled for.
//
// SVE's own types have no size, so nothing can hold them: no array, no member.
// Given a width, which -msve-vector-bits does, the compiler has types of the
// same vectors with a size. They convert to Highway's and back by themselves;
// only templates that ask what a vector is made of need to be told.

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_TILE_SVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_SVE_INL_H_
#undef FLASHACL_CPU_TILE_SVE_INL_H_
#else
#define FLASHACL_CPU_TILE_SVE_INL_H_
#endif

#include "cpu/targets.h"
#include "hwy/highway.h"

#if FLASHACL_SVE_BITS
HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The vector of this many bits of elements T.
template <typename T>
struct SizedVector;

}  // namespace flashacl::cpu::HWY_NAMESPACE

#define FLASHACL_SIZED_VECTOR(T, NAME, VECTOR)                                 \
  namespace flashacl::cpu::HWY_NAMESPACE {                                     \
  using NAME = VECTOR __attribute__((arm_sve_vector_bits(FLASHACL_SVE_BITS))); \
  template <>                                                                  \
  struct SizedVector<T> {                                                      \
    using type = NAME;                                                         \
  };                                                                           \
  }                                                                            \
  template <>                                                                  \
  struct hwy::HWY_NAMESPACE::DFromV_t<flashacl::cpu::HWY_NAMESPACE::NAME> {    \
    using type = hwy::HWY_NAMESPACE::ScalableTag<T>;                           \
  };

FLASHACL_SIZED_VECTOR(float, SizedF32, svfloat32_t)
FLASHACL_SIZED_VECTOR(double, SizedF64, svfloat64_t)
FLASHACL_SIZED_VECTOR(int8_t, SizedI8, svint8_t)
FLASHACL_SIZED_VECTOR(int16_t, SizedI16, svint16_t)
FLASHACL_SIZED_VECTOR(int32_t, SizedI32, svint32_t)
FLASHACL_SIZED_VECTOR(int64_t, SizedI64, svint64_t)
FLASHACL_SIZED_VECTOR(uint8_t, SizedU8, svuint8_t)
FLASHACL_SIZED_VECTOR(uint16_t, SizedU16, svuint16_t)
FLASHACL_SIZED_VECTOR(uint32_t, SizedU32, svuint32_t)
FLASHACL_SIZED_VECTOR(uint64_t, SizedU64, svuint64_t)

#undef FLASHACL_SIZED_VECTOR
HWY_AFTER_NAMESPACE();
#endif  // FLASHACL_SVE_BITS

#endif  // FLASHACL_CPU_TILE_SVE_INL_H_
