// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows.
//
// Channels lie in lanes. The choice of type is outer, the loop over the vectors
// of a row next, that over rows inner, so that a sum stays in its register;
// what fills no vector goes element by element, as do rows whose elements lie
// apart, which become floats first. Terms are added in their order in either
// case, by the same instruction. A sum begins with -0, to which any number can
// be added without a change: a term of weight 1 alone comes out as it is.

#include <cstddef>
#include <cstdint>

#include "merge/merge_kernel.h"

#if defined(FLASHACL_MERGE_WEIGHTED_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#undef FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#else
#define FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
#endif

#include "cpu/tile/load-inl.h"
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

// Channels [first, last) of the result, to `to`, of which neighbours are done
// together.
template <DType kType>
HWY_INLINE void MergeChannels(const WeightedSum& of, int64_t first,
                              int64_t last, std::byte* HWY_RESTRICT to) {
  int64_t d = first;
  for (; d + vectors::Lanes() <= last; d += vectors::Lanes()) {
    const auto sum = SumAt<kType>(of, d, hn::Set(kF, -0.0f));
    vectors::StoreFloats<kType>(kF, sum, to, d - first);
  }
  for (; d < last; ++d) {
    vectors::StoreElement(kType, SumOne(of, d, -0.0f),
                          to + (d - first) * of.format.element_bytes);
  }
}

inline void MergeRows(const WeightedSum& of, int64_t channels, bool streams,
                      std::byte* to) {
  constexpr int64_t kLine = vectors::kLineBytes;
  const int64_t row_bytes = channels * of.format.element_bytes;
  const bool lines =
      reinterpret_cast<uintptr_t>(to) % kLine == 0 && row_bytes % kLine == 0;
  vectors::WithVectorType(of.format.dtype, [&](auto type) HWY_ATTR {
    if constexpr (type() != DType::kI8) {
      if (!streams || !lines) return MergeChannels<type()>(of, 0, channels, to);
      alignas(kLine) std::byte block[kBlockChannels * sizeof(float)];
      for (int64_t d = 0; d < channels; d += kBlockChannels) {
        const int64_t last = HWY_MIN(d + kBlockChannels, channels);
        MergeChannels<type()>(of, d, last, block);
        vectors::StreamBytes(block, (last - d) * of.format.element_bytes,
                             to + d * of.format.element_bytes);
      }
    }
  });
}

inline void FlushStreams() { hwy::FlushStream(); }

}  // namespace flashacl::merge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_MERGE_WEIGHTED_SUM_INL_H_
