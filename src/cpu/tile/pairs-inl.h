// SPDX-License-Identifier: Apache-2.0
// Rows of bf16 as they are: pairs of channels, a word each, which one product
// takes at a time. Queries and keys, and gradients of outputs and values; of
// values and rounded probs, pairs of keys (keys-inl.h, and
// decode/key_pairs-inl.h). Listed rows that meet probs, and what is saved for
// their gradients, are pairs that become floats in registers
// (topk/add_listed-inl.h, topk/topk_grad-inl.h).
//
// The first channel of a pair is the upper half of its word, as x86 sums that
// half first: each sum is one chain in the order of channels, and has the bits
// of one of floats. ARM has other bits whatever the order. (Decode's scores
// leave words as they are, note 0041.) A word goes where a float would, so
// everything that only moves them - panels, rows, blocks of products - is that
// of floats.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/number.h"
#include "cpu/element_format.h"
#include "cpu/pair_dots.h"
#include "cpu/sizes.h"

#if defined(FLASHACL_CPU_TILE_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_PAIRS_INL_H_
#undef FLASHACL_CPU_TILE_PAIRS_INL_H_
#else
#define FLASHACL_CPU_TILE_PAIRS_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"
#if HWY_ARCH_ARM_A64
#include "cpu/tile/two_by_two-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The least pattern that rounds to infinity in bf16, or is no number.
inline constexpr int32_t kBeyondBf16 = 0x7F7F8000;

// Products of smaller ones may be subnormal, and lost.
inline constexpr float kSmallFactor = 0x1p-20f;  // queries and keys
inline constexpr float kSmallGrad = 0x1p-80f;    // dS, gradients of outputs

// Newer Highways have several targets of NEON.
#undef FLASHACL_HAS_PAIR_DOTS
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64 || \
    HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#define FLASHACL_HAS_PAIR_DOTS 1
#else
#define FLASHACL_HAS_PAIR_DOTS 0
#endif

HWY_INLINE Vector UpperOfPairs(const Vector& words) {
  const auto bits = hn::BitCast(kW, words);
  return hn::BitCast(kF, hn::And(bits, hn::Set(kW, ~0xFFFF)));
}
HWY_INLINE Vector LowerOfPairs(const Vector& words) {
  return hn::BitCast(kF, hn::ShiftLeft<16>(hn::BitCast(kW, words)));
}

HWY_INLINE Vector WordAnd(const Vector& words, int32_t mask) {
  return hn::BitCast(kF, hn::And(hn::BitCast(kW, words), hn::Set(kW, mask)));
}

// Words of the lower halves of two vectors of words, and of the upper halves;
// the first vector's become lower halves.
HWY_INLINE Vector LowerHalves(const Vector& first, const Vector& second) {
  const hn::RebindToUnsigned<Floats> u;
  const auto upper = hn::ShiftLeft<16>(hn::BitCast(u, second));
  return hn::BitCast(kF, hn::Or(hn::BitCast(u, WordAnd(first, 0xFFFF)), upper));
}
HWY_INLINE Vector UpperHalves(const Vector& first, const Vector& second) {
  const hn::RebindToUnsigned<Floats> u;
  const auto lower = hn::ShiftRight<16>(hn::BitCast(u, first));
  return hn::BitCast(kF,
                     hn::Or(lower, hn::BitCast(u, WordAnd(second, ~0xFFFF))));
}

// Rounds after each of the two additions, like the instruction.
struct OfPairs {
  static constexpr int64_t kChain = 0;

  static HWY_INLINE Vector Every(float word) { return hn::Set(kF, word); }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    return hn::MulAdd(LowerOfPairs(x), LowerOfPairs(y),
                      hn::MulAdd(UpperOfPairs(x), UpperOfPairs(y), sum));
  }
};

// By the instruction, which makes 0 of subnormals; on x86 the same otherwise.
// Highway 1.0.3 knows it of no target.
#if FLASHACL_HAS_PAIR_DOTS && HWY_ARCH_ARM_A64
// BFDOT adds the two products first, whatever their order, then the sum. It
// rounds both times to the number whose last bit is 1, which errs by up to
// twice as much as rounding to nearest: so chains of scores are short.
struct OfPairsAtOnce {
  static constexpr int64_t kChain = 8;

#if FLASHACL_SVE_BITS
  static HWY_INLINE Vector Every(float word) { return hn::Set(kF, word); }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y, Vector sum) {
    // bfdot %0.s, %1.h, %2.h
    asm(FLASHACL_ASM_VECTORS("0x64608000") : "+w"(sum) : "w"(x), "w"(y));
    return sum;
  }
