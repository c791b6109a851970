// SPDX-License-Identifier: Apache-2.0
// The blocks of arithmetic of topk_backward-inl.h: in registers, a few rows
// times a panel of two vectors (tile/matmul-inl.h), in the order of a position:
//
// GradScores   p and ds of a panel, from s and dp
// AddToKeys    dk and dv: p and ds of keys times a panel of channels, summed
//              over the heads, then added to each key's sums

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_backward_kernel.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/softmax_backward-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// exp(t) for any t: +inf above what fits, 0 below -87. Row max and row sum are
// the caller's, so scores may pass their max by far.
HWY_INLINE Vector ExpOfAny(const Vector& t) {
  // The square of exp(t / 2) where exp itself has no power of two in fp32; a
  // NaN is not greater, and passes.
  const Vector most = hn::Set(kF, 88.0f);
  const auto large = hn::Gt(t, most);
  const Vector half = hn::Min(hn::Mul(t, hn::Set(kF, 0.5f)), most);
  const Vector e = Exp(hn::IfThenElse(large, half, t));
  return hn::IfThenElse(large, hn::Mul(e, e), e);
}

// Where p and ds of a panel are saved, a row per key.
struct SavedPanel {
  float* probs;  // null: nobody needs them
  float* grad_scores;
  int64_t stride;
  int64_t lanes;  // that there is room for: all of the panel's, or one vector
};

// For one panel and `count` keys, with s = scale * products and dp in `ds`:
//   p = exp(s - max) / sum,  ds = scale * p * (dp - delta)
//
// ProbsAndDs has the same rule in another loop. There sums of dq and dk are
// scaled when they are complete; here sums of keys that are values hold p do,
// too, so ds takes in the scale. There scores that pass their max by far are
// computed again by the definition, as hidden keys make necessary; here all
// keys are seen, and ExpOfAny is enough.
inline void GradScores(const RowStatistics& rows, float factor, int64_t count,
                       const SavedPanel& saved,
                       const float* HWY_RESTRICT products,
                       float* HWY_RESTRICT ds) {
  const Vector scale = hn::Set(kF, factor);
  for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
    const Vector max = hn::LoadU(kF, rows.max + half);
    const Vector inv_sum = hn::LoadU(kF, rows.inv_sum + half);
    const Vector delta = hn::LoadU(kF, rows.delta + half);
    // Not -0, which is that of an infinite sum.
    const auto unseen =
        hn::RebindMask(kF, hn::Eq(hn::BitCast(kW, inv_sum), hn::Zero(kW)));
    for (int64_t j = 0; j < count; ++j) {
      const Vector s = hn::Load(kF, products + j * Width() + half);
      const Vector e = ExpOfAny(hn::Sub(hn::Mul(s, scale), max));
      const Vector p = hn::IfThenZeroElse(unseen, hn::Mul(e, inv_sum));
      float* const at = ds + j * Width() + half;
      const Vector dp = hn::Load(kF, at);
      const Vector scaled = hn::Mul(Ds(p, dp, delta), scale);
      hn::Store(scaled, kF, at);
      if (saved.probs == nullptr || half >= saved.lanes) continue;
      hn::Store(p, kF, saved.probs + j * saved.stride + half);
      hn::Store(scaled, kF, saved.grad_scores + j * saved.stride + half);
    }
  }
}

// Rows of sums that kRows columns add to; columns past the last repeat it.
template <int kRows>
struct SumRows {
  float* at[kRows];
  int64_t count;

  HWY_INLINE SumRows(const DkvArgs& args, int64_t first)
      : count(std::min<int64_t>(kRows, args.count - first)) {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      const int64_t column = first + std::min<int64_t>(r, count - 1);
      at[r] = args.sums + args.columns[column] * args.sum_stride;
    }
  }

  // Rows are anywhere: prefetched now, they are there when sums are added.
  HWY_INLINE void Prefetch(int64_t channel) const {
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      for (int64_t n = 0; n < Width(); n += kLineFloats) {
        __builtin_prefetch(at[r] + channel + n, 1, 3);
      }
    }
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

