// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of 8 bits by ARM's SMMLA and USMMLA, with the bits
// of gemv_bytes-inl.h: of each operand's 128 bits two rows of eight bytes, and
// 2 x 2 sums, twice the products of SDOT.
//
// One operand has columns of the product: the digits of a micro-tile's rows,
// digit by digit, twelve of four rows, three of one. Two of them meet two keys,
// or two channels of values. Probs have no sign and values have one, which
// USMMLA takes, so no sum needs to start at anything.
//
// Keys are packed as [group of lanes][eight channels, half of the group], so
// that blocks of the first half have keys 0 and 1, 2 and 3, and so on; values
// as [eight keys][channel], in the order that interleaving gives.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_BYTE_TWO_BY_TWO_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_BYTE_TWO_BY_TWO_INL_H_
#undef FLASHACL_CPU_DECODE_BYTE_TWO_BY_TWO_INL_H_
#else
#define FLASHACL_CPU_DECODE_BYTE_TWO_BY_TWO_INL_H_
#endif

#include "cpu/decode/gemv_bytes-inl.h"
#if FLASHACL_HAS_BYTE_TWO_BY_TWO
#include "cpu/tile/zip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

static_assert(kQueryDigits == kProbDigits && kDecodeKeys % 8 == 0);

// Operands that have the columns of some rows, two in each.
HWY_INLINE constexpr int ColumnOperands(int rows) {
  return (rows * kQueryDigits + 1) / 2;
}
static_assert(4 * ColumnOperands(4) <= 2 * ByteQuery::kGroup);

// Sums of 2 x 2 += the products of two rows of bytes, `x`, and two others.
#if FLASHACL_SVE_BITS
template <int kCode>
HWY_INLINE WordVector AddBytesTwoByTwo(const WordVector& x, const WordVector& y,
                                       WordVector sum) {
  asm(FLASHACL_ASM_VECTORS("%c3") : "+w"(sum) : "w"(x), "w"(y), "i"(kCode));
  return sum;
}
inline constexpr int kSmmla = 0x45009800;   // %0.s, %1.b, %2.b
inline constexpr int kUsmmla = 0x45809800;  // %0.s, %1.b, %2.b
#else
template <int kCode>
HWY_INLINE WordVector AddBytesTwoByTwo(const WordVector& x, const WordVector& y,
                                       const WordVector& sum) {
  auto raw = sum.raw;
  asm(FLASHACL_ASM_VECTORS("%c3")
      : "+w"(raw)
      : "w"(x.raw), "w"(y.raw), "i"(kCode));
  return WordVector{raw};
}
inline constexpr int kSmmla = 0x4E80A400;   // %0.4s, %1.16b, %2.16b
inline constexpr int kUsmmla = 0x4E80AC00;  // %0.4s, %1.16b, %2.16b
#endif

HWY_INLINE WordVector WordsAt(const float* at) {
  return hn::BitCast(kW, hn::Load(kF, at));
}

inline void PackKeysInTwos(const PackArgs& work) {
  float* HWY_RESTRICT packed = work.packed;
  for (int64_t j = 0; j < work.count; j += Lanes()) {
    const std::byte* rows[Lanes()];
    for (int64_t n = 0; n < Lanes(); ++n) {
      // Keys after the last repeat it: nobody reads their scores.
      rows[n] = work.rows[std::min(j + n, work.count - 1)] + work.shift;
    }
    for (int64_t from = 0; from < work.channels; from += 16) {
      // The even or the odd keys of half of the group, 16 bytes of each.
      const auto load = [&](int64_t first) HWY_ATTR {
        return JoinLoaded([&](int n) HWY_ATTR {
          return FloatsAt<DType::kF32>(kQ, rows[first + 2 * n] + from, 0);
        });
      };
      constexpr int64_t kHalf = Lanes() / 2;
      const Vector even[2] = {load(0), load(kHalf)};
      const Vector odd[2] = {load(1), load(kHalf + 1)};
      HWY_UNROLL_ALL
      for (int h = 0; h < 2; ++h) {
        hn::Store(LowerOfBlocks(even[h], odd[h]), kF, packed + h * Lanes());
        hn::Store(UpperOfBlocks(even[h], odd[h]), kF,
                  packed + (h + 2) * Lanes());
      }
      packed += 4 * Lanes();
    }
  }
}

