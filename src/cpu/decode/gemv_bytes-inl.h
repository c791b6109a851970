// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of 8 bits as integers (byte_args-inl.h), and how
// their rows are packed, once per step for all micro-tiles.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/range.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#endif

#include "cpu/decode/byte_products-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Sixteen bytes from each of some rows, every fourth one from row `r` on.
HWY_INLINE Vector LoadBlocks(const std::byte* const (&rows)[Lanes()], int r,
                             int64_t from) {
  return JoinLoaded([&](int n) HWY_ATTR {
    return FloatsAt<DType::kF32>(kQ, rows[4 * n + r] + from, 0);
  });
}

// As many keys as a vector has lanes, [four channels, lane].
template <bool kUnsigned>
HWY_INLINE void PackGroup(const std::byte* const (&rows)[Lanes()],
                          int64_t channels, float* HWY_RESTRICT packed) {
  constexpr int kBlocks = static_cast<int>(Lanes()) / 4;
  for (int64_t from = 0; from < channels; from += ByteLanes()) {
    HWY_UNROLL_ALL
    for (int b = 0; b < kBlocks; ++b) {
      const auto load = [&](int r) HWY_ATTR {
        return UnsignedIf<kUnsigned>(LoadBlocks(rows, r, from + 16 * b));
      };
      QuadsOf<Floats> quads{{load(0), load(1), load(2), load(3)}};
      quads.Transpose();
      HWY_UNROLL_ALL
      for (int j = 0; j < 4; ++j) {
        hn::Store(quads.at[j], kF, packed + j * Lanes());
      }
      packed += 4 * Lanes();
    }
  }
}

template <bool kUnsigned>
void PackByteKeys(const PackArgs& work) {
  float* packed = work.packed;
  for (int64_t j = 0; j < work.count; j += Lanes()) {
    const std::byte* rows[Lanes()];
    for (int64_t n = 0; n < Lanes(); ++n) {
      // Keys after the last repeat it: nobody reads their scores.
      rows[n] = work.rows[std::min(j + n, work.count - 1)] + work.shift;
    }
    PackGroup<kUnsigned>(rows, work.channels, packed);
    packed += work.channels / 4 * Lanes();
  }
}

// Four vectors of bytes of as many keys become words of one channel of all
// keys: block b of vector n has channels 16 b + 4 n and the three after.
HWY_INLINE void InterleaveKeys(Vector (&v)[4]) {
  const hn::Repartition<uint8_t, Floats> b;
  const hn::Repartition<uint16_t, Floats> h;
  const auto lower = [&](int n) HWY_ATTR {
    return hn::BitCast(h, hn::InterleaveLower(b, hn::BitCast(b, v[n]),
                                              hn::BitCast(b, v[n + 1])));
  };
  const auto upper = [&](int n) HWY_ATTR {
    return hn::BitCast(h, hn::InterleaveUpper(b, hn::BitCast(b, v[n]),
                                              hn::BitCast(b, v[n + 1])));
  };
  const auto low0 = lower(0), low2 = lower(2);
  const auto high0 = upper(0), high2 = upper(2);
  v[0] = hn::BitCast(kF, hn::InterleaveLower(h, low0, low2));
  v[1] = hn::BitCast(kF, hn::InterleaveUpper(h, low0, low2));
  v[2] = hn::BitCast(kF, hn::InterleaveLower(h, high0, high2));
  v[3] = hn::BitCast(kF, hn::InterleaveUpper(h, high0, high2));
}

template <bool kUnsigned>
void PackByteValues(const PackArgs& work) {
  float* HWY_RESTRICT packed = work.packed;
  for (int64_t j = 0; j < work.count; j += 4) {
    work.prefetch->PrefetchLines(work.lines);
    const std::byte* rows[4];
    HWY_UNROLL_ALL
    for (int64_t n = 0; n < 4; ++n) {
      // Keys after the last repeat it: their probs are 0.
      rows[n] = work.rows[std::min(j + n, work.count - 1)] + work.shift;
    }
    for (int64_t from = 0; from < work.channels; from += ByteLanes()) {
      Vector v[4];
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) {
        v[n] =
            UnsignedIf<kUnsigned>(FloatsAt<DType::kF32>(kF, rows[n] + from, 0));
      }
      InterleaveKeys(v);
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) hn::Store(v[n], kF, packed + n * Lanes());
      packed += 4 * Lanes();
    }
  }
}

