// SPDX-License-Identifier: Apache-2.0
// What the products for few rows read: vectors of channels of any type as
// floats, or 16-bit ones as they lie, from whole rows or from pieces.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_ELEMENTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_ELEMENTS_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_ELEMENTS_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_ELEMENTS_INL_H_
#endif

#include "cpu/decode/four_bits-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// What holds of elements that do not say otherwise.
struct AnyElements {
  static constexpr bool kParts = false;   // PartedPairs
  static constexpr bool kInTwos = false;  // two micro-tiles share a load
};

// Elements of one type, converted vector by vector, and what they add to a
// score.
struct Converted : AnyElements {
  static constexpr bool kIntegers = false;       // sums are words
  static constexpr int64_t kChannels = Lanes();  // of a vector
  static constexpr int kProducts = 1;            // of it with one of a query
  static constexpr int kKeys = 1;                // whose values meet at a time
  static HWY_INLINE Vector AddDot(const Vector& key, const Vector& query,
                                  const Vector& sum) {
    return hn::MulAdd(key, query, sum);
  }
};

template <DType kType>
struct ElementsOf : Converted {
  static constexpr int64_t kVectorBytes = Lanes() * (kType == DType::kF32  ? 4
                                                     : kType == DType::kI8 ? 1
                                                                           : 2);
  static constexpr bool kHasPieces = HasPieces(kType);
  static constexpr LoopBody kBody =
      kType == DType::kI8 ? LoopBody::kLong : LoopBody::kShort;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsAt<kType>(kF, at, 0);
  }
};

template <>
struct ElementsOf<DType::kI4x8> : Converted {
  static constexpr int64_t kVectorBytes = Lanes() / 2;
  static constexpr bool kHasPieces = false;
  static constexpr LoopBody kBody = LoopBody::kLong;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FourBitLanes(at);
  }
};

// Channels of 16 bits as they lie in memory, a word for two; of queries, too.
// Of bf16 the upper half, the second channel, is summed first.
template <class Product, int kOf = 1>
struct PairsOf : AnyElements {
  static constexpr bool kIntegers = false;
  static constexpr int64_t kChannels = 2 * Lanes();
  static constexpr int kProducts = kOf;
  static constexpr int64_t kVectorBytes = 4 * Lanes();
  static constexpr bool kHasPieces = true;
  static constexpr LoopBody kBody = LoopBody::kShortest;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsAt<DType::kF32>(kF, at, 0);
  }
  static HWY_INLINE Vector AddDot(const Vector& key, const Vector& query,
                                  const Vector& sum) {
    return Product::Add(key, query, sum);
  }
};

// Words of two numbers of bf16, a line of them two vectors of floats: of the
// upper numbers, the odd channels, by a mask, then of the lower ones by a shift
// (ChannelOrder::kParts). To widen 16 numbers and shift them takes twice as
// many instructions. Channels are whole lines.
struct PartedPairs : Converted {
  static constexpr bool kParts = true;
  static constexpr bool kInTwos = true;
  static constexpr int64_t kVectorBytes = 2 * Lanes();
  static constexpr bool kHasPieces = false;
  static constexpr LoopBody kBody = LoopBody::kShort;
  static HWY_INLINE Vector Load(const std::byte* at, int part) {
    const std::byte* const line = at - part % 2 * kVectorBytes;
    const Vector words = FloatsAt<DType::kF32>(kF, line, 0);
    if (part % 2 == 0) return UpperOfPairs(words);
    return LowerOfPairs(words);
  }
};

// The same elements for heads of several micro-tiles.
template <DType kType>
struct InTwos : ElementsOf<kType> {
  static constexpr bool kInTwos = true;
};

// Vector number `part` of a line.
template <class Elements>
HWY_INLINE Vector LoadPart(const std::byte* at, int part) {
  if constexpr (Elements::kParts) {
    return Elements::Load(at, part);
  } else {
    return Elements::Load(at);
  }
}

#if FLASHACL_HAS_HALF_DOTS
// Of fp16: the lower half of a vector, then the upper one, in the order of two
// vectors of floats.
struct OfHalvesAtOnce {
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    auto raw = sum.raw;
    // fmlal %0.4s, %1.4h, %2.4h
    asm(FLASHACL_ASM_VECTORS("0x4E20EC00")
        : "+w"(raw)
        : "w"(x.raw), "w"(y.raw));
    // fmlal2 %0.4s, %1.4h, %2.4h
    asm(FLASHACL_ASM_VECTORS("0x6E20CC00")
        : "+w"(raw)
        : "w"(x.raw), "w"(y.raw));
    return Vector{raw};
  }
};
#endif

