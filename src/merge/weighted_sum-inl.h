// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows.
//
// Channels lie in lanes. The choice of type is outer, once for a chunk of rows,
// the loop over the vectors of a row next, that over terms inner, so that a sum
// stays in its register and goes from there to its place; what fills no vector
// goes element by element, as do rows whose elements lie apart, which become
// floats first. Terms are added in their order in either case, by the same
// instruction. A sum begins with -0, to which any number can be added without a
// change: a term of weight 1 alone comes out as it is.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "merge/merge_kernel.h"

#if defined(FLASHACL_MERGE_WEIGHTED_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#undef FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#else
#define FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/pair-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/stream-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::merge::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vectors = flashacl::cpu::HWY_NAMESPACE;
using vectors::kF;

HWY_INLINE float AddTerm(float weight, float value, float sum) {
  const hn::CappedTag<float, 1> one;
  return hn::GetLane(
      hn::MulAdd(hn::Set(one, weight), hn::Set(one, value), hn::Set(one, sum)));
}

// The sum of channels from `d` on, and of `sum`.
template <DType kType>
HWY_INLINE vectors::Vector SumAt(const WeightedSum& of, int64_t d,
                                 vectors::Vector sum) {
  for (int n = 0; n < of.count; ++n) {
    const auto row = vectors::FloatsAt<kType>(kF, of.terms[n].row, d);
    sum = hn::MulAdd(hn::Set(kF, of.terms[n].weight), row, sum);
  }
  return sum;
}

// The same of one channel.
HWY_INLINE float SumOne(const WeightedSum& of, int64_t d, float sum) {
  for (int n = 0; n < of.count; ++n) {
    const std::byte* const at = of.terms[n].row + d * of.format.element_bytes;
    sum =
        AddTerm(of.terms[n].weight, vectors::FloatOf(of.format.dtype, at), sum);
  }
  return sum;
}

template <DType kType>
HWY_INLINE int64_t SumVectors(const WeightedSum& of, int64_t channels,
                              float* HWY_RESTRICT sums) {
  int64_t d = 0;
  for (; d + vectors::Lanes() <= channels; d += vectors::Lanes()) {
    const auto sum = of.adds ? hn::Load(kF, sums + d) : hn::Set(kF, -0.0f);
    hn::Store(SumAt<kType>(of, d, sum), kF, sums + d);
  }
  return d;
}

inline void SumApart(const WeightedSum& of, int64_t channels, float* sums) {
  HWY_ALIGN float row[kBlockChannels];
  for (int n = 0; n < of.count; ++n) {
    vectors::LoadRow(of.format, of.terms[n].row, channels, row);
    const bool first = n == 0 && !of.adds;
    for (int64_t d = 0; d < channels; ++d) {
      sums[d] = AddTerm(of.terms[n].weight, row[d], first ? -0.0f : sums[d]);
    }
  }
}

inline void SumRows(const WeightedSum& of, int64_t channels, float* sums) {
  const cpu::ElementFormat& format = of.format;
  if (format.step != 1) return SumApart(of, channels, sums);
  int64_t d = 0;
  vectors::WithVectorType(format.dtype, [&](auto type) HWY_ATTR {
    if constexpr (type() != DType::kI8) {
      d = SumVectors<type()>(of, channels, sums);
    }
  });
  for (; d < channels; ++d) {
    sums[d] = SumOne(of, d, of.adds ? sums[d] : -0.0f);
  }
}

inline void StoreSums(const cpu::ElementFormat& format, const float* sums,
                      int64_t channels, std::byte* to) {
  vectors::StoreRow(format, sums, channels, to);
}

// What a merged row is the sum of.
struct RowTerms {
  const std::byte* rows[kMaxTerms];
  float weights[kMaxTerms];
  int count;
};

