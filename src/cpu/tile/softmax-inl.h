// SPDX-License-Identifier: Apache-2.0
// Softmax of a panel over the keys seen so far, one step of keys at a time.
//
// Query rows lie in lanes, so row max and row sum are pairs of vectors and
// nothing is combined across lanes. A step raises the max to its block max,
// turns scores into probs exp(s - max) in place, two keys at a time, and adds
// them to the sum. What was summed with a lower max is rescaled: the sum here,
// the outputs by the caller, who divides them by the sum after the last step.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(FLASHACL_CPU_TILE_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_SOFTMAX_INL_H_
#undef FLASHACL_CPU_TILE_SOFTMAX_INL_H_
#else
#define FLASHACL_CPU_TILE_SOFTMAX_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// t - n ln 2 for whole n of at most 127, and small results.
HWY_INLINE Vector WithoutLn2s(const Vector& t, const Vector& n) {
#if HWY_NATIVE_FMA
  return hn::NegMulAdd(n, hn::Set(kF, 0x1.62e430p-1f), t);
#else
  // Products round here, and that of the leading bits alone is exact; with
  // one constant exp(-70) would err by 4e-6.
  const Vector rest = hn::Sub(t, hn::Mul(n, hn::Set(kF, 0x1.62e4p-1f)));
  return hn::Sub(rest, hn::Mul(n, hn::Set(kF, 0x1.7f7d1cp-20f)));
#endif
}

// The greater of a bound and t; NaN of a NaN.
HWY_INLINE Vector AtLeast(const Vector& least, const Vector& t) {
#if HWY_ARCH_X86
  // Of two operands, x86 answers the second if one is NaN, so NaN passes.
  return hn::Max(least, t);
#else
  // The greatest of NaN and a number is the number elsewhere.
  return hn::IfThenElse(hn::Lt(t, least), least, t);
#endif
}

// exp(t) for t <= 0 of several vectors, in place: 2^n exp(r) with n = round(t /
// ln 2). Within 2.1e-7 - 2.8e-9 t of its value; 0 below -87.69, where it would
// be subnormal, and for -inf; NaN for NaN. Each step is done for all vectors
// before the next one: the chain of one is longer than the processor looks
// ahead.
template <int kCount>
HWY_INLINE void ExpAll(Vector (&t)[kCount]) {
  // At -88, n is -127, for which 2^n comes out as 0.
  const Vector least = hn::Set(kF, -88.0f);
  // Adding 1.5 * 2^23 rounds; 127 more leave 2^n's exponent in the low bits.
  const Vector magic = hn::Set(kF, 0x1.8p23f + 127.0f);
  Vector z[kCount], p[kCount];
  HWY_UNROLL_ALL
  for (int v = 0; v < kCount; ++v) t[v] = AtLeast(least, t[v]);
  HWY_UNROLL_ALL
  for (int v = 0; v < kCount; ++v) {
    z[v] = hn::MulAdd(t[v], hn::Set(kF, 0x1.715476p0f), magic);
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < kCount; ++v) {
    t[v] = WithoutLn2s(t[v], hn::Sub(z[v], magic));
  }
  // 1 + r (1 + r q(r)) with q of degree 3 for |r| <= ln 2 / 2: 1.1e-7.
  HWY_UNROLL_ALL
  for (int v = 0; v < kCount; ++v) {
    p[v] = hn::MulAdd(t[v], hn::Set(kF, 0.00831250287592411f),
                      hn::Set(kF, 0.04189033806324005f));
  }
  const float factors[] = {0.16667115688323975f, 0.499992311000824f, 1.0f,
                           1.0f};
  HWY_UNROLL_ALL
  for (const float factor : factors) {
    HWY_UNROLL_ALL
    for (int v = 0; v < kCount; ++v) {
      p[v] = hn::MulAdd(p[v], t[v], hn::Set(kF, factor));
    }
  }
  // A product, not a sum of exponents: a NaN stays one whatever its bits.
  HWY_UNROLL_ALL
  for (int v = 0; v < kCount; ++v) {
    t[v] = hn::Mul(p[v],
                   hn::BitCast(kF, hn::ShiftLeft<23>(hn::BitCast(kW, z[v]))));
  }
}

HWY_INLINE Vector Exp(const Vector& t) {
  Vector all[1] = {t};
  ExpAll(all);
  return all[0];
}

// The greatest of `count` scores, lane by lane; ignores NaN.
HWY_INLINE PanelPair BlockMax(const float* HWY_RESTRICT scores, int64_t count) {
  PanelPair block_max = PanelPair::Of(kMinusInfinity);
  for (int64_t j = 0; j < count; ++j) {
    const PanelPair s = PanelPair::Load(scores + j * Width());
    block_max.low = hn::Max(s.low, block_max.low);
    block_max.high = hn::Max(s.high, block_max.high);
  }
  return block_max;
}