// Prefetches spans into the second cache, line by line and evenly.
class SpanPrefetcher {
 public:
  // Issue() will be called about `times` times.
  SpanPrefetcher(const PrefetchSpans& spans, int64_t times)
      : next_(spans.spans), last_(spans.spans + spans.count) {
    int64_t lines = 0;
    for (const PrefetchSpans::Span* one = next_; one != last_; ++one) {
      lines += one->lines;
    }
    at_once_ = CeilDiv(lines, std::max<int64_t>(times, 1));
  }

  HWY_INLINE void Issue() {
    for (int64_t n = 0; n < at_once_; ++n) {
      if (lines_ == 0) {
        if (next_ == last_) return;
        at_ = next_->at;
        lines_ = next_->lines;
        ++next_;
      }
      __builtin_prefetch(at_, 0, 2);
      at_ += kLineFloats;
      --lines_;
    }
  }

 private:
  const PrefetchSpans::Span* next_;
  const PrefetchSpans::Span* last_;
  const float* at_ = nullptr;
  int64_t lines_ = 0;  // of this span, still to prefetch
  int64_t at_once_ = 0;
};

// Heads between which lines are prefetched: a line of a key's probs.
inline constexpr int64_t kHeadsAtOnce = 16;

// The channels of a block as pairs: numbers n and n + Lanes() are a word.
struct PairsOfPanel {
  static constexpr ptrdiff_t Stride() { return Lanes(); }

  template <int kHalves>
  static HWY_INLINE void Load(const float* HWY_RESTRICT at, Vector& low,
                              Vector& high) {
    static_assert(kHalves == 2);
    const Vector words = hn::Load(kF, at);
    low = UpperOfPairs(words);
    high = LowerOfPairs(words);
  }
};

// sums[r] += sum over the heads of rows[r] * panel, in one chain.
template <class Panel, int kRows>
HWY_INLINE void AddHeads(const float* HWY_RESTRICT rows, int64_t stride,
                         const float* HWY_RESTRICT panel, int64_t heads,
                         Sums<kRows>& sums, SpanPrefetcher& prefetch) {
  for (int64_t first = 0; first < heads; first += kHeadsAtOnce) {
    AddChain<OfFloats, Panel>(rows + first, stride,
                              panel + first * Panel::Stride(),
                              std::min(kHeadsAtOnce, heads - first), sums);
    prefetch.Issue();
  }
}

// What kRows columns from `first` on get, for `blocks` of a d block's channels.
template <int kRows, class Panel>
HWY_NOINLINE void AddToKeys(const DkvArgs& args, int64_t first, Range blocks,
                            SpanPrefetcher& prefetch) {
  const int64_t block_words = args.heads * Panel::Stride();
  const float* const grad_scores = args.grad_scores + first * args.head_stride;
  const float* const probs = args.probs + first * args.head_stride;
  const SumRows<kRows> to(args, first);
  for (int64_t n = blocks.first; n < blocks.last; ++n) {
    const int64_t channel = n * Width();
    to.Prefetch(channel);
    const int64_t values = args.value_channels - channel;
    Sums<kRows> sums;
    sums.Clear();
    // Keys have ropes after their values, where probs must not meet the zeros
    // of grad_out: inf * 0 is NaN. So values come first, and what passes them
    // is dropped before the rest is added.
    if (values > 0) {
      AddHeads<Panel>(probs, args.head_stride, args.grad_out + n * block_words,
                      args.heads, sums, prefetch);
      if (values < Width()) CutChannels(values, sums);
    }
    if (args.query != nullptr) {
      AddHeads<Panel>(grad_scores, args.head_stride,
                      args.query + n * block_words, args.heads, sums, prefetch);
    }
    to.Add(sums, channel);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_GRAD_INL_H_
