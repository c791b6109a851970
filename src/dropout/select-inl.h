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

// The elements from number `i` on, a vector of them.
HWY_INLINE vectors::Vector Selected(const SelectBlock& block, int64_t i,
                                    vectors::Vector value) {
  const vectors::Floats d;
  const auto keeps = LanesOf(d, block.bits[i / 32] >> (i % 32));
  const auto amount = hn::Set(d, block.amount);
  const auto scaled =
      block.divides ? hn::Div(value, amount) : hn::Mul(value, amount);
  return hn::IfThenElseZero(keeps, scaled);
}

// Whole vectors of one type; may be in place.
template <DType kType>
HWY_INLINE void SelectVectors(const SelectBlock& block, std::byte* to) {
  for (int64_t i = 0; i < block.count; i += vectors::Lanes()) {
    const auto value = vectors::FloatsAt<kType>(vectors::kF, block.from, i);
    vectors::StoreFloats<kType>(vectors::kF, Selected(block, i, value), to, i);
  }
}

template <DType kType>
HWY_INLINE void SelectDense(const SelectBlock& block) {
  constexpr int64_t kLine = vectors::kLineBytes;
  const int64_t bytes = block.count * block.out.element_bytes;
  if (!block.streams || bytes % kLine != 0 ||
      reinterpret_cast<uintptr_t>(block.to) % kLine != 0) {
    return SelectVectors<kType>(block, block.to);
  }
  alignas(kLine) std::byte selected[kSelectBlock * sizeof(float)];
  SelectVectors<kType>(block, selected);
  vectors::StreamBytes(selected, bytes, block.to);
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
