// SPDX-License-Identifier: Apache-2.0
// Both products for few rows: channels in lanes, elements converted in
// registers. A quartet is up to four packed rows, which share every element
// that is converted. Its queries and outputs lie as [vector of channels, row,
// lane]; its scores as [key, row] with four rows to a key, or with one where
// there is one row in all.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(FLASHACL_CPU_TILE_QUARTET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_QUARTET_INL_H_
#undef FLASHACL_CPU_TILE_QUARTET_INL_H_
#else
#define FLASHACL_CPU_TILE_QUARTET_INL_H_
#endif

#include "cpu/tile/ahead-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A vector of elements as floats.
struct F32Elements {
  static constexpr int64_t kBytes = 4;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return hn::LoadU(kF, reinterpret_cast<const float*>(at));
  }
};

struct F16Elements {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsFromF16(kF, reinterpret_cast<const uint16_t*>(at));
  }
};

struct Bf16Elements {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsFromBf16(kF, reinterpret_cast<const uint16_t*>(at));
  }
};

struct I8Elements {
  static constexpr int64_t kBytes = 1;
  static HWY_INLINE Vector Load(const std::byte* at) {
    return FloatsFromI8(reinterpret_cast<const int8_t*>(at));
  }
};

// Lines to ask for, one at a time and evenly: a processor waits for so many at
// most, and more of them would hold up everything else. They go into the second
// cache, as rows a power of two apart push each other out of the first.
struct LinesAhead {
  const std::byte* const* row = nullptr;  // null: none
  const std::byte* const* last = nullptr;
  int64_t row_bytes = 0;
  int64_t at = 0;

  // Of what is copied first there is more to read than to ask for.
  HWY_INLINE void Next() {
    if (row == last) return;
    __builtin_prefetch(*row + at, 0, 2);
    at += kLineBytes;
    if (at >= row_bytes) {
      at = 0;
      ++row;
    }
  }
};

// The sum of all lanes of each of four vectors. What one becomes does not
// depend on the others.
template <class D>
HWY_INLINE QuadVector SumOfBlocks(D d, const hn::Vec<D>& v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half,
                       hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

HWY_INLINE QuadVector SumsOfLanes(const Vector& a, const Vector& b,
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
  return SumOfBlocks(kF, hn::Add(hn::BitCast(kF, low), hn::BitCast(kF, high)));
}

// What turns dot products into scores: (dot + offset) * factor.
struct Dotting {
  const std::byte* const* keys;
  const std::byte* const* ropes;  // null: none
  LinesAhead ahead;               // a row for each key
  int64_t count;                  // of keys
  int64_t key_channels;           // whole vectors, as are those of the rope
  int64_t rope_channels;
  const float* query;   // [vector of channels, row, lane]
  const float* offset;  // [row], four of them
  float factor;
  float* scores;  // [key, row]
};

// sums[k][r] += rows[k] . query[r] over one vector of channels.
template <class Elements, int kKeys, int kRows>
HWY_INLINE void AddDotsOfVector(const std::byte* const (&at)[kKeys],
                                const float* HWY_RESTRICT query,
                                Vector (&sums)[kKeys][kRows]) {
  Vector key[kKeys];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) key[k] = Elements::Load(at[k]);
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    const Vector q = hn::Load(kF, query + r * Lanes());
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      sums[k][r] = hn::MulAdd(key[k], q, sums[k][r]);
    }
  }
}

// The same over all channels; returns where the query's next are.
template <class Elements, int kKeys, int kRows>
HWY_INLINE const float* AddDots(const std::byte* const* rows, LinesAhead& ahead,
                                int64_t channels,
                                const float* HWY_RESTRICT query,
                                Vector (&sums)[kKeys][kRows]) {
  constexpr int64_t kVectorBytes = Lanes() * Elements::kBytes;
  constexpr int kOfLine = kVectorBytes < kLineBytes
                              ? static_cast<int>(kLineBytes / kVectorBytes)
                              : 1;
  const std::byte* at[kKeys];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) at[k] = rows[k];
  int64_t n = 0;
  const auto next = [&]() HWY_ATTR {
    AddDotsOfVector<Elements, kKeys, kRows>(at, query, sums);
    query += kRows * Lanes();
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) at[k] += kVectorBytes;
  };
  if (ahead.row != nullptr) {
    for (; n + kOfLine * Lanes() <= channels; n += kOfLine * Lanes()) {
      HWY_UNROLL_ALL
      for (int v = 0; v < kOfLine; ++v) {
        HWY_UNROLL_ALL
        for (int k = v; k < kKeys; k += kOfLine) {
          ahead.Next();
        }
        next();
      }
    }
  }
  for (; n < channels; n += Lanes()) next();
  return query;
}