// One merged row, of kTerms terms, or of `of.count` if that is 0. Pairs of
// vectors are summed together, what is left goes as in SumRows.
template <DType kType, int kTerms, bool kStreams>
HWY_INLINE void MergeRow(const RowTerms& of, int64_t channels,
                         std::byte* HWY_RESTRICT to) {
  const int count = kTerms == 0 ? of.count : kTerms;
  int64_t d = 0;
  for (; d + 2 * vectors::Lanes() <= channels; d += 2 * vectors::Lanes()) {
    vectors::Pair sum{hn::Set(kF, -0.0f), hn::Set(kF, -0.0f)};
    for (int n = 0; n < count; ++n) {
      const auto weight = hn::Set(kF, of.weights[n]);
      const vectors::Pair row = vectors::LoadPair<kType>(of.rows[n], d);
      sum.first = hn::MulAdd(weight, row.first, sum.first);
      sum.second = hn::MulAdd(weight, row.second, sum.second);
    }
    vectors::StorePair<kType, kStreams>(sum, to, d);
  }
  if (HWY_LIKELY(d == channels)) return;
  Term terms[kMaxTerms];
  for (int n = 0; n < count; ++n) terms[n] = {of.rows[n], of.weights[n]};
  WeightedSum rest;
  rest.format.dtype = kType;
  rest.format.element_bytes = SizeOf(kType);
  rest.terms = terms;
  rest.count = count;
  for (; d + vectors::Lanes() <= channels; d += vectors::Lanes()) {
    const auto sum = SumAt<kType>(rest, d, hn::Set(kF, -0.0f));
    vectors::StoreFloats<kType>(kF, sum, to, d);
  }
  for (; d < channels; ++d) {
    vectors::StoreElement(kType, SumOne(rest, d, -0.0f),
                          to + d * rest.format.element_bytes);
  }
}

// Most rows are of two parts; of parts that saw nothing, of one.
template <DType kType, bool kStreams>
HWY_INLINE void MergeRowOf(const RowTerms& of, int64_t channels,
                           std::byte* to) {
  switch (of.count) {
    case 0:
      std::memset(to, 0, static_cast<size_t>(channels * SizeOf(kType)));
      return;
    case 1:
      return MergeRow<kType, 1, kStreams>(of, channels, to);
    case 2:
      return MergeRow<kType, 2, kStreams>(of, channels, to);
    default:
      return MergeRow<kType, 0, kStreams>(of, channels, to);
  }
}

// Prefetches rows, as hardware does not foresee where those of a part go on
// after those of another, and begins anew in every page.
template <DType kType, bool kStreams>
HWY_NOINLINE void MergeRowsOf(const MergedRows& given) {
  constexpr int64_t kAhead = 8;
  const MergedRows all = given;
  const RowsOfPart* HWY_RESTRICT const parts = all.parts;
  const int64_t row_bytes = all.channels * SizeOf(kType);
  RowTerms of;
  for (int64_t o = 0; o < all.outer; ++o) {
    for (int64_t i = 0; i < all.inner; ++i) {
      of.count = 0;
      for (int n = 0; n < all.count; ++n) {
        const RowsOfPart& part = parts[n];
        const std::byte* const row =
            part.first + o * part.outer_bytes + i * part.inner_bytes;
        for (int64_t b = 0; b < row_bytes; b += vectors::kLineBytes) {
          hwy::Prefetch(row + kAhead * part.inner_bytes + b);
        }
        const float weight = part.weights[o * all.inner + i];
        of.rows[of.count] = row;
        of.weights[of.count] = weight;
        of.count += weight != 0;
      }
      MergeRowOf<kType, kStreams>(
          of, all.channels,
          all.to + o * all.to_outer_bytes + i * all.to_inner_bytes);
    }
  }
}

inline void MergeRows(const MergedRows& rows) {
  constexpr int64_t kLine = vectors::kLineBytes;
  const bool lines = reinterpret_cast<uintptr_t>(rows.to) % kLine == 0 &&
                     rows.to_outer_bytes % kLine == 0 &&
                     rows.to_inner_bytes % kLine == 0;
  vectors::WithVectorType(rows.dtype, [&](auto type) HWY_ATTR {
    if constexpr (type() != DType::kI8) {
      return rows.streams && lines ? MergeRowsOf<type(), true>(rows)
                                   : MergeRowsOf<type(), false>(rows);
    }
  });
}

inline void FlushStreams() { hwy::FlushStream(); }

}  // namespace flashacl::merge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
