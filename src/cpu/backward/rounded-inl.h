// SPDX-License-Identifier: Apache-2.0
// The products dq += dS k, dk += dS^T q and dv += P^T do with P and dS rounded
// to bf16, two terms at a time (tile/pairs-inl.h).
//
// A sum over keys takes words of two neighbouring keys, a sum over rows words
// of two rows of a panel, whose lanes are as far apart as the panel's vectors:
// both are made of P and dS, [key, lane], without a shuffle. What they multiply
// are rows of channels as in dq_dk-inl.h, a word for the channel of two keys or
// two rows. So the loops are those of floats, with half the turns. The first of
// two is the upper half of its word, and is summed first.
//
// The instruction makes 0 of what is below 2^-126, so it is not for panels of
// which some number is: then what is lost of a sum is less than 2^-126 for each
// term. Nor is it where that matters: the greatest dS of every row of a panel
// must be 0 or at least 2^-80, as that of gradients of outputs, and those of
// queries and keys 2^-20, so less is lost of a term than 2^-26 of the greatest
// that there could be. All other panels meet multiply-adds. Decisions
// are of a panel or a block of rows and a step of keys, which do not depend on
// tiles or workers.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/range.h"

#if defined(FLASHACL_CPU_BACKWARD_ROUNDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_ROUNDED_INL_H_
#undef FLASHACL_CPU_BACKWARD_ROUNDED_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_ROUNDED_INL_H_
#endif

#include "cpu/backward/dq_dk-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using Bits = hn::RebindToUnsigned<Floats>;
using BitVector = VectorOf<Bits>;

// Whether all numbers are below `bound`, and not all 0.
HWY_INLINE bool AreSmall(const Patterns& greatest, float bound) {
  const auto least = hn::Set(kW, std::bit_cast<int32_t>(bound));
  return hn::AllTrue(kW, hn::Lt(greatest, least)) &&
         !hn::AllTrue(kW, hn::Eq(greatest, hn::Zero(kW)));
}

// Rounded to bf16, halves away from 0, as the upper half of words.
HWY_INLINE BitVector RoundedBits(const Vector& x) {
  return hn::Add(hn::BitCast(Bits(), x), hn::Set(Bits(), 0x8000u));
}

// The same of any numbers: none becomes infinite, and a NaN remains one.
HWY_INLINE BitVector RoundedBitsOfAny(const Vector& x) {
  const auto bits = hn::BitCast(kW, x);
  const auto size = hn::BitCast(kW, hn::Abs(x));
  const auto nan = hn::Gt(size, hn::Set(kW, 0x7F800000));
  const auto kept =
      hn::IfThenElse(nan, hn::Or(bits, hn::Set(kW, 0x00400000)), bits);
  const auto beyond = hn::Gt(size, hn::Set(kW, kBeyondBf16 - 1));
  return hn::BitCast(
      Bits(), hn::IfThenElse(beyond, kept, hn::BitCast(kW, RoundedBits(x))));
}

// As a float.
HWY_INLINE float RoundedToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto size = static_cast<int32_t>(bits & 0x7FFFFFFFu);
  const uint32_t rounded = size > 0x7F800000    ? bits | 0x00400000u
                           : size < kBeyondBf16 ? bits + 0x8000u
                                                : bits;
  return std::bit_cast<float>(rounded & 0xFFFF0000u);
}

// The upper halves of both, as one word.
HWY_INLINE Vector WordsOf(const BitVector& first, const BitVector& second) {
  const auto upper = hn::And(first, hn::Set(Bits(), 0xFFFF0000u));
  return hn::BitCast(kF, hn::Or(upper, hn::ShiftRight<16>(second)));
}

// to[0 .. count) = words of two rows of bf16, as floats; `count` is a multiple
// of a vector. `to` may be the first.
HWY_INLINE void PairTwoRows(const float* first, const float* second,
                            int64_t count, float* to) {
  for (int64_t c = 0; c < count; c += Lanes()) {
    const auto upper = hn::BitCast(Bits(), hn::Load(kF, first + c));
    const auto lower = hn::BitCast(Bits(), hn::Load(kF, second + c));
    hn::Store(WordsOf(upper, lower), kF, to + c);
  }
}

