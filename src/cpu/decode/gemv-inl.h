// SPDX-License-Identifier: Apache-2.0
// Both products for few rows: channels in lanes, elements converted in
// registers. A micro-tile is up to four packed rows, which share every element
// that is converted. Its queries and outputs lie as [vector of channels, row,
// lane]; its scores as [key, row] with four rows to a key, or with one where
// there is one row in all.
//
// Scores are gemv_scores-inl.h, outputs gemv_outputs-inl.h. Keys and values are
// not packed. A call is for the micro-tiles of one head or several; those of a
// head prefetch about as many lines as one reads, or with scores a quarter
// less, which the softmax prefetches.

#if defined(FLASHACL_CPU_DECODE_GEMV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/decode/gemv_outputs-inl.h"
#include "cpu/decode/gemv_scores-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Of scores, by the number of rows less one.
template <class Elements>
constexpr DotKernels MakeDotKernels() {
  return {DotAll<Elements, 1>, DotAll<Elements, 2>, DotAll<Elements, 3>,
          DotAll<Elements, 4>};
}

template <class Elements>
constexpr GemvKernels MakeGemvKernelsOf() {
  return {MakeDotKernels<Elements>(),
          {AddAll<Elements, 1>, AddAll<Elements, 2>, AddAll<Elements, 3>,
           AddAll<Elements, 4>}};
}

// Of elements of one type; defined once for each, in a source of its own.
template <DType kType>
constexpr GemvKernels MakeGemvKernels() {
  return MakeGemvKernelsOf<ElementsOf<kType>>();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_INL_H_