// Scores of kKeys keys from number `j` on; one row's go four keys at a time.
template <class Elements, int kKeys, int kRows>
HWY_INLINE void DotKeys(const Dotting& work, LinesAhead& ahead, int64_t j) {
  Vector sums[kKeys][kRows];
  HWY_UNROLL_ALL
  for (int k = 0; k < kKeys; ++k) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) sums[k][r] = hn::Zero(kF);
  }
  const float* const rest = AddDots<Elements, kKeys, kRows>(
      work.keys + j, ahead, work.key_channels, work.query, sums);
  if (work.ropes != nullptr) {
    LinesAhead none_ahead;
    AddDots<Elements, kKeys, kRows>(work.ropes + j, none_ahead,
                                    work.rope_channels, rest, sums);
  }
  const QuadVector factor = hn::Set(kQ, work.factor);
  const Vector none = hn::Zero(kF);
  const auto finish =
      [&](const QuadVector& dots, const QuadVector& offset)
          HWY_ATTR { return hn::Mul(hn::Add(dots, offset), factor); };
  if constexpr (kRows > 1) {
    const QuadVector offset = hn::LoadU(kQ, work.offset);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; ++k) {
      const QuadVector dots = SumsOfLanes(
          sums[k][0], sums[k][1], kRows > 2 ? sums[k][2 % kRows] : none,
          kRows > 3 ? sums[k][3 % kRows] : none);
      hn::StoreU(finish(dots, offset), kQ, work.scores + (j + k) * 4);
    }
  } else {
    const QuadVector offset = hn::Set(kQ, work.offset[0]);
    HWY_UNROLL_ALL
    for (int k = 0; k < kKeys; k += 4) {
      const auto at = [&](int n) HWY_ATTR {
        return k + n < kKeys ? sums[(k + n) % kKeys][0] : none;
      };
      const QuadVector dots = SumsOfLanes(at(0), at(1), at(2), at(3));
      // Of fewer keys it passes their end, where the next ones' go.
      hn::StoreU(finish(dots, offset), kQ, work.scores + j + k);
    }
  }
}

// Keys that are computed at a time, for as many sums as there are registers
// besides keys and a query.
constexpr int KeysOf(int rows) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 || HWY_ARCH_ARM_A64
  return rows == 4 ? 6 : 8;
#else
  return rows == 4 ? 3 : rows == 1 ? 8 : 4;
#endif
}

template <class Elements, int kRows>
HWY_NOINLINE void DotAll(const Dotting& work) {
  constexpr int kKeys = KeysOf(kRows);
  LinesAhead ahead = work.ahead;
  int64_t j = 0;
  for (; j + kKeys <= work.count; j += kKeys) {
    DotKeys<Elements, kKeys, kRows>(work, ahead, j);
  }
  for (; j + 2 <= work.count; j += 2) {
    DotKeys<Elements, 2, kRows>(work, ahead, j);
  }
  if (j < work.count) DotKeys<Elements, 1, kRows>(work, ahead, j);
}

// out += weights * values
struct Adding {
  const std::byte* const* values;
  LinesAhead ahead;  // a row for each value
  int64_t count;
  int64_t vectors;       // of channels
  const float* weights;  // [key, row]
  float* out;            // [vector of channels, row, lane]
};