// Rows of a panel become pairs of rows, in its first half.
inline void PairRows(float* rows, int64_t stride, int64_t channels) {
  const int64_t count = RoundUp(channels, Width());
  for (int64_t r = 0; r < Lanes(); ++r) {
    float* const first = rows + r * stride;
    PairTwoRows(first, first + Lanes() * stride, count, first);
  }
}

// P and dS of one panel, [key, lane], and where they go.
struct RoundedPanel {
  const float* probs;
  const float* grad_scores;
  float* prob_row_pairs;  // [key, pair of rows]
  float* grad_row_pairs;
  float* grad_key_pairs;  // [pair of keys, lane]
};

// What P and dS of a panel turned out to be.
struct RoundedFacts {
  bool beyond = false;  // some number is infinite, a NaN, or rounds to infinity
  bool small = false;   // all of some row's dS are, or some number subnormal
};

// Lanes from `count` on, which have no row, become 0.
inline void ClearLanes(float* HWY_RESTRICT values, int64_t keys,
                       int64_t count) {
  const auto low = hn::FirstN(kF, static_cast<size_t>(count));
  const auto high = hn::FirstN(
      kF, static_cast<size_t>(std::max<int64_t>(count - Lanes(), 0)));
  for (int64_t j = 0; j < keys; ++j) {
    PanelPair p = PanelPair::Load(values + j * Width());
    p.low = hn::IfThenElseZero(low, p.low);
    p.high = hn::IfThenElseZero(high, p.high);
    p.Store(values + j * Width());
  }
}

// Rounds `count` keys, the first of which is the second of its pair if it is
// `odd`; who lacks a neighbour has 0 beside it. kAny: of any numbers.
template <bool kAny>
inline RoundedFacts RoundPanel(const RoundedPanel& panel, int64_t count,
                               bool odd) {
  const auto round = [](const Vector& x) HWY_ATTR {
    return kAny ? RoundedBitsOfAny(x) : RoundedBits(x);
  };
  const auto pattern = [](const Vector& x)
                           HWY_ATTR { return hn::BitCast(kW, hn::Abs(x)); };
  Patterns probs = hn::Zero(kW), low = hn::Zero(kW), high = hn::Zero(kW);
  LeastOfPairs<Floats> least;
  struct Rounded {
    BitVector low, high;
  };
  const auto key = [&](int64_t j) HWY_ATTR {
    if (j < 0 || j >= count) {
      return Rounded{hn::Zero(Bits()), hn::Zero(Bits())};
    }
    const PanelPair p = PanelPair::Load(panel.probs + j * Width());
    const PanelPair ds = PanelPair::Load(panel.grad_scores + j * Width());
    probs = hn::Max(probs, hn::Max(pattern(p.low), pattern(p.high)));
    low = hn::Max(low, pattern(ds.low));
    high = hn::Max(high, pattern(ds.high));
    const Vector prob_words = WordsOf(round(p.low), round(p.high));
    hn::Store(prob_words, kF, panel.prob_row_pairs + j * Lanes());
    const Rounded rounded{round(ds.low), round(ds.high)};
    const Vector grad_words = WordsOf(rounded.low, rounded.high);
    hn::Store(grad_words, kF, panel.grad_row_pairs + j * Lanes());
    least.Add(prob_words);
    least.Add(grad_words);
    return rounded;
  };
  int64_t j = odd ? -1 : 0;
  for (float* to = panel.grad_key_pairs; j < count; j += 2, to += Width()) {
    const Rounded first = key(j);
    const Rounded second = key(j + 1);
    PanelPair{WordsOf(first.low, second.low), WordsOf(first.high, second.high)}
        .Store(to);
  }
  const auto any = [](const auto& mask)
                       HWY_ATTR { return !hn::AllFalse(kW, mask); };
  const auto small = [](const Patterns& x) HWY_ATTR {
    const auto bound = hn::Set(kW, std::bit_cast<int32_t>(kSmallGrad));
    return hn::And(hn::Lt(hn::Zero(kW), x), hn::Lt(x, bound));
  };
  const auto most = hn::Max(probs, hn::Max(low, high));
  return {any(hn::Gt(most, hn::Set(kW, kBeyondBf16 - 1))),
          any(hn::Or(small(low), small(high))) || least.AnySubnormal()};
}