// Four rows of bytes, from key `j` on, as InterleaveKeys leaves them.
struct FourKeys {
  Vector at[4];

  HWY_INLINE FourKeys(const PackArgs& work, int64_t j, int64_t from) {
    HWY_UNROLL_ALL
    for (int64_t n = 0; n < 4; ++n) {
      // Keys after the last repeat it: their probs are 0.
      const std::byte* const row =
          work.rows[std::min(j + n, work.count - 1)] + work.shift;
      at[n] = FloatsAt<DType::kF32>(kF, row + from, 0);
    }
    InterleaveKeys(at);
  }
};

inline void PackValuesInTwos(const PackArgs& work) {
  float* HWY_RESTRICT packed = work.packed;
  for (int64_t j = 0; j < work.count; j += 8) {
    for (int64_t from = 0; from < work.channels; from += ByteLanes()) {
      const FourKeys first(work, j, from), next(work, j + 4, from);
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) {
        hn::Store(ZipLower(first.at[n], next.at[n]), kF, packed);
        hn::Store(ZipUpper(first.at[n], next.at[n]), kF, packed + Lanes());
        packed += 2 * Lanes();
      }
    }
  }
}

// Vectors of keys that meet the columns of so many rows at a time. Four of two
// rows fill the registers with sums, of which GCC keeps some in memory for
// the loads of longer vectors.
HWY_INLINE constexpr int KeyVectorsInTwos(int rows) {
  return rows > 2 ? 2 : Lanes() > 4 ? 3 : 4;
}
static_assert(3 * Lanes() <= kDecodeKeys);

// Sums of the halves of some vectors of keys with the columns of kRows rows.
template <int kRows, int kVectors>
struct KeySums {
  static constexpr int kOperands = ColumnOperands(kRows);
  WordVector at[kVectors][2][kOperands];

  HWY_INLINE KeySums() {
    HWY_UNROLL_ALL
    for (int n = 0; n < kVectors * 2 * kOperands; ++n) {
      at[n / (2 * kOperands)][n / kOperands % 2][n % kOperands] = hn::Zero(kW);
    }
  }

  // Of eight channels; vectors of keys are `step` words apart.
  HWY_INLINE void Add(const float* HWY_RESTRICT keys, int64_t step,
                      const int32_t* HWY_RESTRICT digits) {
    WordVector columns[kOperands];
    HWY_UNROLL_ALL
    for (int p = 0; p < kOperands; ++p) {
      columns[p] = hn::LoadDup128(kW, digits + 4 * p);
    }
    HWY_UNROLL_ALL
    for (int n = 0; n < 2 * kVectors; ++n) {
      const int v = n / 2, h = n % 2;
      const WordVector key = WordsAt(keys + v * step + h * Lanes());
      HWY_UNROLL_ALL
      for (int p = 0; p < kOperands; ++p) {
        at[v][h][p] = AddBytesTwoByTwo<kSmmla>(key, columns[p], at[v][h][p]);
      }
    }
  }

  // Of column `c` with the keys of vector `v`.
  HWY_INLINE WordVector Column(int v, int c) const {
    const Vector first = hn::BitCast(kF, at[v][0][c / 2]);
    const Vector second = hn::BitCast(kF, at[v][1][c / 2]);
    return hn::BitCast(
        kW, c % 2 == 0 ? EvenWords(first, second) : OddWords(first, second));
  }
};

// DotByteKeys.
template <int kRows, int kVectors>
HWY_INLINE void DotKeysInTwos(const ByteQkArgs& work, const ByteQuery& query,
                              const float* HWY_RESTRICT keys,
                              LinePrefetcher& prefetch,
                              float* HWY_RESTRICT scores) {
  KeySums<kRows, kVectors> sums;
  const int64_t step = work.channels / 4 * Lanes();
  constexpr int kLines = kVectors * static_cast<int>(Lanes()) / 4;
  const std::byte* taken = nullptr;
  const int32_t* digits = query.digits;
  for (int64_t d = 0; d < work.channels; d += 16) {
    HWY_UNROLL_ALL
    for (int n = 0; n < 2; ++n) {
      PrefetchShare<Prefetches::kAny, kLines, 2>(n, taken, prefetch);
      sums.Add(keys, step, digits);
      keys += 2 * Lanes();
      digits += 2 * ByteQuery::kGroup;
    }
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    WordVector of_rows[kRows][kQueryDigits];
    HWY_UNROLL_ALL
    for (int c = 0; c < kRows * kQueryDigits; ++c) {
      of_rows[c % kRows][c / kRows] = sums.Column(v, c);
    }
    StoreByteScores<kRows>(work, query, of_rows,
                           scores + v * Lanes() * ScoreWidth<kRows>());
  }
}

