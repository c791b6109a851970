// SPDX-License-Identifier: Apache-2.0
// Who sees whom inside a partial tile: a bit for every key and row of a panel,
// 32 keys to a word, whatever hides them.
//
// Words are [32 keys, lane], with query rows in lanes. Scalar code fills them,
// 32 keys outer and rows inner: the band gives a word at once, mask tensors and
// keys that do not exist clear bits of it. Vector code applies them to scores
// or probs, [key, lane], from the last key of a word to the first: a shift
// moves the next bit of every lane to its sign, which selects. Dropout's bits
// are laid out and applied alike.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MASK_INL_H_
#undef FLASHACL_CPU_TILE_MASK_INL_H_
#else
#define FLASHACL_CPU_TILE_MASK_INL_H_
#endif

#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Bits [first, last) of a word, both cut to [0, 32].
inline uint32_t BitsBetween(int64_t first, int64_t last) {
  first = std::clamp<int64_t>(first, 0, 32);
  last = std::clamp<int64_t>(last, 0, 32);
  if (first >= last) return 0;
  return static_cast<uint32_t>((uint64_t{1} << last) - (uint64_t{1} << first));
}

// The keys from `col` on that the band lets row i see.
inline uint32_t BandBits(const Band& band, int64_t i, int64_t col) {
  return BitsBetween(i + band.lower - col, i + band.upper + 1 - col) |
         BitsBetween(-col, band.prefix - col);
}

// A bit for each of `count` <= 32 bytes, whole vectors of them, that is 0.
template <class D>
HWY_INLINE uint32_t ZeroBitsOf(D d, const std::byte* bytes, int64_t count) {
  uint32_t bits = 0;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t n = 0; n < count; n += lanes) {
    uint8_t mask[8] = {};
    const auto block =
        hn::LoadU(d, reinterpret_cast<const uint8_t*>(bytes) + n);
    hn::StoreMaskBits(d, hn::Eq(block, hn::Zero(d)), mask);
    uint32_t found;
    std::memcpy(&found, mask, sizeof(found));
    bits |= found << n;
  }
  return bits;
}

// A bit for each of `count` <= 32 bytes, `step` bytes apart, that is 0.
inline uint32_t ZeroBits(const std::byte* bytes, int64_t step, int64_t count) {
  uint32_t bits = 0;
  int64_t n = 0;
  if (step == 1) {
    // A word at once where vectors are as long, then half a word.
    if (count == 32) return ZeroBitsOf(hn::CappedTag<uint8_t, 32>(), bytes, 32);
    n = count / 16 * 16;
    bits = ZeroBitsOf(hn::FixedTag<uint8_t, 16>(), bytes, n);
  }
  for (; n < count; ++n) {
    bits |= uint32_t{bytes[n * step] == std::byte{0}} << n;
  }
  return bits;
}

// `count` <= 32 bits, `step` bits apart, from `bit` on.
inline uint32_t BitsAt(const std::byte* bytes, int64_t bit, int64_t step,
                       int64_t count) {
  if (step == 1) {
    const int64_t last = (bit + count - 1) / 8;
    uint64_t word = 0;
    std::memcpy(&word, bytes + bit / 8,
                static_cast<size_t>(last - bit / 8 + 1));
    return static_cast<uint32_t>(word >> (bit % 8)) & BitsBetween(0, count);
  }
  uint32_t bits = 0;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t at = bit + n * step;
    const auto byte = std::to_integer<uint32_t>(bytes[at / 8]);
    bits |= ((byte >> (at % 8)) & 1u) << n;
  }
  return bits;
}

// The keys `cols`, at most 32, that the mask lets a row see.
HWY_INLINE uint32_t MaskBits(const ScoreTile& tile, const QueryRow& row,
                             Range cols) {
  const int64_t step = tile.params->mask_step;
  if (cols.first >= tile.mask_first) {
    return ZeroBits(row.mask + cols.first * step, step, cols.size());
  }
  const int64_t before = std::min(tile.mask_first - cols.first, cols.size());
  uint32_t bits = BitsBetween(0, before);
  if (before < cols.size()) {
    bits |=
        ZeroBits(row.mask + tile.mask_first * step, step, cols.size() - before)
        << before;
  }
  return bits;
}

// The keys `cols`, at most 32, that a row sees; `exists` has a bit for each. A
// band that hides none of them is not asked.
HWY_INLINE uint32_t VisibleBits(const ScoreTile& tile, const QueryRow& row,
                                Range cols, uint32_t exists, bool banded) {
  uint32_t bits = exists;
  if (banded) bits &= BandBits(tile.band, row.position, cols.first);
  if (tile.params->masked && bits != 0) bits &= MaskBits(tile, row, cols);
  return bits;
}

// The keys `cols`, at most 32, whose probs dropout keeps.
HWY_INLINE uint32_t KeptBits(const ScoreParams& params, const QueryRow& row,
                             Range cols) {
  return BitsAt(params.keep, row.keep + cols.first * params.keep_step,
                params.keep_step, cols.size());
}

// Whether any bit of some rows is set, and whether all are.
struct Visible {
  bool any = false;
  bool all = true;

  void Add(uint32_t bits, uint32_t whole) {
    any |= bits != 0;
    all &= bits == whole;
  }
};

// Calls body(word, cols, whole) for every 32 of the keys `cols`, of which
// `whole` has a bit for each.
template <typename Body>
HWY_INLINE void ForWords(Range cols, Body body) {
  for (int64_t w = 0; cols.first + 32 * w < cols.last; ++w) {
    const int64_t first = cols.first + 32 * w;
    const Range some{first, std::min(first + 32, cols.last)};
    body(w, some, BitsBetween(0, some.size()));
  }
}