template <class Elements, int kVectors, int kRows, bool kAhead>
HWY_INLINE void AddVectors(const Adding& work, int64_t vector,
                           LinesAhead& ahead) {
  constexpr int64_t kWidth = kRows == 1 ? 1 : 4;
  float* const out = work.out + vector * kRows * Lanes();
  Vector sums[kVectors][kRows];
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums[v][r] = hn::Load(kF, out + (v * kRows + r) * Lanes());
    }
  }
  const int64_t first = vector * Lanes() * Elements::kBytes;
  const float* HWY_RESTRICT weights = work.weights;
  const auto add = [&](int64_t j) HWY_ATTR {
    const std::byte* const at = work.values[j] + first;
    Vector value[kVectors];
    HWY_UNROLL_ALL
    for (int v = 0; v < kVectors; ++v) {
      value[v] = Elements::Load(at + v * Lanes() * Elements::kBytes);
    }
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const Vector weight = hn::Set(kF, weights[r]);
      HWY_UNROLL_ALL
      for (int v = 0; v < kVectors; ++v) {
        sums[v][r] = hn::MulAdd(value[v], weight, sums[v][r]);
      }
    }
    weights += kWidth;
  };
  int64_t j = 0;
  if constexpr (kAhead) {
    // As many lines as are read.
    constexpr int64_t kReadBytes = kVectors * Lanes() * Elements::kBytes;
    constexpr int64_t kLines = std::max<int64_t>(kReadBytes / kLineBytes, 1);
    constexpr int64_t kKeys = std::max<int64_t>(kLineBytes / kReadBytes, 1);
    for (; j + kKeys <= work.count; j += kKeys) {
      for (int64_t n = 0; n < kLines; ++n) ahead.Next();
      HWY_UNROLL_ALL
      for (int k = 0; k < kKeys; ++k) add(j + k);
    }
  }
  for (; j < work.count; ++j) add(j);
  HWY_UNROLL_ALL
  for (int v = 0; v < kVectors; ++v) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[v][r], kF, out + (v * kRows + r) * Lanes());
    }
  }
}

constexpr int VectorsOf(int rows) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 || HWY_ARCH_ARM_A64
  return rows == 4 ? 4 : 8;
#else
  return rows == 1 ? 8 : rows == 2 ? 4 : 2;
#endif
}

template <class Elements, int kRows>
HWY_NOINLINE void AddAll(const Adding& work) {
  constexpr int kVectors = VectorsOf(kRows);
  int64_t v = 0;
  LinesAhead ahead = work.ahead;
  const bool asks = ahead.row != nullptr;
  for (; v + kVectors <= work.vectors; v += kVectors) {
    if (asks) {
      AddVectors<Elements, kVectors, kRows, true>(work, v, ahead);
    } else {
      AddVectors<Elements, kVectors, kRows, false>(work, v, ahead);
    }
  }
  for (; v < work.vectors; ++v) {
    AddVectors<Elements, 1, kRows, false>(work, v, ahead);
  }
}

// Whether values are read line by line, so that no line is met twice.
template <class Elements>
constexpr bool ReadsLinesOnce(int rows) {
  return VectorsOf(rows) * Lanes() * Elements::kBytes >= kLineBytes;
}

// Both products by the number of rows, less one.
struct Products {
  void (*dot[4])(const Dotting& work);
  void (*add[4])(const Adding& work);
  bool reads_lines_once[4];  // no value is met twice
};

template <class Elements>
inline constexpr Products kProducts = {
    {DotAll<Elements, 1>, DotAll<Elements, 2>, DotAll<Elements, 3>,
     DotAll<Elements, 4>},
    {AddAll<Elements, 1>, AddAll<Elements, 2>, AddAll<Elements, 3>,
     AddAll<Elements, 4>},
    {ReadsLinesOnce<Elements>(1), ReadsLinesOnce<Elements>(2),
     ReadsLinesOnce<Elements>(3), ReadsLinesOnce<Elements>(4)}};

// Null for types that are converted beforehand.
inline const Products* ProductsOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return &kProducts<F32Elements>;
    case DType::kF16:
      return &kProducts<F16Elements>;
    case DType::kBf16:
      return &kProducts<Bf16Elements>;
    case DType::kI8:
      return &kProducts<I8Elements>;
    default:
      return nullptr;
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_QUARTET_INL_H_