// Calls body(product) for pairs, by the instruction unless that might lose what
// matters.
template <typename Body>
HWY_INLINE void WithPairs(PairDots dots, bool multiply_adds, Body body) {
  if (dots == PairDots::kInstruction && !multiply_adds) {
    body(OfPairsAtOnce());
  } else {
    body(OfPairs());
  }
}

// Gradients of kRows query rows: += sum over pairs of keys of ds times the key.
template <int kRows, class Product, int kHalves = 2>
HWY_NOINLINE void GradQueryPairs(const float* HWY_RESTRICT grad_key_pairs,
                                 const ChannelRows& keys, int64_t pairs,
                                 float* out) {
  Sums<kRows, kHalves> sums;
  sums.Load(out, keys.stride);
  AddScaledRows<Width(), 1, Product>(grad_key_pairs, keys, pairs, sums);
  sums.Store(out, keys.stride);
}

// Gradients of kRows keys from `key` on: += sum over pairs of rows of p or ds
// times the row. P or dS are [panel, key, pair of rows].
template <int kRows, class Product, int kHalves = 2>
HWY_NOINLINE void GradKeyPairs(const BlockOfRows& block, int64_t key,
                               const ChannelRows& rows, float* out) {
  Sums<kRows, kHalves> sums;
  sums.Load(out, rows.stride);
  ForPanels<kRows>(
      block, key, Lanes(), rows,
      [&](const float* pairs, const ChannelRows& panel, int64_t) HWY_ATTR {
        AddScaledRows<1, Lanes(), Product>(pairs, panel, Lanes(), sums);
      });
  sums.Store(out, rows.stride);
}

// sums[r] += x, rounded, times half of a row of words; of what nobody sees,
// which is -0, nothing.
template <int kRows>
HWY_INLINE void AddSeenHalf(float x, const float* words, bool upper, int r,
                            Sums<kRows>& sums) {
  if (x == 0.0f && std::signbit(x)) return;
  const Vector low = hn::Load(kF, words);
  const Vector high = hn::Load(kF, words + Lanes());
  const float rounded = RoundedToBf16(x);
  if (upper) {
    sums.Add(r, rounded, UpperOfPairs(low), UpperOfPairs(high));
  } else {
    sums.Add(r, rounded, LowerOfPairs(low), LowerOfPairs(high));
  }
}

// The same sums as GradQueryPairs where keys may hold infinities: dS are
// floats, [key of the step, lane], of the keys `local`.
template <int kRows>
HWY_NOINLINE void GradQuerySeenPairs(const float* HWY_RESTRICT grad_scores,
                                     const ChannelRows& keys, Range local,
                                     float* out) {
  Sums<kRows> sums;
  sums.Load(out, keys.stride);
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = local.first; j < local.last; ++j) {
      AddSeenHalf(grad_scores[j * Width() + r], keys.at + j / 2 * keys.stride,
                  j % 2 == 0, r, sums);
    }
  }
  sums.Store(out, keys.stride);
}

// Those of GradKeyPairs, in their order: P or dS are floats, [panel, key,
// lane].
template <int kRows>
HWY_NOINLINE void GradKeySeenPairs(const BlockOfRows& block, int64_t key,
                                   const ChannelRows& rows, float* out) {
  Sums<kRows> sums;
  sums.Load(out, rows.stride);
  for (int r = 0; r < kRows; ++r) {
    ForPanels<1>(block, key + r, Width(), rows,
                 [&](const float* probs, const ChannelRows& panel,
                     int64_t count) HWY_ATTR {
                   for (int64_t n = 0; n < Lanes(); ++n) {
                     for (const ptrdiff_t half : {ptrdiff_t{0}, Lanes()}) {
                       if (n + half >= count) continue;
                       AddSeenHalf(probs[n + half], panel.at + n * rows.stride,
                                   half == 0, r, sums);
                     }
                   }
                 });
  }
  sums.Store(out, rows.stride);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_ROUNDED_INL_H_