// The same vector. Where there are 32 registers of 512 bits, GCC would load it
// again for every product, and loads would take longer than these.
HWY_INLINE Vector InRegister(Vector v) {
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// Of whole vectors of channels.
template <class Elements>
constexpr int64_t BytesOf(int64_t channels) {
  return channels / Elements::kChannels * Elements::kVectorBytes;
}

// Of each of four vectors four sums of four lanes, one in every block.
HWY_INLINE Vector SumsInBlocks(const Vector& a, const Vector& b,
                               const Vector& c, const Vector& d) {
  const hn::Repartition<double, Floats> pairs;
  const Vector ab =
      hn::Add(hn::InterleaveLower(kF, a, b), hn::InterleaveUpper(kF, a, b));
  const Vector cd =
      hn::Add(hn::InterleaveLower(kF, c, d), hn::InterleaveUpper(kF, c, d));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab),
                                       hn::BitCast(pairs, cd));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab),
                                        hn::BitCast(pairs, cd));
  return hn::Add(hn::BitCast(kF, low), hn::BitCast(kF, high));
}

// The sum of all lanes of each of four vectors. What one becomes does not
// depend on the others.
HWY_INLINE QuadVector SumsOfLanes(const Vector& a, const Vector& b,
                                  const Vector& c, const Vector& d) {
  return SumOfBlocks(SumsInBlocks(a, b, c, d));
}

#if FLASHACL_HAS_SHARED_CONVERSIONS
// SumOfBlocks() of three vectors, in a block each, and the third's once more,
// in fewer instructions.
HWY_INLINE Vector SumsOfBlocks(const Vector& a, const Vector& b,
                               const Vector& c) {
  const auto sum = [](const Vector& x, const Vector& y, auto lower,
                      auto upper) HWY_ATTR {
    return hn::Add(Vector{_mm512_shuffle_f32x4(x.raw, y.raw, lower())},
                   Vector{_mm512_shuffle_f32x4(x.raw, y.raw, upper())});
  };
  using std::integral_constant;
  // Blocks 0, 1 of both and 2, 3 of both; then 0, 2 of both and 1, 3 of both.
  constexpr integral_constant<int, 0x44> kFirstTwo;
  constexpr integral_constant<int, 0xEE> kLastTwo;
  constexpr integral_constant<int, 0x88> kEven;
  constexpr integral_constant<int, 0xDD> kOdd;
  return sum(sum(a, b, kFirstTwo, kLastTwo), sum(c, c, kFirstTwo, kLastTwo),
             kEven, kOdd);
}
#endif

// The sums of words that vectors, or parts of them, hold.
inline constexpr auto AddWords = [](const auto& x, const auto& y) HWY_ATTR {
  using D = hn::DFromV<std::decay_t<decltype(x)>>;
  const hn::RebindToSigned<hn::Repartition<float, D>> words;
  return hn::BitCast(D(),
                     hn::Add(hn::BitCast(words, x), hn::BitCast(words, y)));
};

// The same of integers, as floats.
HWY_INLINE QuadVector SumsOfWords(const Vector& a, const Vector& b,
                                  const Vector& c, const Vector& d) {
  const hn::Repartition<double, Floats> pairs;
  const Vector ab =
      AddWords(hn::InterleaveLower(kF, a, b), hn::InterleaveUpper(kF, a, b));
  const Vector cd =
      AddWords(hn::InterleaveLower(kF, c, d), hn::InterleaveUpper(kF, c, d));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab),
                                       hn::BitCast(pairs, cd));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab),
                                        hn::BitCast(pairs, cd));
  const QuadVector sum =
      CombineBlocks(kF, hn::BitCast(kF, AddWords(low, high)), AddWords);
  return hn::ConvertTo(kQ, hn::BitCast(hn::RebindToSigned<Quad>(), sum));
}

// Vectors of elements in a line of a cache; of the smallest, in a part of it.
template <class Elements>
constexpr int kVectorsOfLine =
    std::clamp(static_cast<int>(kLineBytes / Elements::kVectorBytes), 1, 16);

// A vector of channels, which may be longer than a piece.
template <class Elements>
HWY_INLINE Vector LoadPieces(const std::byte* at, int64_t piece_step) {
  if constexpr (Elements::kVectorBytes > kPieceBytes) {
    static_assert(Elements::kVectorBytes == 2 * kPieceBytes);
    const hn::Half<Floats> half;
    return hn::Combine(kF, FloatsAt<DType::kF32>(half, at + piece_step, 0),
                       FloatsAt<DType::kF32>(half, at, 0));
  }
  return Elements::Load(at);
}

// Where vector `v` of a row is: `step` bytes from piece to piece, or dense.
template <class Elements, bool kPieces = true>
HWY_INLINE int64_t OffsetOf(int64_t v, int64_t step) {
  const int64_t from = v * Elements::kVectorBytes;
  if (!kPieces) return from;
  return from / kPieceBytes * step + from % kPieceBytes;
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_ELEMENTS_INL_H_