template <int kRows>
HWY_NOINLINE void DotBytesInTwos(const ByteQkArgs& given) {
  const ByteQkArgs work = given;  // which nothing that is stored can change
  const ByteQuery query(work.query);
  LinePrefetcher prefetch = *given.prefetch;
  const float* keys = work.keys;
  const int64_t step = work.channels / 4 * Lanes();
  constexpr int kVectors = KeyVectorsInTwos(kRows);
  int64_t j = 0;
  for (; j + (kVectors - 1) * Lanes() < work.count; j += kVectors * Lanes()) {
    DotKeysInTwos<kRows, kVectors>(work, query, keys, prefetch,
                                   work.scores + j * ScoreWidth<kRows>());
    keys += kVectors * step;
  }
  for (; j < work.count; j += Lanes()) {
    DotKeysInTwos<kRows, 1>(work, query, keys, prefetch,
                            work.scores + j * ScoreWidth<kRows>());
    keys += step;
  }
  *given.prefetch = prefetch;
}

// The columns of kRows rows of a step's probs: [two rows][eight keys][two
// columns][column, four keys of it and the next four].
template <int kRows>
struct ProbsInTwos {
  static constexpr int kGroups = kDecodeKeys / 8;
  HWY_ALIGN int32_t of[(kRows + 1) / 2][kGroups][ColumnOperands(2)][4];

  HWY_INLINE ProbsInTwos(const ByteProbs& probs, int64_t count) {
    for (int64_t g = 0; 8 * g < count; ++g) {
      // Keys after the last have no digits.
      HWY_ALIGN static constexpr int32_t kNone[kProbDigits][4] = {};
      const auto& first = probs.digits[2 * g];
      const auto& next = 8 * g + 4 < count ? probs.digits[2 * g + 1] : kNone;
      if constexpr (kRows % 2 == 1) {
        // The last row's second operand has one column.
        auto& columns = of[kRows / 2][g];
        columns[1][2] = columns[1][3] = 0;
      }
      HWY_UNROLL_ALL
      for (int t = 0; t < kProbDigits; ++t) StoreDigit(first[t], next[t], t, g);
    }
  }

 private:
  HWY_INLINE void StoreDigit(const int32_t* first, const int32_t* next, int t,
                             int64_t g) {
    constexpr hn::RebindToSigned<Quad> kWords;
    const auto a = hn::Load(kWords, first), b = hn::Load(kWords, next);
    if constexpr (kRows > 1) {
      hn::Store(hn::InterleaveLower(kWords, a, b), kWords, of[0][g][t]);
    }
    if constexpr (kRows == 4) {
      hn::Store(hn::InterleaveUpper(kWords, a, b), kWords, of[1][g][t]);
    } else if constexpr (kRows % 2 == 1) {
      auto& columns = of[kRows / 2][g];
      columns[t / 2][t % 2 * 2] = first[kRows - 1];
      columns[t / 2][t % 2 * 2 + 1] = next[kRows - 1];
    }
  }
};

// Sums of the columns of one or two rows with four vectors of channels.
template <int kRows>
struct ValueSums {
  static constexpr int kOperands = ColumnOperands(kRows);
  WordVector at[kOperands][8];

  HWY_INLINE ValueSums() {
    HWY_UNROLL_ALL
    for (int n = 0; n < kOperands * 8; ++n) at[n / 8][n % 8] = hn::Zero(kW);
  }

