// SPDX-License-Identifier: Apache-2.0
// Rows of fp16 as two terms of bf16, whose sum is the number: its upper 8 bits,
// and the rest. All products of terms are exact in fp32, and none is subnormal.
//
// Of every 32 channels, number n and n + 16 are one word, the first in its
// lower half; words of all first terms come first, [term, word]. So vectors of
// floats become words without a shuffle.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_TERMS_INL_H_
#undef FLASHACL_CPU_TILE_TERMS_INL_H_
#else
#define FLASHACL_CPU_TILE_TERMS_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kTermChannels = 32;  // that share 16 words

// What the upper bits leave of a number; of infinity nothing, of a NaN a NaN.
HWY_INLINE Vector RestOf(const Vector& x, const Vector& upper) {
  const Vector infinity = hn::Set(kF, std::numeric_limits<float>::infinity());
  return hn::IfThenZeroElse(hn::Eq(hn::Abs(x), infinity), hn::Sub(x, upper));
}

// Whether some number of rows was infinite or a NaN.
class NonFinite {
 public:
  HWY_INLINE NonFinite() : greatest_(hn::Zero(kW)) {}
  HWY_INLINE void Add(const Vector& x) {
    greatest_ = hn::Max(greatest_, hn::BitCast(kW, hn::Abs(x)));
  }
  HWY_INLINE bool any() const {
    return !hn::AllTrue(kW, hn::Lt(greatest_, hn::Set(kW, 0x7F800000)));
  }

 private:
  VectorOf<Words> greatest_;
};

// to[0 .. channels / 2) = words of the first terms of a dense row of fp16, or
// of floats that are numbers of fp16 or bf16; those of the second follow `next`
// after them.
template <DType kType = DType::kF16>
HWY_INLINE void LoadTerms(const std::byte* row, int64_t channels,
                          ptrdiff_t next, float* HWY_RESTRICT to,
                          NonFinite& non_finite) {
  constexpr int64_t kHalf = kTermChannels / 2;
  for (int64_t d = 0; d < channels; d += kTermChannels) {
    for (int64_t n = 0; n < kHalf; n += Lanes()) {
      const Vector first = FloatsAt<kType>(kF, row, d + n);
      const Vector second = FloatsAt<kType>(kF, row, d + kHalf + n);
      non_finite.Add(first);
      non_finite.Add(second);
      const Vector upper = UpperOfPairs(second);
      hn::StoreU(UpperHalves(first, second), kF, to + d / 2 + n);
      hn::StoreU(UpperHalves(RestOf(first, UpperOfPairs(first)),
                             RestOf(second, upper)),
                 kF, to + next + d / 2 + n);
    }
  }
}

// The same of floats, dense terms.
HWY_INLINE void LoadTermsOfFloats(const float* row, int64_t channels,
                                  float* HWY_RESTRICT to,
                                  NonFinite& non_finite) {
  LoadTerms<DType::kF32>(reinterpret_cast<const std::byte*>(row), channels,
                         channels / 2, to, non_finite);
}

// The queries of the panel that begins with row `first`, as two terms; lanes
// without a row get the last row's.
inline void LoadQueryTerms(const ScoreTile& tile, int64_t first, float* panel) {
  const ScoreParams& params = *tile.params;
  const ScoreScratch& scratch = tile.scratch;
  const int64_t channels = params.score_dim();
  const int64_t stride = scratch.staging_stride;
  NonFinite non_finite;
  for (int64_t lane = 0; lane < Width(); lane += 4) {
    for (int64_t r = 0; r < 4; ++r) {
      const QueryRow& row =
          scratch.query_rows[std::min(first + lane + r, tile.rows - 1)];
      float* const to = scratch.staging + r * stride;
      LoadTerms(row.query, params.qk_dim, channels / 2, to, non_finite);
      LoadTerms(row.query_rope, params.rope_dim, channels / 2,
                to + params.qk_dim / 2, non_finite);
    }
    RowsToPanel({scratch.staging, stride}, channels, panel + lane);
  }
  scratch.query_rows[first].subnormal_panel = non_finite.any();
}

// The two numbers of a word of terms.
struct TwoNumbers {
  Vector lower, upper;

  static HWY_INLINE TwoNumbers Of(const Vector& first, const Vector& second) {
    return {hn::Add(LowerOfPairs(first), LowerOfPairs(second)),
            hn::Add(UpperOfPairs(first), UpperOfPairs(second))};
  }
};

// products[key, lane] of rows and a panel, of any numbers.
HWY_NOINLINE inline void ProductsOfTerms(const ChannelRows& keys, int64_t count,
                                         const float* panel, int64_t channels,
                                         float* HWY_RESTRICT products) {
  const int64_t words = channels / 2;
  for (int64_t j = 0; j < count; ++j) {
    const float* const key = keys.at + j * keys.stride;
    for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
      Vector sum = hn::Zero(kF);
      for (int64_t k = 0; k < words; ++k) {
        const float* const at = panel + k * Width() + half;
        const auto x =
            TwoNumbers::Of(hn::Set(kF, key[k]), hn::Set(kF, key[words + k]));
        const auto y = TwoNumbers::Of(hn::Load(kF, at),
                                      hn::Load(kF, at + words * Width()));
        sum = hn::MulAdd(x.upper, y.upper, hn::MulAdd(x.lower, y.lower, sum));
      }
      hn::Store(sum, kF, products + j * Width() + half);
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_TERMS_INL_H_
