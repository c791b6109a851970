// SPDX-License-Identifier: Apache-2.0
// The one rule by which scores and dp become P and dS, once the max and the sum
// of every row are known:
//   p = exp(s - max) / sum      ds = p (dp - delta)
//
// Query rows lie in the lanes of a panel, so every statistic of a row is one
// lane of a vector and nothing is summed across lanes. Scores and dp are
// [key, lane] and become P and dS where they are; a pass goes over the keys,
// two at a time, and sums p dp, the gradient that a sink needs. Panels whose
// statistics or scores leave the range of that pass go element by element.

#include <cmath>
#include <cstdint>

#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_SOFTMAX_BACKWARD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_SOFTMAX_BACKWARD_INL_H_
#undef FLASHACL_CPU_TILE_SOFTMAX_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_TILE_SOFTMAX_BACKWARD_INL_H_
#endif

#include "cpu/tile/mask-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Of the rows of a panel; Width() floats each.
struct RowStatistics {
  const float* max;
  const float* inv_sum;  // 1 / sum; 0: the row has seen nothing
  const float* delta;    // sum over channels of grad out times out
};

HWY_INLINE Vector Ds(const Vector& p, const Vector& dp, const Vector& delta) {
  return hn::Mul(p, hn::Sub(dp, delta));
}

// Scores become P, dp becomes dS, for `count` keys; `sum_p_dp` is Width()
// floats.
HWY_INLINE void ProbsAndDs(float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT grads, int64_t count,
                           const RowStatistics& rows, float* sum_p_dp) {
  const PanelPair max = PanelPair::Load(rows.max);
  const PanelPair inv_sum = PanelPair::Load(rows.inv_sum);
  const PanelPair delta = PanelPair::Load(rows.delta);
  PanelPair sum = PanelPair::Load(sum_p_dp);
  ForKeys(count, [&](int64_t first, auto keys) HWY_ATTR {
    constexpr int kKeys = keys();
    float* const at = scores + first * Width();
    float* const grad = grads + first * Width();
    Vector e[2 * kKeys];
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      const PanelPair s = PanelPair::Load(at + j * Width());
      e[2 * j] = hn::Sub(s.low, max.low);
      e[2 * j + 1] = hn::Sub(s.high, max.high);
    }
    ExpAll(e);
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      const PanelPair p{hn::Mul(e[2 * j], inv_sum.low),
                        hn::Mul(e[2 * j + 1], inv_sum.high)};
      p.Store(at + j * Width());
      const PanelPair dp = PanelPair::Load(grad + j * Width());
      sum.low = hn::MulAdd(p.low, dp.low, sum.low);
      sum.high = hn::MulAdd(p.high, dp.high, sum.high);
      PanelPair{Ds(p.low, dp.low, delta.low), Ds(p.high, dp.high, delta.high)}
          .Store(grad + j * Width());
    }
  });
  sum.Store(sum_p_dp);
}

// Whether no score is so far above its row's max that its exponential
// overflows; false if that cannot be told.
HWY_INLINE bool ExpIsFinite(const PanelPair& block_max, const float* max) {
  const PanelPair from = PanelPair::Load(max);
  const Vector most = hn::Set(kF, 80.0f);
  return hn::AllTrue(kF, hn::Le(hn::Sub(block_max.low, from.low), most)) &&
         hn::AllTrue(kF, hn::Le(hn::Sub(block_max.high, from.high), most));
}

// Scores and dp of a panel for `count` keys; `visible` has the bits of
// mask-inl.h, or is null where rows see all keys.
struct BlockOfScores {
  float* scores;
  float* grads;
  int64_t count;
  const uint32_t* visible;
};

// The same for a panel where some max or sum is no number to use, or
// ExpIsFinite is false: element by element. There are `count` rows.
inline void ProbsAndDsByDefinition(const BlockOfScores& block,
                                   const QueryRow* query_rows, int64_t count,
                                   const RowStatistics& rows, float* sum_p_dp) {
  for (int64_t r = 0; r < count; ++r) {
    const float sum = *query_rows[r].sum;
    for (int64_t j = 0; j < block.count; ++j) {
      float& s = block.scores[j * Width() + r];
      float& dp = block.grads[j * Width() + r];
      const bool seen =
          block.visible == nullptr ||
          ((block.visible[j / 32 * Width() + r] >> (j % 32)) & 1u) != 0;
      s = seen && sum != 0 ? std::exp(s - rows.max[r]) / sum : 0.0f;
      if (seen) sum_p_dp[r] += s * dp;
      dp = seen ? s * (dp - rows.delta[r]) : 0.0f;
    }
  }
}

// What dropout leaves: x * factor where the bit is set, x * 0 where it is not.
inline void DropScaled(float* HWY_RESTRICT values,
                       const uint32_t* HWY_RESTRICT kept, int64_t count,
                       float factor) {
  const Vector scale = hn::Set(kF, factor);
  const Vector none = hn::Zero(kF);
  ForBits(values, kept, count,
          [&](float* at, const Vector& low, const Vector& high) HWY_ATTR {
            PanelPair p = PanelPair::Load(at);
            p.low = hn::Mul(p.low, hn::IfNegativeThenElse(low, scale, none));
            p.high = hn::Mul(p.high, hn::IfNegativeThenElse(high, scale, none));
            p.Store(at);
          });
}

// -0 becomes 0, so that it can stand for something else.
inline void WithoutMinusZeros(float* HWY_RESTRICT values, int64_t count) {
  const Vector zero = hn::Zero(kF);
  for (int64_t n = 0; n < count * Width(); n += Lanes()) {
    hn::Store(hn::Add(hn::Load(kF, values + n), zero), kF, values + n);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_SOFTMAX_BACKWARD_INL_H_
