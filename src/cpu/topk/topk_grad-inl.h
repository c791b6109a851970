// SPDX-License-Identifier: Apache-2.0
// The products of the gradients over listed keys, and the exponential
// between.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_backward_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/softmax_backward-inl.h"
#include "cpu/tile/store-inl.h"
#include "cpu/tile/vector-inl.h"
#include "cpu/topk/gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Rows of floats, `stride` apart. Blocks may read some rows behind the last.
struct FloatRows {
  const float* first;
  int64_t stride;
  int64_t count;
};

template <int kRows>
HWY_NOINLINE void RowProductBlock(const float* HWY_RESTRICT rows,
                                  int64_t stride,
                                  const float* HWY_RESTRICT panel, Range depth,
                                  float* HWY_RESTRICT products) {
  Sums<kRows> sums;
  if (depth.first == 0) {
    sums.Clear();
  } else {
    sums.Load(products);
  }
  AddRows(rows + depth.first, stride, panel + depth.first * Width(),
          depth.size(), sums);
  sums.Store(products);
}

// products[row, lane] = sum over channels of row * panel, also without any.
// Asks for some of the next step's keys with every block.
inline void RowProducts(const FloatRows& rows, const float* panel,
                        int64_t channels, float* products,
                        PrefetchQueue& prefetch) {
  for (int64_t d = 0; d == 0 || d < channels; d += kDepth) {
    const Range depth{d, std::min(d + kDepth, channels)};
    ForBlocks(rows.count, [&](int64_t j, auto size) HWY_ATTR {
      prefetch.Issue();
      RowProductBlock<size()>(rows.first + j * rows.stride, rows.stride, panel,
                              depth, products + j * Width());
    });
  }
}

// exp(t) for any t: beyond what fits it is +inf, and 0 below -87. Statistics
// are the caller's, so scores may pass their max by far.
HWY_INLINE Vector ExpOfAny(const Vector& t) {
  // The square of exp(t / 2) where exp itself has no power of two in fp32; a
  // NaN is not greater, and passes.
  const Vector most = hn::Set(kF, 88.0f);
  const auto large = hn::Gt(t, most);
  const Vector half = hn::Min(hn::Mul(t, hn::Set(kF, 0.5f)), most);
  const Vector e = Exp(hn::IfThenElse(large, half, t));
  return hn::IfThenElse(large, hn::Mul(e, e), e);
}

// Rows that GradScores writes, one per key: null if nobody asks.
struct GradRows {
  float* probs;
  float* grad_scores;
  int64_t stride;
  int64_t lanes;  // of the panel that there is room for: all, or one vector
};

// For one panel and `count` keys, with s = scale * products:
//   p = exp(s - max) / sum,  grads = scale * p * (grads - delta)
inline void GradScores(const RowStatistics& rows, float factor, int64_t count,
                       const GradRows& to, const float* HWY_RESTRICT products,
                       float* HWY_RESTRICT grads) {
  const Vector scale = hn::Set(kF, factor);
  for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
    const Vector max = hn::LoadU(kF, rows.max + half);
    const Vector inv_sum = hn::LoadU(kF, rows.inv_sum + half);
    const Vector delta = hn::LoadU(kF, rows.delta + half);
    const auto unseen = hn::Eq(inv_sum, hn::Zero(kF));
    for (int64_t j = 0; j < count; ++j) {
      const Vector s = hn::Load(kF, products + j * Width() + half);
      const Vector e = ExpOfAny(hn::Sub(hn::Mul(s, scale), max));
      const Vector p = hn::IfThenZeroElse(unseen, hn::Mul(e, inv_sum));
      float* const grad = grads + j * Width() + half;
      const Vector ds = hn::Mul(Ds(p, hn::Load(kF, grad), delta), scale);
      hn::Store(ds, kF, grad);
      if (to.probs == nullptr || half >= to.lanes) continue;
      hn::Store(p, kF, to.probs + j * to.stride + half);
      hn::Store(ds, kF, to.grad_scores + j * to.stride + half);
    }
  }
}

