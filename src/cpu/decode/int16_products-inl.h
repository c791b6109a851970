// SPDX-License-Identifier: Apache-2.0
// Integers of 16 bits, two to a word: how bytes of keys become such, and their
// products with those of queries and probs. Sums are exact: of up to 512
// channels, or of the keys of a step, they are words.

#include <cstddef>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_INT16_PRODUCTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_INT16_PRODUCTS_INL_H_
#undef FLASHACL_CPU_DECODE_INT16_PRODUCTS_INL_H_
#else
#define FLASHACL_CPU_DECODE_INT16_PRODUCTS_INL_H_
#endif

#include "cpu/decode/gemv_elements-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kMostInt16Channels = 512;
static_assert(kMostInt16Channels * 128 * 32767 < int64_t{1} << 31);
static_assert(kDecodeKeys * 255 * 32767 < int64_t{1} << 31);

// sum + the two products of each word.
struct OfInt16 {
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    const hn::Repartition<int16_t, Floats> h;
    auto unused = hn::Zero(kW);  // all that x86 sums goes into the first
    return hn::BitCast(kF, hn::ReorderWidenMulAccumulate(
                               kW, hn::BitCast(h, x), hn::BitCast(h, y),
                               hn::BitCast(kW, sum), unused));
  }
};

// Highway 1.0.3 knows the instruction of no target that is compiled here.
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
struct OfInt16AtOnce {
  static HWY_INLINE Vector Add(const Vector& x, const Vector& y,
                               const Vector& sum) {
    auto raw = sum.raw;
    asm("vpdpwssd %2, %1, %0" : "+v"(raw) : "v"(x.raw), "v"(y.raw));
    return Vector{raw};
  }
};
#else
using OfInt16AtOnce = OfInt16;
#endif

// Channels of keys of 8 bits, and of queries that are integers of 16.
template <class Product>
struct Int16KeysOf : AnyElements {
  static constexpr bool kIntegers = true;
  static constexpr int64_t kChannels = 2 * Lanes();
  static constexpr int kProducts = 1;
  static constexpr int64_t kVectorBytes = 2 * Lanes();
  static constexpr bool kHasPieces = true;
  static constexpr LoopBody kBody = LoopBody::kLong;
  static HWY_INLINE Vector Load(const std::byte* at) {
    const hn::Repartition<int16_t, Floats> h;
    const hn::Rebind<int8_t, decltype(h)> b;
    return hn::BitCast(
        kF,
        hn::PromoteTo(h, hn::LoadU(b, reinterpret_cast<const int8_t*>(at))));
  }
  static HWY_INLINE Vector AddDot(const Vector& key, const Vector& query,
                                  const Vector& sum) {
    return Product::Add(key, query, sum);
  }
};

// A vector of bytes of a row, as values are read.
struct ByteRows {
  static constexpr int64_t kVectorBytes = 4 * Lanes();
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsAt<DType::kF32>(kF, at, 0);
  }
};

// Two rows' bytes of the same channels become words, channel by channel, the
// first row's in the lower half, 128 more than they are: block b of vector n
// has channels 16 b + 4 n and the three after.
HWY_INLINE void InterleaveTwoKeys(const Vector& first, const Vector& second,
                                  Vector (&v)[4]) {
  const hn::Repartition<uint8_t, Floats> b;
  const auto signs = hn::Set(b, 0x80);
  const auto x = hn::Xor(hn::BitCast(b, first), signs);
  const auto y = hn::Xor(hn::BitCast(b, second), signs);
  const auto zero = hn::Zero(b);
  const auto low = hn::InterleaveLower(b, x, y);
  const auto high = hn::InterleaveUpper(b, x, y);
  v[0] = hn::BitCast(kF, hn::InterleaveLower(b, low, zero));
  v[1] = hn::BitCast(kF, hn::InterleaveUpper(b, low, zero));
  v[2] = hn::BitCast(kF, hn::InterleaveLower(b, high, zero));
  v[3] = hn::BitCast(kF, hn::InterleaveUpper(b, high, zero));
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_INT16_PRODUCTS_INL_H_