// Scores of as many keys as a vector has lanes, from sums of three digits.
template <int kRows>
HWY_INLINE void StoreByteScores(const ByteQkArgs& work, const ByteQuery& query,
                                const WordVector (&sums)[kRows][kQueryDigits],
                                float* HWY_RESTRICT scores) {
  Vector score[4] = {hn::Zero(kF), hn::Zero(kF), hn::Zero(kF), hn::Zero(kF)};
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const auto sum = [&](int t)
                         HWY_ATTR { return hn::ConvertTo(kF, sums[r][t]); };
    const Vector low = hn::MulAdd(sum(1), hn::Set(kF, 0x1p8f), sum(2));
    const Vector dot = hn::MulAdd(sum(0), hn::Set(kF, 0x1p16f), low);
    score[r] = hn::Mul(hn::MulAdd(dot, hn::Set(kF, query.units[r]),
                                  hn::Set(kF, work.offset[r])),
                       hn::Set(kF, work.factor));
  }
  if constexpr (kRows == 1) {
    hn::StoreU(score[0], kF, scores);
  } else {
    hn::StoreInterleaved4(score[0], score[1], score[2], score[3], kF, scores);
  }
}

// How far the scores of a key are from the next one's.
template <int kRows>
HWY_INLINE constexpr int64_t ScoreWidth() {
  return kRows == 1 ? 1 : 4;
}

// Scores of the keys of kVectors vectors.
template <class Product, int kRows, int kVectors>
HWY_INLINE void DotByteKeys(const ByteQkArgs& work, const ByteQuery& query,
                            const float* HWY_RESTRICT keys,
                            LinePrefetcher& prefetch,
                            float* HWY_RESTRICT scores) {
  WordVector sums[kVectors][kRows][kQueryDigits];
  HWY_UNROLL_ALL
  for (int n = 0; n < kVectors * kRows * kQueryDigits; ++n) {
    const int v = n / (kRows * kQueryDigits);
    const int r = n / kQueryDigits % kRows;
    const int t = n % kQueryDigits;
    sums[v][r][t] = Product::kUnsignedKeys
                        ? hn::Set(kW, query.starts[r * kQueryDigits + t])
                        : hn::Zero(kW);
  }
  const int64_t step = work.channels / 4 * Lanes();
  constexpr int kLines = kVectors * static_cast<int>(Lanes()) / 4;
  const std::byte* taken = nullptr;
  const int32_t* digits = query.digits;
  for (int64_t d = 0; d < work.channels; d += 16) {
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) {
      PrefetchShare<Prefetches::kAny, kLines, 4>(n, taken, prefetch);
      WordVector key[kVectors];
      HWY_UNROLL_ALL
      for (int v = 0; v < kVectors; ++v) {
        key[v] = hn::BitCast(kW, hn::Load(kF, keys + v * step));
      }
      HWY_UNROLL_ALL
      for (int t = 0; t < kQueryDigits; ++t) {
        const auto of_rows = Product::DigitsOfRows(digits + t * 4);
        HWY_UNROLL_ALL
        for (int r = 0; r < kRows; ++r) {
          HWY_UNROLL_ALL
          for (int v = 0; v < kVectors; ++v) {
            sums[v][r][t] = Product::AddKeys(key[v], of_rows, r, sums[v][r][t]);
          }
        }
      }
      keys += Lanes();
      digits += ByteQuery::kGroup;
    }
  }
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    StoreByteScores<kRows>(work, query, sums[v],
                           scores + v * Lanes() * ScoreWidth<kRows>());
  }
}

