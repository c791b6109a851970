// SPDX-License-Identifier: Apache-2.0
// Elements that a mask keeps, scaled, and zeros.
//
// Elements lie in lanes. Dense vectors meet their bits of the mask in
// registers; of all else a block becomes floats, which meet theirs, and then
// elements again: two passes over what L1 holds. It is a selection: what is
// dropped is 0, whether or not it was a number.

#include <cstdint>

#include "dropout/dropout_kernel.h"

#if defined(FLASHACL_DROPOUT_SELECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_DROPOUT_SELECT_INL_H_
#undef FLASHACL_DROPOUT_SELECT_INL_H_
#else
#define FLASHACL_DROPOUT_SELECT_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/pair-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/stream-inl.h"
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

HWY_INLINE vectors::Vector Scaled(const SelectBlock& block,
                                  vectors::Vector value) {
  const auto amount = hn::Set(vectors::kF, block.amount);
  return block.divides ? hn::Div(value, amount) : hn::Mul(value, amount);
}

// The elements from number `i` on, a vector of them.
HWY_INLINE vectors::Vector Selected(const SelectBlock& block, int64_t i,
                                    vectors::Vector value) {
  const auto keeps = LanesOf(vectors::kF, block.bits[i / 32] >> (i % 32));
  return hn::IfThenElseZero(keeps, Scaled(block, value));
}

// The same of elements of 16 bits, a vector of which is two of floats.
template <DType kType>
HWY_INLINE hn::Vec<vectors::Halves> SelectedHalves(const SelectBlock& block,
                                                   int64_t i) {
  using vectors::kH;
  const uint64_t word = block.bits[i / 32] >> (i % 32);
  uint8_t bits[sizeof(word)];
  hwy::CopySameSize(&word, &bits);
  const vectors::Pair value = vectors::LoadPair<kType>(block.from, i);
  return hn::IfThenElseZero(
      hn::LoadMaskBits(kH, bits),
      vectors::Pack<kType>(
          {Scaled(block, value.first), Scaled(block, value.second)}));
}

// Whole vectors of one type; may be in place.
template <DType kType, bool kStreams>
HWY_INLINE void SelectVectors(const SelectBlock& block) {
  int64_t i = 0;
  if constexpr (kType != DType::kF32) {
    constexpr int64_t kTogether = 2 * vectors::Lanes();
    for (; i + kTogether <= block.count; i += kTogether) {
      vectors::StoreVector<kStreams>(vectors::kH,
                                     SelectedHalves<kType>(block, i),
                                     reinterpret_cast<uint16_t*>(block.to) + i);
    }
  }
  for (; i < block.count; i += vectors::Lanes()) {
    const auto value = vectors::FloatsAt<kType>(vectors::kF, block.from, i);
    const auto selected = Selected(block, i, value);
    if constexpr (kType == DType::kF32) {
      vectors::StoreVector<kStreams>(vectors::kF, selected,
                                     reinterpret_cast<float*>(block.to) + i);
    } else {
      vectors::StoreFloats<kType>(vectors::kF, selected, block.to, i);
    }
  }
}

template <DType kType>
HWY_INLINE void SelectDense(const SelectBlock& block) {
  constexpr int64_t kLine = vectors::kLineBytes;
  const bool lines = reinterpret_cast<uintptr_t>(block.to) % kLine == 0;
  return block.streams && lines ? SelectVectors<kType, true>(block)
                                : SelectVectors<kType, false>(block);
}

inline void SelectApart(const SelectBlock& block) {
  HWY_ALIGN float values[kSelectBlock];
  vectors::LoadRow(block.self, block.from, block.count, values);
  for (int64_t i = block.count; i % vectors::Lanes() != 0; ++i) values[i] = 0;
  for (int64_t i = 0; i < block.count; i += vectors::Lanes()) {
    const auto value = hn::Load(vectors::kF, values + i);
    hn::Store(Selected(block, i, value), vectors::kF, values + i);
  }
  vectors::StoreRow(block.out, values, block.count, block.to);
}

inline void Select(const SelectBlock& block) {
  const bool dense = block.self == block.out && block.self.step == 1 &&
                     block.count % vectors::Lanes() == 0;
  switch (dense ? block.self.dtype : DType::kNone) {
    case DType::kF32:
      return SelectDense<DType::kF32>(block);
    case DType::kF16:
      return SelectDense<DType::kF16>(block);
    case DType::kBf16:
      return SelectDense<DType::kBf16>(block);
    default:
      return SelectApart(block);
  }
}

}  // namespace flashacl::dropout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_DROPOUT_SELECT_INL_H_