// Words of bits, one for every row and 32 keys.
struct BitWords {
  uint32_t* words;
  int64_t rows;
  int64_t row_stride;
  int64_t word_stride;

  uint32_t& At(int64_t r, int64_t w) const {
    return words[r * row_stride + w * word_stride];
  }
};

// Of a panel: [32 keys, lane]. No default of BitWords says so: Clang compiles
// the constructor of a struct without the instructions of the functions here.
inline BitWords PanelWords(uint32_t* words) {
  return {words, Width(), 1, Width()};
}

// Fills the words of the keys `cols` and of `count` rows; the rest see nothing.
// `exists` is null or has a bit for every key from cols.first on.
inline Visible FillVisible(const ScoreTile& tile, const QueryRow* query_rows,
                           int64_t count, Range cols, const uint32_t* exists,
                           const BitWords& words) {
  Visible visible;
  const Range positions{query_rows[0].position,
                        query_rows[count - 1].position + 1};
  const bool banded = tile.band.Classify(positions, cols) != TileKind::kFull;
  ForWords(cols, [&](int64_t w, Range some, uint32_t whole) HWY_ATTR {
    const uint32_t present = exists == nullptr ? whole : whole & exists[w];
    uint32_t* word = &words.At(0, w);
    for (int64_t r = 0; r < count; ++r, word += words.row_stride) {
      const QueryRow& row = query_rows[r];
      const QueryRow& before = query_rows[std::max<int64_t>(r - 1, 0)];
      // Heads of one position that share a mask see the same.
      const bool same =
          r > 0 && before.position == row.position && before.mask == row.mask;
      const uint32_t bits = same
                                ? *(word - words.row_stride)
                                : VisibleBits(tile, row, some, present, banded);
      *word = bits;
      visible.Add(bits, whole);
    }
    for (int64_t r = count; r < words.rows; ++r) words.At(r, w) = 0;
  });
  return visible;
}

inline void FillKept(const ScoreTile& tile, const QueryRow* query_rows,
                     int64_t count, Range cols, const BitWords& words) {
  ForWords(cols, [&](int64_t w, Range some, uint32_t) HWY_ATTR {
    for (int64_t r = 0; r < words.rows; ++r) {
      words.At(r, w) =
          r < count ? KeptBits(*tile.params, query_rows[r], some) : 0;
    }
  });
}

// Calls body(j, at, sign) for every key j of `count` and both halves of the
// panel: `at` is where its scores are, and a lane of `sign` is negative where
// the bit is set.
template <typename Body>
HWY_INLINE void ForBits(float* HWY_RESTRICT scores,
                        const uint32_t* HWY_RESTRICT words, int64_t count,
                        Body body) {
  const hn::RebindToUnsigned<Floats> u;
  for (int64_t block = 0; block < count; block += 32) {
    const int64_t left = std::min<int64_t>(32, count - block);
    const uint32_t* const word = words + block / 32 * Width();
    const int shift = static_cast<int>(32 - left);
    auto low = hn::ShiftLeftSame(hn::Load(u, word), shift);
    auto high = hn::ShiftLeftSame(hn::Load(u, word + Lanes()), shift);
    // From the last key to the first: each step moves the next bit up to the
    // sign.
    for (int64_t n = left - 1; n >= 0; --n) {
      float* const at = scores + (block + n) * Width();
      body(at, hn::BitCast(kF, low), hn::BitCast(kF, high));
      low = hn::Add(low, low);
      high = hn::Add(high, high);
    }
  }
}

// Scores of keys that a row does not see become -inf; returns the greatest of
// the others.
inline PanelPair HideScores(float* HWY_RESTRICT scores,
                            const uint32_t* HWY_RESTRICT visible,
                            int64_t count) {
  PanelPair block_max = PanelPair::Of(kMinusInfinity);
  const Vector hidden = block_max.low;
  ForBits(scores, visible, count,
          [&](float* at, const Vector& low, const Vector& high) HWY_ATTR {
            PanelPair s = PanelPair::Load(at);
            s.low = hn::IfNegativeThenElse(low, s.low, hidden);
            s.high = hn::IfNegativeThenElse(high, s.high, hidden);
            s.Store(at);
            block_max.low = hn::Max(s.low, block_max.low);
            block_max.high = hn::Max(s.high, block_max.high);
          });
  return block_max;
}

// Probs whose bit is not set become `other`.
HWY_INLINE void ReplaceProbs(float* HWY_RESTRICT probs,
                             const uint32_t* HWY_RESTRICT bits, int64_t count,
                             float other) {
  const Vector replaced = hn::Set(kF, other);
  ForBits(probs, bits, count,
          [&](float* at, const Vector& low, const Vector& high) HWY_ATTR {
            PanelPair p = PanelPair::Load(at);
            p.low = hn::IfNegativeThenElse(low, p.low, replaced);
            p.high = hn::IfNegativeThenElse(high, p.high, replaced);
            p.Store(at);
          });
}

// Probs of keys that a row does not see become -0, which no other prob is.
inline void MarkHidden(float* HWY_RESTRICT probs,
                       const uint32_t* HWY_RESTRICT visible, int64_t count) {
  ReplaceProbs(probs, visible, count, -0.0f);
}

// sum + prob * value, rounded as everywhere; the sum where MarkHidden was.
HWY_INLINE Vector AddUnlessHidden(const Vector& sum, const Vector& prob,
                                  const Vector& value) {
  const auto hidden =
      hn::Eq(hn::BitCast(kW, prob), hn::BitCast(kW, hn::Set(kF, -0.0f)));
  return hn::IfThenElse(hn::RebindMask(kF, hidden), sum,
                        hn::MulAdd(prob, value, sum));
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MASK_INL_H_