#else
  static HWY_INLINE float Every(float word) { return word; }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    auto raw = sum.raw;
    // bfdot %0.4s, %1.8h, %2.8h
    asm(FLASHACL_ASM_VECTORS("0x6E40FC00")
        : "+w"(raw)
        : "w"(x.raw), "w"(y.raw));
    return Vector{raw};
  }
  static HWY_INLINE Vector Add(float x, const Vector& y, const Vector& sum) {
    auto raw = sum.raw;
    // bfdot %0.4s, %1.8h, %2.2h[0]
    asm(FLASHACL_ASM_VECTORS("0x4F40F000") : "+w"(raw) : "w"(y.raw), "w"(x));
    return Vector{raw};
  }
#endif

  // By BFMMLA, with the same bits.
  template <int kRows>
  static HWY_INLINE void AddRows(const float* HWY_RESTRICT rows,
                                 ptrdiff_t stride,
                                 const float* HWY_RESTRICT panel, int64_t depth,
                                 Sums<kRows>& sums) {
    AddRowsTwoByTwo<OfPairsAtOnce>(rows, stride, panel, depth, sums);
  }
  template <int kRows>
  static HWY_INLINE void AddColumns(const float* HWY_RESTRICT columns,
                                    const float* HWY_RESTRICT panel,
                                    int64_t depth, Sums<kRows>& sums) {
    AddColumnsTwoByTwo<OfPairsAtOnce>(columns, panel, depth, sums);
  }
};
#elif FLASHACL_HAS_PAIR_DOTS
struct OfPairsAtOnce {
  static constexpr int64_t kChain = 0;

  static HWY_INLINE Vector Every(float word) { return hn::Set(kF, word); }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    auto raw = sum.raw;
    asm("vdpbf16ps %2, %1, %0" : "+v"(raw) : "v"(x.raw), "v"(y.raw));
    return Vector{raw};
  }
};
#else
// What the instruction does, for tests of those who look for subnormals.
struct OfPairsAtOnce {
  static constexpr int64_t kChain = 0;

  static HWY_INLINE Vector Every(float word) { return hn::Set(kF, word); }
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    const Vector upper =
        hn::MulAdd(Flush(UpperOfPairs(x)), Flush(UpperOfPairs(y)), Flush(sum));
    return Flush(hn::MulAdd(Flush(LowerOfPairs(x)), Flush(LowerOfPairs(y)),
                            Flush(upper)));
  }

 private:
  static HWY_INLINE Vector Flush(const Vector& x) {
    return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(kF, 0x1p-126f)), x);
  }
};
#endif

#if FLASHACL_HAS_PAIR_DOTS && HWY_ARCH_ARM_A64
// DotsOfFour in the order of the instruction, and with its roundings, for rows
// whose numbers all are bf16's: such are outputs that are one value. Others are
// floats.
inline void DotsOfFourByPairs(const FourRows& a, const FourRows& b,
                              int64_t count, float* HWY_RESTRICT dots) {
  using Product = OfPairsAtOnce;
  constexpr int64_t kChannels = 2 * Product::kChain;
  DotsOfFour(a, b, count, dots);
  QuadVector sum = hn::Zero(kQ), lost = hn::Zero(kQ);
  for (int64_t first = 0; first < count; first += kChannels) {
    QuadVector chain = hn::Zero(kQ);
    for (int64_t k = first; k < std::min(first + kChannels, count); k += 4) {
      Quads x = a.Load(k), y = b.Load(k);
      x.Transpose();
      y.Transpose();
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) {
        lost = hn::Or(lost, WordAnd(hn::Or(x.at[n], y.at[n]), 0xFFFF));
      }
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; n += 2) {
        chain = Product::Add(UpperHalves(x.at[n], x.at[n + 1]),
                             UpperHalves(y.at[n], y.at[n + 1]), chain);
      }
    }
    sum = hn::Add(sum, chain);
  }
  const hn::RebindToSigned<Quad> w;
  const auto exact = hn::Eq(hn::BitCast(w, lost), hn::Zero(w));
  const auto floats = hn::LoadU(kQ, dots);
  hn::StoreU(hn::IfThenElse(hn::RebindMask(kQ, exact), sum, floats), kQ, dots);
}
#endif

