// SPDX-License-Identifier: Apache-2.0
// Both products for few rows of 8 bits as integers (byte_args-inl.h), and how
// their rows are packed, once per step for all micro-tiles.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using WordVector = hn::Vec<Words>;

// sum + the four products of each lane's bytes: those of `x` have no sign.
struct OfBytes {
  static HWY_INLINE WordVector Add(const WordVector& x, const WordVector& y,
                                   WordVector sum) {
    const hn::RebindToUnsigned<Words> u;
    const auto bits = hn::BitCast(u, x);
    const auto low = hn::Set(u, 0xFFu);
    const auto part = [&](const auto& shifted,
                          const WordVector& lifted) HWY_ATTR {
      return hn::Mul(hn::BitCast(kW, hn::And(shifted, low)),
                     hn::ShiftRight<24>(lifted));
    };
    sum = hn::Add(sum, part(bits, hn::ShiftLeft<24>(y)));
    sum = hn::Add(sum, part(hn::ShiftRight<8>(bits), hn::ShiftLeft<16>(y)));
    sum = hn::Add(sum, part(hn::ShiftRight<16>(bits), hn::ShiftLeft<8>(y)));
    return hn::Add(sum, part(hn::ShiftRight<24>(bits), y));
  }
  // With the same four bytes `y` in each lane.
  static HWY_INLINE WordVector AddSame(const WordVector& x, const int32_t* y,
                                       const WordVector& sum) {
    return Add(x, hn::Set(kW, *y), sum);
  }
};

// Highway 1.0.3 knows the instruction of no target that is compiled here.
#if FLASHACL_HAS_BYTE_DOTS
struct OfBytesAtOnce {
  static HWY_INLINE WordVector Add(const WordVector& x, const WordVector& y,
                                   const WordVector& sum) {
    auto raw = sum.raw;
    asm("vpdpbusd %2, %1, %0" : "+v"(raw) : "v"(x.raw), "v"(y.raw));
    return WordVector{raw};
  }
  static HWY_INLINE WordVector AddSame(const WordVector& x, const int32_t* y,
                                       const WordVector& sum) {
    auto raw = sum.raw;
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(raw) : "v"(x.raw), "m"(*y));
    return WordVector{raw};
  }
};
#else
using OfBytesAtOnce = OfBytes;
#endif

// Sixteen bytes from each of some rows, every fourth one from row `r` on.
HWY_INLINE Vector LoadBlocks(const std::byte* const (&rows)[Lanes()], int r,
                             int64_t from) {
  return JoinLoaded([&](int n) HWY_ATTR {
    return FloatsAt<DType::kF32>(kQ, rows[4 * n + r] + from, 0);
  });
}