// grad_query += grads * keys for a block of channels.
template <int kRows>
HWY_NOINLINE void AddToQuery(const float* HWY_RESTRICT keys, int64_t stride,
                             const float* HWY_RESTRICT grads, int64_t count,
                             float* HWY_RESTRICT grad_query) {
  Sums<kRows> sums;
  sums.Load(grad_query);
  AddColumnsApart(keys, stride, grads, count, sums);
  sums.Store(grad_query);
}

// Rows of sums that some columns add to; columns behind the last repeat it.
template <int kRows>
struct SumRows {
  float* at[kRows];
  int64_t count;

  HWY_INLINE SumRows(const DkvArgs& item, int64_t first)
      : count(std::min<int64_t>(kRows, item.count - first)) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const int64_t column = first + std::min<int64_t>(r, count - 1);
      at[r] = item.sums + item.columns[column] * item.sum_stride;
    }
  }

  // Rows are anywhere: asked for now, they are there when the sums are.
  HWY_INLINE void Expect(int64_t channel) const {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(at[r] + channel, 1, 3);
  }

  HWY_INLINE void Add(const Sums<kRows>& sums, int64_t channel) const {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) return;
      float* const to = at[r] + channel;
      hn::Store(hn::Add(hn::Load(kF, to), sums.at[r][0]), kF, to);
      hn::Store(hn::Add(hn::Load(kF, to + Lanes()), sums.at[r][1]), kF,
                to + Lanes());
    }
  }
};

// Channels from `channels` on become 0.
template <int kRows>
HWY_INLINE void CutChannels(int64_t channels, Sums<kRows>& sums) {
  const auto low =
      hn::FirstN(kF, static_cast<size_t>(std::min<int64_t>(channels, Lanes())));
  const auto high = hn::FirstN(
      kF, static_cast<size_t>(std::max<int64_t>(channels - Lanes(), 0)));
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    sums.at[r][0] = hn::IfThenElseZero(low, sums.at[r][0]);
    sums.at[r][1] = hn::IfThenElseZero(high, sums.at[r][1]);
  }
}

// What kRows columns from `first` on get for the blocks of channels `blocks` of
// a d block.
template <int kRows>
HWY_NOINLINE void AddToKeys(const DkvArgs& item, int64_t first, Range blocks) {
  const int64_t block_floats = item.heads * Width();
  const float* const grad_scores = item.grad_scores + first * item.head_stride;
  const float* const probs = item.probs + first * item.head_stride;
  const SumRows<kRows> to(item, first);
  for (int64_t n = blocks.first; n < blocks.last; ++n) {
    const int64_t channel = n * Width();
    to.Expect(channel);
    // Of values that are keys; values of their own have nothing behind.
    const int64_t values = item.value_channels - channel;
    Sums<kRows> sums;
    sums.Clear();
    // Behind the values, weights must not meet the zeros: inf * 0 is NaN. Sums
    // of values come first then, so that the rest of them can be dropped.
    if (values > 0) {
      AddRows(probs, item.head_stride, item.grad_out + n * block_floats,
              item.heads, sums);
      if (values < Width()) CutChannels(values, sums);
    }
    if (item.query != nullptr) {
      AddRows(grad_scores, item.head_stride, item.query + n * block_floats,
              item.heads, sums);
    }
    to.Add(sums, channel);
  }
}

// Floats as elements of a row, rounded once.
inline void StoreVectors(const ElementFormat& format,
                         const float* HWY_RESTRICT from, int64_t count,
                         std::byte* to) {
  int64_t d = 0;
  if (format.step == 1) {
    for (; d + Lanes() <= count; d += Lanes()) {
      const Vector value = hn::LoadU(kF, from + d);
      if (format.dtype == DType::kF32) {
        hn::StoreU(value, kF, reinterpret_cast<float*>(to) + d);
      } else if (format.dtype == DType::kBf16) {
        StoreBf16(kF, value, reinterpret_cast<uint16_t*>(to) + d);
      } else if (format.dtype == DType::kF16) {
        StoreF16(kF, value, reinterpret_cast<uint16_t*>(to) + d);
      } else {
        break;
      }
    }
  }
  const int64_t bytes = format.step * format.element_bytes;
  StoreRow(format, from + d, count - d, to + d * bytes);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