// What sums rows as products with keys do, so what should cancel does.
inline auto DotsOfFourAs(PairDots dots) {
  if (dots == PairDots::kMatrices) return DotsOfFourByMatrices;
#if FLASHACL_HAS_PAIR_DOTS && HWY_ARCH_ARM_A64
  if (dots == PairDots::kInstruction) return DotsOfFourByPairs;
#endif
  return DotsOfFour;
}

// Calls body(product) for the product of what is loaded. The instruction is not
// for what may be subnormal: infinity times that is infinity, and would be NaN.
template <bool kPairs, typename Subnormal, typename Body>
HWY_INLINE auto WithProduct(PairDots dots, Subnormal subnormal, Body body) {
  if constexpr (kPairs) {
    if (dots == PairDots::kInstruction && !subnormal()) {
      return body(OfPairsAtOnce());
    }
    if (dots != PairDots::kNone) return body(OfPairs());
  }
  (void)dots;
  (void)subnormal;
  return body(OfFloats());
}

// The least of numbers of bf16 but 0, without their signs, whose patterns are
// in order.
template <class D>
class LeastOfPairs {
 public:
  HWY_INLINE LeastOfPairs() : least_(hn::Set(kHalves, 0xFFFF)) {}

  HWY_INLINE void Add(const VectorOf<D>& words) {
    const auto bits = hn::BitCast(kHalves, words);
    const auto twice = hn::Add(bits, bits);  // without the sign; 0 comes last
    least_ = hn::Min(least_, hn::Sub(twice, hn::Set(kHalves, 1)));
  }

  HWY_INLINE bool AnySubnormal() const { return AnyBelow(-126); }

  HWY_INLINE bool AnyBelow(int exponent) const {
    const auto bound = static_cast<uint16_t>(((exponent + 127) << 8) - 1);
    return !hn::AllFalse(kHalves, hn::Lt(least_, hn::Set(kHalves, bound)));
  }

 private:
  using Halves = hn::Repartition<uint16_t, D>;
  static constexpr Halves kHalves{};
  VectorOf<Halves> least_;
};

// Pairs of a dense row from pair `n` on.
template <class D>
HWY_INLINE VectorOf<D> PairsAt(D d, const std::byte* row, int64_t n) {
  const hn::RebindToUnsigned<D> u;
  const auto words =
      hn::BitCast(u, hn::LoadU(d, reinterpret_cast<const float*>(row) + n));
  return hn::BitCast(
      d, hn::Or(hn::ShiftLeft<16>(words), hn::ShiftRight<16>(words)));
}

// to[0 .. pairs) = those of a dense row.
HWY_INLINE void LoadPairs(const std::byte* from, int64_t pairs,
                          float* HWY_RESTRICT to,
                          LeastOfPairs<Floats>& subnormals) {
  int64_t n = 0;
  for (; n + Lanes() <= pairs; n += Lanes()) {
    const Vector words = PairsAt(kF, from, n);
    subnormals.Add(words);
    hn::StoreU(words, kF, to + n);
  }
  for (; n < pairs; ++n) {
    // Not a vector of one, whose load wants a float's alignment.
    const uint32_t word = flashacl::Load<uint32_t>(from + n * 4);
    to[n] = std::bit_cast<float>(std::rotl(word, 16));
    subnormals.Add(hn::Set(kF, to[n]));
  }
}

// The same of channels that may be in blocks.
HWY_INLINE void LoadPairs(const ElementFormat& format, const std::byte* from,
                          int64_t channels, float* HWY_RESTRICT to,
                          LeastOfPairs<Floats>& subnormals) {
  const int64_t block =
      format.channel_block == 0 ? channels : format.channel_block;
  for (int64_t d = 0; d < channels; d += block) {
    LoadPairs(from, std::min(block, channels - d) / 2, to + d / 2, subnormals);
    from += format.block_bytes;
  }
}

// Words after the last pair of a row or panel, up to what matrices take.
inline void ClearAfterPairs(int64_t channels, int64_t width, float* words) {
  const int64_t pairs = channels / 2;
  std::fill(words + pairs * width,
            words + RoundUp(pairs, kMatrixNumbers / 2) * width, 0.0f);
}

// The first `pairs` of a panel's rows, a multiple of 4.
HWY_INLINE void PanelOfPairs(const std::byte* const* rows, int64_t pairs,
                             float* HWY_RESTRICT panel,
                             LeastOfPairs<Quad>& subnormals) {
  PanelFromRows(pairs, panel, [&](int64_t r, int64_t n) HWY_ATTR {
    const QuadVector words = PairsAt(kQ, rows[r], n);
    subnormals.Add(words);
    return words;
  });
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PAIRS_INL_H_