  // Of eight keys.
  HWY_INLINE void Add(const float* HWY_RESTRICT values,
                      const int32_t (*HWY_RESTRICT digits)[4]) {
    WordVector columns[kOperands];
    HWY_UNROLL_ALL
    for (int p = 0; p < kOperands; ++p)
      columns[p] = hn::LoadDup128(kW, digits[p]);
    HWY_UNROLL_ALL
    for (int n = 0; n < 8; ++n) {
      const WordVector value = WordsAt(values + n * Lanes());
      HWY_UNROLL_ALL
      for (int p = 0; p < kOperands; ++p) {
        at[p][n] = AddBytesTwoByTwo<kUsmmla>(columns[p], value, at[p][n]);
      }
    }
  }

  // Of column `c` with vector `v` of channels.
  HWY_INLINE WordVector Column(int c, int v) const {
    const Vector first = hn::BitCast(kF, at[c / 2][2 * v]);
    const Vector second = hn::BitCast(kF, at[c / 2][2 * v + 1]);
    return hn::BitCast(
        kW, c % 2 == 0 ? EvenTwos(first, second) : OddTwos(first, second));
  }
};

// AddByteRows, of four vectors of channels.
template <int kFirst, int kRows>
HWY_INLINE void AddRowsInTwos(const float* HWY_RESTRICT values, int64_t step,
                              const ProbsInTwos<kRows>& probs,
                              const float* units, int64_t count,
                              LinePrefetcher& prefetch, float* out) {
  if constexpr (kFirst < kRows) {
    constexpr int kAtOnce = std::min(kRows - kFirst, 2);
    // Of eight keys, which all rows share.
    constexpr int kLines =
        std::max(static_cast<int>(Lanes()) / 2 / ((kRows + 1) / 2), 1);
    const std::byte* taken = nullptr;
    ValueSums<kAtOnce> sums;
    for (int64_t g = 0; 8 * g < count; ++g) {
      PrefetchShare<Prefetches::kAny, kLines, 1>(0, taken, prefetch);
      sums.Add(values + g * step, probs.of[kFirst / 2][g]);
    }
    HWY_UNROLL_ALL
    for (int r = 0; r < kAtOnce; ++r) {
      WordVector digits[kProbDigits][4];
      HWY_UNROLL_ALL
      for (int n = 0; n < 4 * kProbDigits; ++n) {
        digits[n / 4][n % 4] = sums.Column(n / 4 * kAtOnce + r, n % 4);
      }
      AddDigitSums<kRows>(digits, units[kFirst + r],
                          out + (kFirst + r) * Lanes());
    }
    AddRowsInTwos<kFirst + kAtOnce, kRows>(values, step, probs, units, count,
                                           prefetch, out);
  }
}

template <int kRows>
HWY_NOINLINE void AddBytesInTwos(const BytePvArgs& given) {
  const BytePvArgs work = given;
  HWY_ALIGN float four[kRows == 1 ? 4 * kDecodeKeys + 16 : 1];
  if constexpr (kRows == 1) SpreadProbs(work.probs, work.count, four);
  const ByteProbs digits(kRows == 1 ? four : work.probs, work.count);
  const ProbsInTwos<kRows> probs(digits, work.count);
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t v = 0; v < work.vectors; v += 4) {
    AddRowsInTwos<0>(work.values + 2 * v * Lanes(), 2 * work.vectors * Lanes(),
                     probs, digits.units, work.count, prefetch,
                     work.out + v * kRows * Lanes());
  }
  *given.prefetch = prefetch;
}

constexpr ByteKernels MakeByteKernelsInTwos() {
  return {.dot = {DotBytesInTwos<1>, DotBytesInTwos<2>, DotBytesInTwos<3>,
                  DotBytesInTwos<4>},
          .add = {AddBytesInTwos<1>, AddBytesInTwos<2>, AddBytesInTwos<3>,
                  AddBytesInTwos<4>},
          .min_rows = kMinByteRows,
          .channel_unit = ByteLanes(),
          .digits_in_twos = true,
          .shares_lines = false,
          .pack_keys = PackKeysInTwos,
          .pack_values = PackValuesInTwos};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FLASHACL_HAS_BYTE_TWO_BY_TWO

#endif  // FLASHACL_CPU_DECODE_BYTE_TWO_BY_TWO_INL_H_
