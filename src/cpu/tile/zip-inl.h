// SPDX-License-Identifier: Apache-2.0
// ARM's vectors as its products of 2 x 2 want them: words of one vector and of
// another by turns, alone or in twos, and the way back. Only where vector code
// is NEON's or SVE's.

#include "cpu/tile/vector-inl.h"

#if defined(FLASHACL_CPU_TILE_ZIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_ZIP_INL_H_
#undef FLASHACL_CPU_TILE_ZIP_INL_H_
#else
#define FLASHACL_CPU_TILE_ZIP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

#if FLASHACL_SVE_BITS
// What `instruction`, of vectors of two words, makes of two vectors.
#define FLASHACL_OF_TWOS(instruction, a, b) \
  svreinterpret_f32_f64(                    \
      instruction(svreinterpret_f64_f32(a), svreinterpret_f64_f32(b)))

// The lower halves of both by turns, and the upper ones.
HWY_INLINE Vector ZipLower(const Vector& a, const Vector& b) {
  return svzip1_f32(a, b);
}
HWY_INLINE Vector ZipUpper(const Vector& a, const Vector& b) {
  return svzip2_f32(a, b);
}
HWY_INLINE Vector ZipLowerTwos(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svzip1_f64, a, b);
}
HWY_INLINE Vector ZipUpperTwos(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svzip2_f64, a, b);
}
// The even ones of both, first those of `a`, and the odd ones.
HWY_INLINE Vector EvenWords(const Vector& a, const Vector& b) {
  return svuzp1_f32(a, b);
}
HWY_INLINE Vector OddWords(const Vector& a, const Vector& b) {
  return svuzp2_f32(a, b);
}
HWY_INLINE Vector EvenTwos(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svuzp1_f64, a, b);
}
HWY_INLINE Vector OddTwos(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svuzp2_f64, a, b);
}
// Of each 128 bits the lower half of `a` and of `b`, and the upper ones.
HWY_INLINE Vector LowerOfBlocks(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svtrn1_f64, a, b);
}
HWY_INLINE Vector UpperOfBlocks(const Vector& a, const Vector& b) {
  return FLASHACL_OF_TWOS(svtrn2_f64, a, b);
}
#undef FLASHACL_OF_TWOS
#else
HWY_INLINE Vector ZipLower(const Vector& a, const Vector& b) {
  return hn::InterleaveLower(kF, a, b);
}
HWY_INLINE Vector ZipUpper(const Vector& a, const Vector& b) {
  return hn::InterleaveUpper(kF, a, b);
}
HWY_INLINE Vector EvenWords(const Vector& a, const Vector& b) {
  return hn::ConcatEven(kF, b, a);
}
HWY_INLINE Vector OddWords(const Vector& a, const Vector& b) {
  return hn::ConcatOdd(kF, b, a);
}
// A vector has two twos and is one block.
HWY_INLINE Vector LowerOfBlocks(const Vector& a, const Vector& b) {
  return hn::ConcatLowerLower(kF, b, a);
}
HWY_INLINE Vector UpperOfBlocks(const Vector& a, const Vector& b) {
  return hn::ConcatUpperUpper(kF, b, a);
}
HWY_INLINE Vector ZipLowerTwos(const Vector& a, const Vector& b) {
  return LowerOfBlocks(a, b);
}
HWY_INLINE Vector ZipUpperTwos(const Vector& a, const Vector& b) {
  return UpperOfBlocks(a, b);
}
HWY_INLINE Vector EvenTwos(const Vector& a, const Vector& b) {
  return LowerOfBlocks(a, b);
}
HWY_INLINE Vector OddTwos(const Vector& a, const Vector& b) {
  return UpperOfBlocks(a, b);
}
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_ZIP_INL_H_