template <class Product, int kRows>
HWY_NOINLINE void DotBytes(const ByteQkArgs& given) {
  const ByteQkArgs work = given;  // which nothing that is stored can change
  const ByteQuery query(work.query);
  LinePrefetcher prefetch = *given.prefetch;
  const float* keys = work.keys;
  const int64_t step = work.channels / 4 * Lanes();
  constexpr int kVectors = Product::KeyVectors(kRows);
  int64_t j = 0;
  for (; j + (kVectors - 1) * Lanes() < work.count; j += kVectors * Lanes()) {
    DotByteKeys<Product, kRows, kVectors>(
        work, query, keys, prefetch, work.scores + j * ScoreWidth<kRows>());
    keys += kVectors * step;
  }
  if constexpr (kVectors > 1) {
    for (; j < work.count; j += Lanes()) {
      DotByteKeys<Product, kRows, 1>(work, query, keys, prefetch,
                                     work.scores + j * ScoreWidth<kRows>());
      keys += step;
    }
  }
  *given.prefetch = prefetch;
}

// How the probs of a step become integers of 24 bits: by a power of two that is
// the row's.
struct ProbUnits {
  HWY_ALIGN float units[4];  // of each row
  Vector scales;             // 1 / unit, in the order of probs

  // Of four rows and `count` keys; what follows these, to whole groups of four,
  // becomes 0.
  HWY_INLINE ProbUnits(float* HWY_RESTRICT probs, int64_t count) {
    const int64_t whole = RoundUp(count, 4);
    std::fill(probs + 4 * count, probs + 4 * whole, 0.0f);
    Vector most = hn::Zero(kF);
    for (int64_t j = 0; j < 4 * whole; j += Lanes()) {
      most = hn::Max(most, hn::Load(kF, probs + j));
    }
    StoreUnits(CombineBlocks(kF, most,
                             [](const auto& a, const auto& b)
                                 HWY_ATTR { return hn::Max(a, b); }));
  }

 private:
  // The greatest prob of a row, 2^e and what follows, becomes less than 2^24:
  // it is multiplied by 2^(23 - e). Below 2^-100 it keeps fewer bits, as the
  // reciprocals of such numbers leave fp32.
  HWY_INLINE void StoreUnits(const QuadVector& most) {
    const hn::RebindToSigned<Quad> w;
    const auto exponent = hn::ShiftRight<23>(
        hn::BitCast(w, hn::Max(most, hn::Set(kQ, 0x1p-100f))));
    const auto power = [&](const auto& biased) HWY_ATTR {
      return hn::BitCast(kQ, hn::ShiftLeft<23>(biased));
    };
    constexpr int32_t kBits = 8 * kProbDigits - 1, kBias = 127;
    const auto least = hn::Set(w, kBits);
    HWY_ALIGN float inverses[4];
    hn::Store(power(hn::Sub(hn::Set(w, 2 * kBias + kBits), exponent)), kQ,
              inverses);
    hn::Store(power(hn::Sub(exponent, least)), kQ, units);
    scales = hn::LoadDup128(kF, inverses);
  }
};

// The probs of a step as digits. Of a NaN they are anything: the sum of its row
// is one, too.
struct ByteProbs : ProbUnits {
  // [four keys][digit][row], the keys' digits in each.
  HWY_ALIGN int32_t digits[kDecodeKeys / 4][kProbDigits][4];

  HWY_INLINE ByteProbs(float* HWY_RESTRICT probs, int64_t count)
      : ProbUnits(probs, count) {
    for (int64_t j = 0; j < count; j += 4) StoreGroup(probs + 4 * j, j / 4);
  }

