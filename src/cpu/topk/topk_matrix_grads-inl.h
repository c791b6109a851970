// SPDX-License-Identifier: Apache-2.0
// dk and dv of listed keys on matrix registers.
//
// What a position saves is cut into head blocks of 32 heads. Where no term of
// it might be lost, the 32 floats of p, or of ds, of a key and a head block
// become as many words where they are: 16 of first terms, then 16 of what these
// leave, each of heads n and n + 16. Queries and gradients of outputs are saved
// as words of the same two heads, too. Other head blocks stay floats and are
// added by multiply-adds.

#include <algorithm>
#include <cstdint>

#include "cpu/sizes.h"
#include "cpu/topk/topk_backward_kernel.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_MATRIX_GRADS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_MATRIX_GRADS_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_MATRIX_GRADS_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_MATRIX_GRADS_INL_H_
#endif

#include "cpu/tile/head_terms-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/topk/topk_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The queries and gradients of outputs of a position, once all heads are saved,
// as words: [block of channels, head block, pair of heads, channel].
inline void PairSavedRows(const SavedPds& saved, const ScoreParams& params,
                          int64_t heads) {
  const auto pair = [&](const float* rows, int64_t channels, float* words,
                        int64_t head, RangeOfFloats& range) HWY_ATTR {
    const int64_t head_blocks = CeilDiv(heads, kHeadBlock);
    const int64_t count = std::min(heads - head, kHeadBlock);
    for (int64_t n = 0; n < CeilDiv(channels, int64_t{Width()}); ++n) {
      PairHeads(rows + (n * heads + head) * Width(), count,
                words + (n * head_blocks * kHeadPairs + head / 2) * Width(),
                range);
    }
  };
  for (int64_t head = 0; head < heads; head += kHeadBlock) {
    RangeOfFloats query, grad_out;
    pair(saved.query, params.score_dim(), saved.query_pairs, head, query);
    pair(saved.grad_out, params.v_dim, saved.grad_out_pairs, head, grad_out);
    saved.rows_fit[head / kHeadBlock] =
        query.AreNormal() && grad_out.AreNormal() &&
        query.Reaches(kSmallFactor) && grad_out.Reaches(kSmallGrad);
  }
}

// The p and ds of the keys `listed` and the head block that begins with `head`,
// which are all there, become words where no term is subnormal, infinite or so
// small that products vanish; says whether they did.
HWY_NOINLINE inline bool PackHeadBlock(const SavedPds& saved, Range listed,
                                       int64_t head, int64_t heads,
                                       int64_t head_stride) {
  const int64_t count = std::min(heads - head, kHeadBlock);
  const auto terms_of = [&](float* from, int64_t j) {
    return HeadTerms{from + j * head_stride + head, count};
  };
  RangeOfFloats probs, grads;
  for (int64_t j = listed.first; j < listed.last; ++j) {
    terms_of(saved.probs, j).Check(probs);
    terms_of(saved.grad_scores, j).Check(grads);
  }
  const bool fit = saved.rows_fit[head / kHeadBlock] != 0 &&
                   probs.AreNormal() && grads.AreNormal() &&
                   grads.EachLaneReaches(kSmallGrad);
  for (int64_t j = listed.first; fit && j < listed.last; ++j) {
    terms_of(saved.probs, j).Pack();
    terms_of(saved.grad_scores, j).Pack();
  }
  return fit;
}

// Up to 32 columns of one step, and what they get, block of channels by block
// of channels.
class KeyGradRows {
 public:
  static constexpr int64_t kKeys = 2 * kMatrixRows;

  // `count` columns from `first` on, all of one step.
  KeyGradRows(const DkvArgs& args, int64_t first, int64_t count)
      : args_(args),
        first_(first),
        count_(count),
        is_words_(args.is_words + (args.first + first) / args.step_keys *
                                      CeilDiv(args.heads, kHeadBlock)) {}