// What products of integers are multiplied by before they are scores: a number
// of each lane, and of each key, [key], if not null.
struct IntegerScales {
  PanelPair of_lanes;
  const float* of_keys;
};

// Multiplies `count` scores by `factor`, after `scales`, if any; returns the
// greatest, lane by lane.
HWY_INLINE PanelPair ScaleScores(float* HWY_RESTRICT scores, int64_t count,
                                 float factor,
                                 const IntegerScales* scales = nullptr) {
  const Vector scale = hn::Set(kF, factor);
  PanelPair block_max = PanelPair::Of(kMinusInfinity);
  for (int64_t j = 0; j < count; ++j) {
    float* const at = scores + j * Width();
    PanelPair s = PanelPair::Load(at);
    if (scales != nullptr) {
      s.low = hn::Mul(s.low, scales->of_lanes.low);
      s.high = hn::Mul(s.high, scales->of_lanes.high);
    }
    if (scales != nullptr && scales->of_keys != nullptr) {
      const Vector of_key = hn::Set(kF, scales->of_keys[j]);
      s.low = hn::Mul(s.low, of_key);
      s.high = hn::Mul(s.high, of_key);
    }
    s.low = hn::Mul(s.low, scale);
    s.high = hn::Mul(s.high, scale);
    block_max.low = hn::Max(s.low, block_max.low);
    block_max.high = hn::Max(s.high, block_max.high);
    s.Store(at);
  }
  return block_max;
}

// Probs times one factor for each key, [key].
inline void ScaleProbsOfKeys(float* HWY_RESTRICT probs, int64_t count,
                             const float* factors) {
  for (int64_t j = 0; j < count; ++j) {
    PanelPair p = PanelPair::Load(probs + j * Width());
    p.low = hn::Mul(p.low, hn::Set(kF, factors[j]));
    p.high = hn::Mul(p.high, hn::Set(kF, factors[j]));
    p.Store(probs + j * Width());
  }
}

// Calls body(first, keys) for all keys of [0, count) in order, so many at a
// time as their exponentials fit the registers; keys is an integral_constant.
template <typename Body>
HWY_INLINE void ForKeys(int64_t count, Body body) {
  constexpr int64_t kKeys = 2;
  int64_t j = 0;
  for (; j + kKeys <= count; j += kKeys) {
    body(j, std::integral_constant<int, kKeys>());
  }
  for (; j < count; ++j) body(j, std::integral_constant<int, 1>());
}

// Turns the scores of a panel into probs exp(s - from) and returns their
// sums.
HWY_INLINE PanelPair ExpAndSum(float* HWY_RESTRICT scores, int64_t count,
                               const PanelPair& from) {
  // Sums of what is in memory cost one instruction, differences two.
  const PanelPair less{hn::Neg(from.low), hn::Neg(from.high)};
  PanelPair sum = PanelPair::Of(0.0f);
  ForKeys(count, [&](int64_t first, auto keys) HWY_ATTR {
    constexpr int kKeys = keys();
    float* const at = scores + first * Width();
    Vector p[2 * kKeys];
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      const PanelPair s = PanelPair::Load(at + j * Width());
      p[2 * j] = hn::Add(s.low, less.low);
      p[2 * j + 1] = hn::Add(s.high, less.high);
    }
    ExpAll(p);
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      sum.low = hn::Add(sum.low, p[2 * j]);
      sum.high = hn::Add(sum.high, p[2 * j + 1]);
      PanelPair{p[2 * j], p[2 * j + 1]}.Store(at + j * Width());
    }
  });
  return sum;
}

// Probs become the integers that 8 bits hold, to nearest, ties to even.
inline void RoundProbs(float* HWY_RESTRICT probs, int64_t count, float scale) {
  const Vector factor = hn::Set(kF, scale);
  const Vector least = hn::Set(kF, -128.0f);
  const Vector most = hn::Set(kF, 127.0f);
  for (int64_t n = 0; n < count * Width(); n += Lanes()) {
    const Vector rounded = hn::Round(hn::Mul(hn::Load(kF, probs + n), factor));
    hn::Store(hn::Min(hn::Max(least, rounded), most), kF, probs + n);
  }
}

// Probs rounded to bf16, halves up, as the upper half of words. A NaN may be
// carried over to a number: then the row's sum is NaN, and all of the row.
HWY_INLINE auto Bf16Probs(const Vector& probs) {
  const hn::RebindToUnsigned<Floats> u;
  return hn::Add(hn::BitCast(u, probs), hn::Set(u, 0x8000u));
}

