// SPDX-License-Identifier: Apache-2.0
// Gradients of listed keys as matrix registers want them (matrices-inl.h),
// whose products with queries sum over heads.
//
// Heads are cut into head blocks of 32. The 32 floats of a key and a head block
// become as many words where they are: 16 of first terms of bf16, then 16 of
// what these leave, each of heads n and n + 16. Rows of heads that they meet
// are words of the same two heads. Who calls must know that no term is lost
// (RangeOfFloats).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu/sizes.h"

#if defined(FLASHACL_CPU_TILE_HEAD_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_HEAD_TERMS_INL_H_
#undef FLASHACL_CPU_TILE_HEAD_TERMS_INL_H_
#else
#define FLASHACL_CPU_TILE_HEAD_TERMS_INL_H_
#endif

#include "cpu/tile/matrix_values-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kHeadPairs = kHeadBlock / 2;

// How small and how great some numbers are, without their signs.
class RangeOfFloats {
 public:
  HWY_INLINE RangeOfFloats()
      : least_(hn::Set(kW, kNone)), greatest_(hn::Zero(kW)) {}

  HWY_INLINE void Add(const Vector& x) {
    const auto size = hn::BitCast(kW, hn::Abs(x));
    const auto zero = hn::Eq(size, hn::Zero(kW));
    greatest_ = hn::Max(greatest_, size);
    least_ = hn::Min(least_, hn::IfThenElse(zero, hn::Set(kW, kNone), size));
  }

  // Whether none is subnormal, rounds to infinity in bf16 or is no number.
  HWY_INLINE bool AreNormal() const {
    const auto normal = hn::Set(kW, std::bit_cast<int32_t>(0x1p-126f));
    const auto beyond = hn::Lt(hn::Set(kW, kBeyondBf16 - 1), greatest_);
    return hn::AllFalse(kW, hn::Or(hn::Lt(least_, normal), beyond));
  }

  // Whether some number is `bound` or more, or all are 0.
  HWY_INLINE bool Reaches(float bound) const {
    const auto size = hn::Set(kW, std::bit_cast<int32_t>(bound));
    return !hn::AllTrue(kW, hn::Lt(greatest_, size)) ||
           hn::AllTrue(kW, hn::Eq(greatest_, hn::Zero(kW)));
  }

  // The same of the numbers of each lane.
  HWY_INLINE bool EachLaneReaches(float bound) const {
    const auto size = hn::Set(kW, std::bit_cast<int32_t>(bound));
    const auto below = hn::Lt(greatest_, size);
    return hn::AllFalse(kW, hn::And(below, hn::Lt(hn::Zero(kW), greatest_)));
  }

 private:
  static constexpr int32_t kNone = 0x7FFFFFFF;
  VectorOf<Words> least_, greatest_;
};

// Rows of a head block, [head, channel of the block], become words of heads n
// and n + 16; heads from `count` on are 0.
HWY_INLINE void PairHeads(const float* rows, int64_t count, float* words,
                          RangeOfFloats& range) {
  const auto row = [&](int64_t head, ptrdiff_t lane) HWY_ATTR {
    return head < count ? hn::Load(kF, rows + head * Width() + lane)
                        : hn::Zero(kF);
  };
  for (int64_t n = 0; n < kHeadPairs; ++n) {
    for (ptrdiff_t lane = 0; lane < Width(); lane += Lanes()) {
      const Vector first = row(n, lane), second = row(n + kHeadPairs, lane);
      range.Add(first);
      range.Add(second);
      hn::Store(UpperHalves(first, second), kF, words + n * Width() + lane);
    }
  }
}

// 32 floats of a key and a head block, of which `count` are heads, as words.
struct HeadTerms {
  float* at;
  int64_t count;

  // Heads n to n + Lanes(), and those 16 after; 0 where there is no head.
  HWY_INLINE Vector Load(int64_t n) const {
    const auto exist = hn::FirstN(
        kF, static_cast<size_t>(std::clamp<int64_t>(count - n, 0, Lanes())));
    return hn::IfThenElseZero(exist, hn::Load(kF, at + n));
  }

  HWY_INLINE void Check(RangeOfFloats& range) const {
    for (int64_t n = 0; n < kHeadBlock; n += Lanes()) range.Add(Load(n));
  }

  HWY_INLINE void Pack() const {
    for (int64_t n = 0; n < kHeadPairs; n += Lanes()) {
      StoreTerms<true>(Load(n), Load(n + kHeadPairs), at + n, kHeadPairs);
    }
  }
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_HEAD_TERMS_INL_H_