  void Add(int64_t block) {
    Prefetch(block);
    fresh_ = true;
    const int64_t values = args_.value_channels - block * Width();
    if (values > 0) {
      AddProducts(args_.probs, args_.grad_out, args_.grad_out_pairs, block,
                  values);
    }
    if (args_.query != nullptr) {
      AddProducts(args_.grad_scores, args_.query, args_.query_pairs, block,
                  Width());
    }
    for (int64_t r = 0; r < count_; ++r) {
      float* const to = Row(r) + block * Width();
      for (ptrdiff_t lane = 0; lane < Width(); lane += Lanes()) {
        const Vector sum = hn::Load(kF, sums_ + r * Width() + lane);
        hn::Store(hn::Add(hn::Load(kF, to + lane), sum), kF, to + lane);
      }
    }
  }

 private:
  HWY_INLINE float* Row(int64_t r) const {
    return args_.sums + args_.columns[first_ + r] * args_.sum_stride;
  }

  void Prefetch(int64_t block) const {
    for (int64_t r = 0; r < count_; ++r) {
      const float* const row = Row(r) + block * Width();
      for (ptrdiff_t lane = 0; lane < Width(); lane += kLineFloats) {
        __builtin_prefetch(row + lane, 1, 3);
      }
    }
  }

  // sums += p or ds times rows, head block by head block; those that are words
  // go together where they are neighbours. Of floats, channels from `channels`
  // on are dropped.
  void AddProducts(const float* saved, const float* rows, const float* pairs,
                   int64_t block, int64_t channels) {
    const int64_t head_blocks = CeilDiv(args_.heads, kHeadBlock);
    const float* const at = saved + first_ * args_.head_stride;
    int64_t n = 0;
    while (n < head_blocks) {
      int64_t last = n;
      while (last < head_blocks && is_words_[last] != 0) ++last;
      if (last > n) {
        const float* const panel =
            pairs + (block * head_blocks + n) * kHeadPairs * Width();
        Matrices registers;
        PrefetchQueue nothing;
        AddPanelProducts<true>(
            {at + n * kHeadBlock, args_.head_stride, 2, kHeadPairs, kHeadBlock},
            count_, {panel, Width()}, last - n, fresh_, sums_, registers,
            nothing);
        fresh_ = false;
        n = last;
        continue;
      }
      AddFloats(at + n * kHeadBlock,
                rows + (block * args_.heads + n * kHeadBlock) * Width(),
                std::min(args_.heads - n * kHeadBlock, kHeadBlock), channels);
      ++n;
    }
  }

  HWY_NOINLINE void AddFloats(const float* saved, const float* rows,
                              int64_t heads, int64_t channels) {
    if (fresh_) std::fill_n(sums_, kKeys * Width(), 0.0f);
    fresh_ = false;
    ForBlocks(count_, [&](int64_t j, auto size) HWY_ATTR {
      Sums<size()> added;
      added.Clear();
      AddRows(saved + j * args_.head_stride, args_.head_stride, rows, heads,
              added);
      if (channels < Width()) CutChannels(channels, added);
      float* const to = sums_ + j * Width();
      for (int r = 0; r < size() && j + r < count_; ++r) {
        for (ptrdiff_t half = 0; half < 2; ++half) {
          float* const at = to + r * Width() + half * Lanes();
          hn::Store(hn::Add(hn::Load(kF, at), added.at[r][half]), kF, at);
        }
      }
    });
  }

  const DkvArgs& args_;
  const int64_t first_, count_;
  const int64_t* const is_words_;  // [head block], of this step
  bool fresh_ = true;              // nothing is in the sums yet
  HWY_ALIGN float sums_[kKeys * Width()];
};

inline void AddKeyGradientsByMatrices(const DkvArgs& args) {
  const int64_t blocks = CeilDiv(args.channels, int64_t{Width()});
  SpanPrefetcher prefetch(args.prefetch,
                          CeilDiv(args.count, KeyGradRows::kKeys) * blocks);
  Matrices::Configure();
  for (int64_t first = 0; first < args.count;) {
    const int64_t at = args.first + first;
    const int64_t step_end = (at / args.step_keys + 1) * args.step_keys;
    const int64_t count =
        std::min({KeyGradRows::kKeys, args.count - first, step_end - at});
    KeyGradRows some(args, first, count);
    for (int64_t n = 0; n < blocks; ++n) {
      prefetch.Issue();
      some.Add(n);
    }
    first += count;
  }
  Matrices::Release();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_MATRIX_GRADS_INL_H_
