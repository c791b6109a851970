// SPDX-License-Identifier: Apache-2.0
// Elements that a mask keeps, scaled, and zeros.
//
// Elements lie in lanes. A block becomes floats, each vector of which meets its
// bits of the mask, and then elements again; so whatever lies apart in memory
// costs two passes over what L1 holds. It is a selection: what is dropped is 0,
// whether or not it was a number.

#include <cstdint>

#include "dropout/dropout_kernel.h"

#if defined(FLASHACL_DROPOUT_SELECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_DROPOUT_SELECT_INL_H_
#undef FLASHACL_DROPOUT_SELECT_INL_H_
#else
#define FLASHACL_DROPOUT_SELECT_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::dropout::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vectors = flashacl::cpu::HWY_NAMESPACE;

// All lanes whose bit, counted from the lowest, is set.
template <class D>
HWY_INLINE hn::Mask<D> LanesOf(D d, uint32_t bits) {
  const hn::RebindToSigned<D> words;
  const auto lane = hn::Shl(hn::Set(words, 1), hn::Iota(words, 0));
  const auto set = hn::And(hn::Set(words, static_cast<int32_t>(bits)), lane);
  return hn::RebindMask(d, hn::Ne(set, hn::Zero(words)));
}

template <bool kDivides>
HWY_INLINE void SelectFloats(const SelectBlock& block,
                             float* HWY_RESTRICT values) {
  const vectors::Floats d;
  const auto amount = hn::Set(d, block.amount);
  // The buffer ends with whole vectors.
  for (int64_t i = 0; i < block.count; i += vectors::Lanes()) {
    const auto value = hn::Load(d, values + i);
    const auto keeps = LanesOf(d, block.bits[i / 32] >> (i % 32));
    const auto scaled =
        kDivides ? hn::Div(value, amount) : hn::Mul(value, amount);
    hn::Store(hn::IfThenElseZero(keeps, scaled), d, values + i);
  }
}

inline void Select(const SelectBlock& block) {
  HWY_ALIGN float values[kSelectBlock];
  vectors::LoadRow(block.self, block.from, block.count, values);
  for (int64_t i = block.count; i % vectors::Lanes() != 0; ++i) values[i] = 0;
  if (block.divides) {
    SelectFloats<true>(block, values);
  } else {
    SelectFloats<false>(block, values);
  }
  vectors::StoreRow(block.out, values, block.count, block.to);
}

}  // namespace flashacl::dropout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_DROPOUT_SELECT_INL_H_