// The same that stay floats.
HWY_INLINE Vector RoundToBf16(const Vector& probs) {
  const hn::RebindToUnsigned<Floats> u;
  return hn::BitCast(kF, hn::And(Bf16Probs(probs), hn::Set(u, 0xFFFF0000u)));
}

// Probs of two keys as pairs of bf16, the first in the upper halves.
HWY_INLINE Vector ProbPairs(const Vector& first, const Vector& second) {
  const hn::RebindToUnsigned<Floats> u;
  const auto upper = hn::And(Bf16Probs(first), hn::Set(u, 0xFFFF0000u));
  return hn::BitCast(kF, hn::Or(upper, hn::ShiftRight<16>(Bf16Probs(second))));
}

// Probs of `count` keys become pairs of bf16, [pair, lane], where they are. The
// first of them is the second of its pair if it is `odd`; who lacks a neighbour
// has 0 beside it. Returns the number of pairs.
inline int64_t PackProbs(float* HWY_RESTRICT probs, int64_t count, bool odd) {
  const Vector none = hn::Zero(kF);
  const int64_t pairs = (count + (odd ? 1 : 0) + 1) / 2;
  for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
    const auto at = [&](int64_t j) HWY_ATTR -> Vector {
      return hn::Load(kF, probs + j * Width() + half);
    };
    int64_t j = odd ? -1 : 0;
    for (int64_t n = 0; n < pairs; ++n, j += 2) {
      const Vector first = j < 0 ? none : at(j);
      const Vector second = j + 1 < count ? at(j + 1) : none;
      hn::Store(ProbPairs(first, second), kF, probs + n * Width() + half);
    }
  }
  return pairs;
}

// The same rounding of probs that stay floats.
inline void RoundProbsToBf16(float* HWY_RESTRICT probs, int64_t count) {
  for (int64_t n = 0; n < count * Width(); n += Lanes()) {
    hn::Store(RoundToBf16(hn::Load(kF, probs + n)), kF, probs + n);
  }
}

// Probs times one factor for each row, [lane].
inline void ScaleProbs(float* HWY_RESTRICT probs, int64_t count,
                       const float* HWY_RESTRICT factors) {
  const PanelPair factor = PanelPair::Load(factors);
  for (int64_t j = 0; j < count; ++j) {
    PanelPair p = PanelPair::Load(probs + j * Width());
    p.low = hn::Mul(p.low, factor.low);
    p.high = hn::Mul(p.high, factor.high);
    p.Store(probs + j * Width());
  }
}

// Softmax over the keys seen so far: max is the greatest score, sum is
// sum exp(s_j - max); Width() floats each.
struct PanelState {
  float* max;
  float* sum;

  // Raises max to `block_max` and rescales the sum; returns the factor by which
  // all else that was summed before must be rescaled.
  HWY_INLINE PanelPair Raise(const PanelPair& block_max) const {
    const PanelPair was = PanelPair::Load(max);
    const PanelPair now{hn::Max(block_max.low, was.low),
                        hn::Max(block_max.high, was.high)};
    const PanelPair rescale{Exp(hn::Sub(was.low, Finite(now.low))),
                            Exp(hn::Sub(was.high, Finite(now.high)))};
    PanelPair total = PanelPair::Load(sum);
    total.low = hn::Mul(total.low, rescale.low);
    total.high = hn::Mul(total.high, rescale.high);
    now.Store(max);
    total.Store(sum);
    return rescale;
  }

  // Adds the scores of `count` keys, of which `block_max` is the greatest, and
  // turns them into probs. Returns what Raise does.
  HWY_INLINE PanelPair OnlineSoftmax(float* HWY_RESTRICT scores, int64_t count,
                                     const PanelPair& block_max) const {
    const PanelPair rescale = Raise(block_max);
    AddToSum(ExpAndSum(scores, count, FiniteMax()));
    return rescale;
  }

  HWY_INLINE void AddToSum(const PanelPair& added) const {
    PanelPair total = PanelPair::Load(sum);
    total.low = hn::Add(total.low, added.low);
    total.high = hn::Add(total.high, added.high);
    total.Store(sum);
  }

  // The max, or 0 where that is -inf.
  HWY_INLINE PanelPair FiniteMax() const {
    const PanelPair now = PanelPair::Load(max);
    return {Finite(now.low), Finite(now.high)};
  }

 private:
  // Rows that have seen nothing yet have a maximum of -inf; exp(-inf - 0) is
  // the 0 they need, where exp(-inf - -inf) would be NaN.
  static HWY_INLINE Vector Finite(const Vector& row_max) {
    return hn::IfThenZeroElse(hn::Eq(row_max, hn::Set(kF, kMinusInfinity)),
                              row_max);
  }
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_SOFTMAX_INL_H_
