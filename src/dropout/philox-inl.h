// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (Salmon et al., SC 2011) as the bits of a mask.
//
// A block is four words that are a function of a counter and a key alone, so
// any block can be drawn by itself. Blocks lie in 64-bit lanes, one to a lane,
// a vector for each of the four words: products of 32 bits by 32 are whole
// lanes, whose halves are the next round's words where they are. Of a lane only
// the low half is a word; what the high half holds means nothing. The loop over
// vectors is inside of that over rounds, so that no product waits for another.
// Nothing but the bits goes to memory.

#include <cstddef>
#include <cstdint>

#include "dropout/dropout_kernel.h"

#if defined(FLASHACL_DROPOUT_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_DROPOUT_PHILOX_INL_H_
#undef FLASHACL_DROPOUT_PHILOX_INL_H_
#else
#define FLASHACL_DROPOUT_PHILOX_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::dropout::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Pairs = hn::ScalableTag<uint64_t>;
using Halves = hn::RepartitionToNarrow<Pairs>;
using Blocks = hn::Vec<Pairs>;
inline constexpr Pairs kP;
inline constexpr Halves kH;

inline constexpr int kRounds = 10;
inline constexpr int kBlocksOfUnit = kUnitBits / 4;
inline constexpr int kPerVector = static_cast<int>(hn::MaxLanes(kP));
// Vectors that are drawn together, to hide how long a product takes. Half of
// them took 5 to 20 % longer on every instruction set, though words of four do
// not fit into 16 registers.
inline constexpr int kTogether = 4;

HWY_INLINE Blocks EvenProducts(Blocks words, hn::Vec<Halves> factor) {
  return hn::MulEven(hn::BitCast(kH, words), factor);
}

HWY_INLINE Blocks HighHalves(Blocks products) {
  return hn::BitCast(kP, hn::DupOdd(hn::BitCast(kH, products)));
}

struct Counters {
  // Compiled for the target, which on ARM the implicit one is not.
  HWY_INLINE Counters() {}

  Blocks word[4];

  HWY_INLINE void Round(uint32_t key0, uint32_t key1) {
    const Blocks p0 = EvenProducts(word[0], hn::Set(kH, 0xD2511F53u));
    const Blocks p1 = EvenProducts(word[2], hn::Set(kH, 0xCD9E8D57u));
    word[0] = hn::Xor3(HighHalves(p1), word[1], hn::Set(kP, uint64_t{key0}));
    word[1] = p1;
    word[2] = hn::Xor3(HighHalves(p0), word[3], hn::Set(kP, uint64_t{key1}));
    word[3] = p0;
  }

  // Words 0, 1, 2, 3 of one block after those of another, for the first and for
  // the second half of the blocks.
  HWY_INLINE void InOrder(hn::Vec<Halves>& first,
                          hn::Vec<Halves>& second) const {
    const auto pair = [&](int n) HWY_ATTR {
      const auto low = hn::BitCast(kH, word[n]);
      const auto high = hn::DupEven(hn::BitCast(kH, word[n + 1]));
      return hn::BitCast(kP, hn::OddEven(high, low));
    };
    const Blocks low = pair(0);
    const Blocks high = pair(2);
    first = hn::BitCast(kH, hn::InterleaveLower(kP, low, high));
    second = hn::BitCast(kH, hn::InterleaveUpper(kP, low, high));
  }
};

// The numbers of a vector's blocks, so that InOrder finds them in order: pairs
// of lanes hold one of the first half and one of the second.
HWY_INLINE Blocks BlockNumbers() {
  HWY_ALIGN uint64_t lanes[hn::MaxLanes(kP)];
  for (int n = 0; n < kPerVector; n += 2) {
    lanes[n] = static_cast<uint64_t>(n / 2);
    lanes[n + 1] = static_cast<uint64_t>(kPerVector / 2 + n / 2);
  }
  return hn::Load(kP, lanes);
}

// A bit for each word, the first of them lowest: whether it keeps.
HWY_INLINE uint32_t KeepBits(hn::Vec<Halves> words, int32_t threshold) {
  const hn::RebindToSigned<Halves> numbers;
  const auto number =
      hn::BitCast(numbers, hn::And(words, hn::Set(kH, 0x7FFFFFu)));
  const auto keeps = hn::Gt(number, hn::Set(numbers, threshold - 1));
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(numbers, keeps, bytes);
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8;
}

HWY_INLINE void DrawUnit(const MaskDraw& of, uint64_t first_block,
                         Blocks numbers, std::byte* HWY_RESTRICT to) {
  uint64_t unit[2] = {};
  for (int v = 0; v < kBlocksOfUnit / kPerVector; v += kTogether) {
    Counters counters[kTogether];
    HWY_UNROLL_ALL
    for (int n = 0; n < kTogether; ++n) {
      const uint64_t block =
          first_block + static_cast<uint64_t>((v + n) * kPerVector);
      counters[n].word[0] = hn::Add(numbers, hn::Set(kP, block));
      counters[n].word[1] = hn::Set(kP, first_block >> 32);
      counters[n].word[2] = hn::Set(kP, of.offset);
      counters[n].word[3] = hn::Set(kP, of.offset >> 32);
    }
    auto key0 = static_cast<uint32_t>(of.seed);
    auto key1 = static_cast<uint32_t>(of.seed >> 32);
    HWY_UNROLL_ALL
    for (int round = 0; round < kRounds; ++round) {
      HWY_UNROLL_ALL
      for (int n = 0; n < kTogether; ++n) counters[n].Round(key0, key1);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    HWY_UNROLL_ALL
    for (int n = 0; n < kTogether; ++n) {
      hn::Vec<Halves> low, high;
      counters[n].InOrder(low, high);
      const uint64_t bits = KeepBits(low, of.threshold) |
                            KeepBits(high, of.threshold) << (2 * kPerVector);
      const int at = 4 * (v + n) * kPerVector;
      unit[at / 64] |= bits << (at % 64);
    }
  }
  for (int n = 0; n < kUnitBytes; ++n) {
    to[n] = static_cast<std::byte>(unit[n / 8] >> (n % 8 * 8));
  }
}

inline void DrawUnits(const MaskDraw& of, int64_t first, int64_t count,
                      std::byte* to) {
  const Blocks numbers = BlockNumbers();
  for (int64_t n = 0; n < count; ++n) {
    DrawUnit(of, static_cast<uint64_t>(first + n) * kBlocksOfUnit, numbers,
             to + n * kUnitBytes);
  }
}

}  // namespace flashacl::dropout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_DROPOUT_PHILOX_INL_H_