 private:
  HWY_INLINE void StoreGroup(const float* HWY_RESTRICT probs, int64_t group) {
    const hn::RebindToSigned<Quad> w;
    const int64_t keys = Lanes() / 4;
    const auto first_key = hn::ShiftRight<2>(hn::Iota(kW, 0));
    WordVector words[kProbDigits] = {hn::Zero(kW), hn::Zero(kW), hn::Zero(kW)};
    for (int64_t j = 0; j < 4; j += keys) {
      WordVector left =
          hn::NearestInt(hn::Mul(hn::Load(kF, probs + 4 * j), scales));
      const WordVector shift = hn::ShiftLeft<3>(
          hn::Add(first_key, hn::Set(kW, static_cast<int32_t>(j))));
      HWY_UNROLL_ALL
      for (int t = kProbDigits - 1; t >= 0; --t) {
        words[t] =
            hn::Or(words[t], hn::Shl(hn::And(left, hn::Set(kW, 0xFF)), shift));
        left = hn::ShiftRight<8>(left);
      }
    }
    HWY_UNROLL_ALL
    for (int t = 0; t < kProbDigits; ++t) {
      const QuadVector bits = CombineBlocks(
          kF, hn::BitCast(kF, words[t]),
          [](const auto& a, const auto& b) HWY_ATTR { return hn::Or(a, b); });
      hn::Store(hn::BitCast(w, bits), w, digits[group][t]);
    }
  }
};

// out += the sums of a row's digits, of four vectors of channels.
template <int kOf>
HWY_INLINE void AddDigitSums(const WordVector (&sums)[kProbDigits][4],
                             float unit, float* HWY_RESTRICT out) {
  Vector sum[4];
  HWY_UNROLL_ALL
  for (int v = 0; v < 4; ++v) {
    // Of 48 keys the sum of a digit is below 2^21, so two of them fit a word.
    const auto low = hn::Add(hn::ShiftLeft<8>(sums[1][v]), sums[2][v]);
    sum[v] = hn::MulAdd(hn::ConvertTo(kF, sums[0][v]), hn::Set(kF, 0x1p16f),
                        hn::ConvertTo(kF, low));
  }
  OrderChannels(sum);
  HWY_UNROLL_ALL
  for (int v = 0; v < 4; ++v) {
    float* const to = out + v * kOf * Lanes();
    hn::Store(hn::MulAdd(sum[v], hn::Set(kF, unit), hn::Load(kF, to)), kF, to);
  }
}

// Where sums of unsigned values start: [digit][row].
struct ByteStarts {
  HWY_ALIGN int32_t of[kProbDigits][4];

  // -128 times the sums of the digits of `count` keys.
  HWY_INLINE ByteStarts(const ByteProbs& probs, int64_t count) {
    const hn::RebindToSigned<Quad> w;
    const auto low_bytes = hn::Set(w, 0x00FF00FF);
    HWY_UNROLL_ALL
    for (int t = 0; t < kProbDigits; ++t) {
      auto halves = hn::Zero(w);  // of up to 24 bytes each
      for (int64_t j = 0; j < count; j += 4) {
        const auto bytes = hn::Load(w, probs.digits[j / 4][t]);
        halves = hn::Add(halves, hn::And(bytes, low_bytes));
        halves = hn::Add(halves, hn::And(hn::ShiftRight<8>(bytes), low_bytes));
      }
      const auto sum = hn::Add(hn::And(halves, hn::Set(w, 0xFFFF)),
                               hn::ShiftRight<16>(halves));
      hn::Store(hn::Neg(hn::ShiftLeft<7>(sum)), w, of[t]);
    }
  }
};

// [digit][row], for sums of values as they are.
struct NoByteStarts {
  HWY_INLINE NoByteStarts(const ByteProbs& /*probs*/, int64_t /*count*/) {}
  static constexpr int32_t of[kProbDigits][4] = {};
};

// What rows of a micro-tile have ByteLanes() channels of, and where they go.
struct ByteSums {
  const float* values;  // packed
  const int32_t* starts;
  const int32_t* digits;
  const float* units;
  float* out;
};