// As many keys as a vector has lanes, [four channels, lane], without signs.
HWY_INLINE void PackGroup(const std::byte* const (&rows)[Lanes()],
                          int64_t channels, float* HWY_RESTRICT packed) {
  constexpr int kBlocks = static_cast<int>(Lanes()) / 4;
  const Vector sign =
      hn::BitCast(kF, hn::Set(kW, static_cast<int32_t>(0x80808080u)));
  for (int64_t from = 0; from < channels; from += ByteLanes()) {
    HWY_UNROLL_ALL
    for (int b = 0; b < kBlocks; ++b) {
      const auto load = [&](int r) HWY_ATTR {
        return hn::Xor(LoadBlocks(rows, r, from + 16 * b), sign);
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

void PackByteKeys(const PackArgs& work) {
  float* packed = work.packed;
  for (int64_t j = 0; j < work.count; j += Lanes()) {
    const std::byte* rows[Lanes()];
    for (int64_t n = 0; n < Lanes(); ++n) {
      // Keys after the last repeat it: nobody reads their scores.
      rows[n] = work.rows[std::min(j + n, work.count - 1)] + work.shift;
    }
    PackGroup(rows, work.channels, packed);
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

// What InterleaveKeys leaves, in the order of channels: vector m of the result
// has block m of each.
HWY_INLINE void OrderChannels(Vector (&v)[4]) {
  if constexpr (Lanes() == 4) return;
  const Vector low01 = hn::ConcatLowerLower(kF, v[1], v[0]);
  const Vector low23 = hn::ConcatLowerLower(kF, v[3], v[2]);
  const Vector high01 = hn::ConcatUpperUpper(kF, v[1], v[0]);
  const Vector high23 = hn::ConcatUpperUpper(kF, v[3], v[2]);
#if FLASHACL_HAS_BYTE_DOTS
  v[0] = Vector{_mm512_shuffle_f32x4(low01.raw, low23.raw, 0x88)};
  v[1] = Vector{_mm512_shuffle_f32x4(low01.raw, low23.raw, 0xDD)};
  v[2] = Vector{_mm512_shuffle_f32x4(high01.raw, high23.raw, 0x88)};
  v[3] = Vector{_mm512_shuffle_f32x4(high01.raw, high23.raw, 0xDD)};
#else
  static_assert(Lanes() <= 8);
  v[0] = low01;
  v[1] = low23;
  v[2] = high01;
  v[3] = high23;
#endif
}

void PackByteValues(const PackArgs& work) {
  float* HWY_RESTRICT packed = work.packed;
  for (int64_t j = 0; j < work.count; j += 4) {
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
        v[n] = FloatsAt<DType::kF32>(kF, rows[n] + from, 0);
      }
      InterleaveKeys(v);
      HWY_UNROLL_ALL
      for (int n = 0; n < 4; ++n) hn::Store(v[n], kF, packed + n * Lanes());
      packed += 4 * Lanes();
    }
  }
}

// Scores of as many keys as a vector has lanes.
template <class Product, int kRows>
HWY_INLINE void DotByteKeys(const ByteQkArgs& work, const ByteQuery& query,
                            const float* HWY_RESTRICT keys,
                            LinePrefetcher& prefetch,
                            float* HWY_RESTRICT scores) {
  WordVector sums[kRows][kQueryDigits];
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL_ALL
    for (int t = 0; t < kQueryDigits; ++t) {
      sums[r][t] = hn::Set(kW, query.starts[r * kQueryDigits + t]);
    }
  }
  constexpr int kLines = static_cast<int>(Lanes()) / 4;  // of 16 channels
  const std::byte* taken = nullptr;
  const int32_t* digits = query.digits;
  for (int64_t d = 0; d < work.channels; d += 16) {
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) {
      PrefetchShare<Prefetches::kAny, kLines, 4>(n, taken, prefetch);
      const WordVector key = hn::BitCast(kW, hn::Load(kF, keys));
      HWY_UNROLL_ALL
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL_ALL
        for (int t = 0; t < kQueryDigits; ++t) {
          sums[r][t] = Product::AddSame(key, digits + t * 4 + r, sums[r][t]);
        }
      }
      keys += Lanes();
      digits += ByteQuery::kGroup;
    }
  }
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
  hn::StoreInterleaved4(score[0], score[1], score[2], score[3], kF, scores);
}

template <class Product, int kRows>
HWY_NOINLINE void DotBytes(const ByteQkArgs& given) {
  const ByteQkArgs work = given;  // which nothing that is stored can change
  const ByteQuery query(work.query);
  LinePrefetcher prefetch = *given.prefetch;
  const float* keys = work.keys;
  for (int64_t j = 0; j < work.count; j += Lanes()) {
    DotByteKeys<Product, kRows>(work, query, keys, prefetch,
                                work.scores + 4 * j);
    keys += work.channels / 4 * Lanes();
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

// What rows of a micro-tile have ByteLanes() channels of, and where they go.
struct ByteSums {
  const float* values;  // packed
  const int32_t* digits;
  const float* units;
  float* out;
};

// out += probs * values of kRows of kOf rows.
template <class Product, int kRows, int kOf>
HWY_INLINE void AddByteChannels(const ByteSums& at, int64_t count, int64_t step,
                                LinePrefetcher& prefetch) {
  // Of four keys, which all rows share.
  constexpr int kLines =
      std::max(static_cast<int>(Lanes()) / 4 / ((kOf + 1) / 2), 1);
  const std::byte* taken = nullptr;
  WordVector sums[kRows][kProbDigits][4];
  HWY_UNROLL_ALL
  for (int n = 0; n < kRows * kProbDigits * 4; ++n) {
    sums[n / (kProbDigits * 4)][n / 4 % kProbDigits][n % 4] = hn::Zero(kW);
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
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL_ALL
      for (int t = 0; t < kProbDigits; ++t) {
        const WordVector digit = hn::Set(kW, digits[t * 4 + r]);
        HWY_UNROLL_ALL
        for (int v = 0; v < 4; ++v) {
          sums[r][t][v] = Product::Add(digit, value[v], sums[r][t][v]);
        }
      }
    }
    values += step;
    digits += kProbDigits * 4;
  }
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    AddDigitSums<kOf>(sums[r], at.units[r], at.out + r * Lanes());
  }
}

// Rows `kFirst` and after, two at a time, whose sums fill the registers.
template <class Product, int kFirst, int kRows>
HWY_INLINE void AddByteRows(const BytePvArgs& work, const ByteProbs& probs,
                            LinePrefetcher& prefetch, int64_t v) {
  if constexpr (kFirst < kRows) {
    constexpr int kAtOnce = std::min(kRows - kFirst, 2);
    AddByteChannels<Product, kAtOnce, kRows>(
        {work.values + v * Lanes(), probs.digits[0][0] + kFirst,
         probs.units + kFirst, work.out + (v * kRows + kFirst) * Lanes()},
        work.count, work.vectors * Lanes(), prefetch);
    AddByteRows<Product, kFirst + kAtOnce, kRows>(work, probs, prefetch, v);
  }
}

template <class Product, int kRows>
HWY_NOINLINE void AddBytes(const BytePvArgs& given) {
  const BytePvArgs work = given;
  const ByteProbs probs(work.probs, work.count);
  LinePrefetcher prefetch = *given.prefetch;
  for (int64_t v = 0; v < work.vectors; v += 4) {
    AddByteRows<Product, 0, kRows>(work, probs, prefetch, v);
  }
  *given.prefetch = prefetch;
}

// A single row reads rows where they lie, as floats.
template <class Product>
constexpr ByteKernels MakeByteKernels() {
  return {.dot = {nullptr, DotBytes<Product, 2>, DotBytes<Product, 3>,
                  DotBytes<Product, 4>},
          .add = {nullptr, AddBytes<Product, 2>, AddBytes<Product, 3>,
                  AddBytes<Product, 4>},
          .min_rows = kMinByteRows,
          .channel_unit = ByteLanes(),
          .packs_keys = true};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_BYTES_INL_H_
