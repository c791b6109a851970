// SPDX-License-Identifier: Apache-2.0
// Weights of a panel whose row max and row sum are known, and the gradients of
// its scores:
//   p = exp(s - max) / sum      ds = p (dp - delta)

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_BACKWARD_SOFTMAX_BACKWARD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_SOFTMAX_BACKWARD_INL_H_
#undef FLASHACL_CPU_BACKWARD_SOFTMAX_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_SOFTMAX_BACKWARD_INL_H_
#endif

#include "cpu/tile/mask-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// What is known of the rows of a panel; Width() floats each.
struct RowFacts {
  const float* max;
  const float* inv_sum;  // of the sum
  const float* delta;
  float* sum_p_dp;  // sum of p dp so far
};

// Scores and dp of a panel, [key, lane], for `count` keys. `visible` has the
// bits of mask-inl.h, or is null where rows see all keys.
struct BlockOfScores {
  float* scores;
  float* grads;
  int64_t count;
  const uint32_t* visible;
};

// Scores become weights, dp becomes ds, for `count` keys.
HWY_INLINE void ProbsAndDs(float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT grads, int64_t count,
                           const RowFacts& rows) {
  const PanelPair max = PanelPair::Load(rows.max);
  const PanelPair inv_sum = PanelPair::Load(rows.inv_sum);
  const PanelPair delta = PanelPair::Load(rows.delta);
  PanelPair sum_p_dp = PanelPair::Load(rows.sum_p_dp);
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
      sum_p_dp.low = hn::MulAdd(p.low, dp.low, sum_p_dp.low);
      sum_p_dp.high = hn::MulAdd(p.high, dp.high, sum_p_dp.high);
      PanelPair{hn::Mul(p.low, hn::Sub(dp.low, delta.low)),
                hn::Mul(p.high, hn::Sub(dp.high, delta.high))}
          .Store(grad + j * Width());
    }
  });
  sum_p_dp.Store(rows.sum_p_dp);
}

// The same for a panel where some max or sum is no number to use, or some score
// is far above its max: element by element, by the definition. There are
// `count` rows.
inline void ProbsAndDsByDefinition(const BlockOfScores& block,
                                   const QueryRow* query_rows, int64_t count,
                                   const RowFacts& rows) {
  for (int64_t r = 0; r < count; ++r) {
    const float sum = *query_rows[r].sum;
    for (int64_t j = 0; j < block.count; ++j) {
      float& s = block.scores[j * Width() + r];
      float& dp = block.grads[j * Width() + r];
      const bool seen =
          block.visible == nullptr ||
          ((block.visible[j / 32 * Width() + r] >> (j % 32)) & 1u) != 0;
      s = seen && sum != 0 ? std::exp(s - rows.max[r]) / sum : 0.0f;
      if (seen) rows.sum_p_dp[r] += s * dp;
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

#endif  // FLASHACL_CPU_BACKWARD_SOFTMAX_BACKWARD_INL_H_