// out += probs * values of kRows of kOf rows, from row kFirst on.
template <class Product, int kFirst, int kRows, int kOf>
HWY_INLINE void AddByteChannels(const ByteSums& at, int64_t count, int64_t step,
                                LinePrefetcher& prefetch) {
  // Of four keys, which all rows share.
  constexpr int kLines =
      std::max(static_cast<int>(Lanes()) / 4 / ((kOf + 1) / 2), 1);
  const std::byte* taken = nullptr;
  WordVector sums[kRows][kProbDigits][4];
  HWY_UNROLL_ALL
  for (int n = 0; n < kRows * kProbDigits * 4; ++n) {
    const int r = n / (kProbDigits * 4), t = n / 4 % kProbDigits;
    sums[r][t][n % 4] = Product::kUnsignedValues
                            ? hn::Set(kW, at.starts[t * 4 + kFirst + r])
                            : hn::Zero(kW);
  }
  const float* HWY_RESTRICT values = at.values;
  const int32_t* HWY_RESTRICT digits = at.digits;
  for (int64_t j = 0; j < count; j += 4) {
    PrefetchShare<Prefetches::kAny, kLines, 1>(0, taken, prefetch);
    WordVector value[4];
    HWY_UNROLL_ALL
    for (int v = 0; v < 4; ++v) {
      value[v] = hn::BitCast(kW, hn::Load(kF, values + v * Lanes()));
    }
    HWY_UNROLL_ALL
    for (int t = 0; t < kProbDigits; ++t) {
      const auto of_rows = Product::DigitsOfRows(digits + t * 4);
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL_ALL
        for (int v = 0; v < 4; ++v) {
          sums[r][t][v] =
              Product::AddValues(value[v], of_rows, kFirst + r, sums[r][t][v]);
        }
      }
    }
    values += step;
    digits += kProbDigits * 4;
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    AddDigitSums<kOf>(sums[r], at.units[kFirst + r],
                      at.out + (kFirst + r) * Lanes());
  }
}

// Rows kFirst and after, two at a time, whose sums fill the registers.
template <class Product, int kFirst, int kRows>
HWY_INLINE void AddByteRows(const ByteSums& at, int64_t count, int64_t step,
                            LinePrefetcher& prefetch) {
  if constexpr (kFirst < kRows) {
    constexpr int kAtOnce = std::min(kRows - kFirst, 2);
    AddByteChannels<Product, kFirst, kAtOnce, kRows>(at, count, step, prefetch);
    AddByteRows<Product, kFirst + kAtOnce, kRows>(at, count, step, prefetch);
  }
}

template <class Product, int kRows>
HWY_NOINLINE void AddBytes(const BytePvArgs& given) {
  const BytePvArgs work = given;
  HWY_ALIGN float four[kRows == 1 ? 4 * kDecodeKeys + 16 : 1];
  if constexpr (kRows == 1) SpreadProbs(work.probs, work.count, four);
  const ByteProbs probs(kRows == 1 ? four : work.probs, work.count);
  using Starts =
      std::conditional_t<Product::kUnsignedValues, ByteStarts, NoByteStarts>;
  const Starts starts(probs, work.count);
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t v = 0; v < work.vectors; v += 4) {
    AddByteRows<Product, 0, kRows>(
        {work.values + v * Lanes(), starts.of[0], probs.digits[0][0],
         probs.units, work.out + v * kRows * Lanes()},
        work.count, work.vectors * Lanes(), prefetch);
  }
  *given.prefetch = prefetch;
}

// A single row of a micro-tile gains where floats cost more than packing.
template <class Product>
constexpr ByteKernels MakeByteKernels() {
  ByteKernels kernels = {
      .dot = {nullptr, DotBytes<Product, 2>, DotBytes<Product, 3>,
              DotBytes<Product, 4>},
      .add = {nullptr, AddBytes<Product, 2>, AddBytes<Product, 3>,
              AddBytes<Product, 4>},
      .min_rows = kMinByteRows,
      .channel_unit = ByteLanes(),
      .digits_in_twos = false,
      .shares_lines = false,
      .pack_keys = PackByteKeys<Product::kUnsignedKeys>,
      .pack_values = PackByteValues<Product::kUnsignedValues>};
  if constexpr (kMinByteRows == 1) {
    kernels.dot[0] = DotBytes<Product, 1>;
    kernels.add[0] = AddBytes<Product, 1>;
  }
  return kernels;
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
