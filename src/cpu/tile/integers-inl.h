// SPDX-License-Identifier: Apache-2.0
// Keys and values of 8 or 4 bits on matrix registers: integers, which bf16
// holds exactly, without their scales. Sums of products with integers of 8 bits
// are exact up to 1,024 channels, as they stay below 2^24; beyond that, and
// with other queries, they are rounded as sums of floats are.
//
// Scales wait: those of keys, one or one for each, and those of rows of queries
// meet scores before products of ropes are added; those of values meet outputs
// after the last key, or probs. Where every channel of keys has its own,
// queries take it: a number of them is then a float, which is a sum of three of
// bf16. Words are those of terms-inl.h: of every 32 channels, number n and n +
// 16 share one, the first in its lower half. Ropes are pairs, and follow.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_INTEGERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_INTEGERS_INL_H_
#undef FLASHACL_CPU_TILE_INTEGERS_INL_H_
#else
#define FLASHACL_CPU_TILE_INTEGERS_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/terms-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Sums of integers can wait for scales below that.
inline constexpr float kMaxScale = 0x1p57f;

// Scales and offsets by row of a step's keys or values.
struct StepQuantParams {
  bool any = false;
  float scale[kMaxStepKeys];
  float offset[kMaxStepKeys];

  void Load(const KvRows& rows, const RowSource& source, Range step) {
    any = source.scaled_by_row();
    if (!any) return;
    rows.LoadRowFactors(source.row_scale, step, scale);
    rows.LoadRowFactors(source.row_offset, step, offset);
  }

  // Of integers, from key `j` on; null: none.
  const float* ScalesFrom(int64_t j) const { return any ? scale + j : nullptr; }
  // Of `count` keys.
  bool CanWait(int64_t count) const {
    return All(count, [](float x) { return std::fabs(x) < kMaxScale; });
  }
  bool AllFinite(int64_t count) const {
    return All(count, [](float x) { return std::fabs(x) < 0x1p120f; });
  }
  bool AnyBelow(float least, int64_t count) const {
    return !All(count,
                [&](float x) { return x == 0 || !(std::fabs(x) < least); });
  }

  void Dequantise(int64_t j, int64_t channels, float* row) const {
    if (any) DequantiseRow(scale[j], offset[j], channels, row);
  }

 private:
  template <typename Law>
  bool All(int64_t count, Law law) const {
    return !any || std::all_of(scale, scale + count, law);
  }
};

// to[0 .. channels / 2) = words of a dense row.
template <typename At>
HWY_INLINE void WordsOfIntegers(At at, int64_t channels,
                                float* HWY_RESTRICT to) {
  constexpr int64_t kHalf = kTermChannels / 2;
  for (int64_t d = 0; d < channels; d += kTermChannels) {
    for (int64_t n = 0; n < kHalf; n += Lanes()) {
      hn::StoreU(UpperHalves(at(d + n), at(d + kHalf + n)), kF, to + d / 2 + n);
    }
  }
}

// to[0 .. channels / 2) = words of a row; 0 if it does not exist.
HWY_NOINLINE inline void LoadIntegers(const ElementFormat& format,
                                      const std::byte* from, int64_t channels,
                                      float* HWY_RESTRICT to) {
  if (from == nullptr) {
    std::fill_n(to, channels / 2, 0.0f);
    return;
  }
  const int64_t block =
      format.channel_block == 0 ? channels : format.channel_block;
  const bool bytes = format.dtype == DType::kI8;
  for (int64_t d = 0; d < channels; d += block) {
    const int64_t count = std::min(block, channels - d);
    if (bytes) {
      WordsOfIntegers(
          [&](int64_t n) HWY_ATTR { return FloatsAt<DType::kI8>(kF, from, n); },
          count, to + d / 2);
    } else {
      WordsOfIntegers([&](int64_t n)
                          HWY_ATTR { return FloatsFromFourBits(from + n / 2); },
                      count, to + d / 2);
    }
    from += format.block_bytes;
  }
}

// Whether numbers of queries, and what terms leave of them, can be multiplied:
// none is too small, too large, or no number.
HWY_INLINE bool CanBeTerms(const Vector& x) {
  const Vector size = hn::Abs(x);
  const auto usual = hn::And(hn::Le(hn::Set(kF, 0x1p-100f), size),
                             hn::Lt(size, hn::Set(kF, 0x1p100f)));
  return hn::AllTrue(kF, hn::Or(usual, hn::Eq(size, hn::Zero(kF))));
}

// to[0 .. channels / 2) = words of term number `term` of a row of queries,
// which meets the scales of channels, if any; whether all can be multiplied.
template <DType kType>
HWY_INLINE bool LoadQueryTerm(const std::byte* row, const float* scale,
                              int64_t channels, int term,
                              float* HWY_RESTRICT to) {
  constexpr int64_t kHalf = kTermChannels / 2;
  bool fit = true;
  const auto number = [&](int64_t d) HWY_ATTR {
    Vector x = FloatsAt<kType>(kF, row, d);
    if (scale != nullptr) x = hn::Mul(x, hn::LoadU(kF, scale + d));
    fit = fit && CanBeTerms(x);
    for (int n = 0; n < term; ++n) x = hn::Sub(x, UpperOfPairs(x));
    return x;
  };
  for (int64_t d = 0; d < channels; d += kTermChannels) {
    for (int64_t n = 0; n < kHalf; n += Lanes()) {
      hn::StoreU(UpperHalves(number(d + n), number(d + kHalf + n)), kF,
                 to + d / 2 + n);
    }
  }
  return fit;
}

// The scale of all keys; 1 where queries took those of channels.
HWY_INLINE float KeyScaleOf(const ScoreTile& tile) {
  const float* const scale = tile.keys.key.quant.scale;
  return scale == nullptr || tile.query_terms > 2 ? 1.0f : *scale;
}

// The queries of the panel that begins with row `first`, as terms, [term, word,
// lane], then their ropes as pairs; lanes without a row get the last row's.
// False if some cannot be multiplied, or their scales.
inline bool LoadQueryIntegers(const ScoreTile& tile, int64_t first,
                              float* panel) {
  const ScoreParams& params = *tile.params;
  const FourRows staging{tile.scratch.staging, tile.scratch.staging_stride};
  const int64_t words = params.qk_dim / 2, rope_words = params.rope_dim / 2;
  const float* const scale =
      tile.query_terms > 2 ? tile.keys.key.quant.scale : nullptr;
  float* const ropes = panel + tile.query_terms * words * Width();
  LeastOfPairs<Floats> subnormals;
  bool fit = true;
  for (int64_t lane = 0; lane < Width(); lane += 4) {
    const auto load = [&](int64_t count, float* to, auto load_row) HWY_ATTR {
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t row = std::min(first + lane + r, tile.rows - 1);
        load_row(tile.scratch.query_rows[row],
                 staging.first + r * staging.stride);
      }
      RowsToPanel(staging, count, to + lane);
    };
    for (int term = 0; term < tile.query_terms; ++term) {
      load(words, panel + term * words * Width(),
           [&](const QueryRow& row, float* to) HWY_ATTR {
             const float* const by_row = row.query_scale;
             fit = fit && (by_row == nullptr ||
                           std::fabs(*by_row * KeyScaleOf(tile)) < 0x1p100f);
             WithVectorType(params.query.dtype, [&](auto type) HWY_ATTR {
               fit &= LoadQueryTerm<type()>(row.query, scale, params.qk_dim,
                                            term, to);
             });
           });
    }
    load(rope_words, ropes, [&](const QueryRow& row, float* to) HWY_ATTR {
      LoadPairs(row.query_rope, rope_words, to, subnormals);
    });
  }
  ClearAfterPairs(params.rope_dim, Width(), ropes);
  return fit && !subnormals.AnySubnormal();
}

// A panel's queries, whether they are floats, as they cannot be terms, or words
// of terms and pairs (LoadQueryIntegers).
class QueriesOfPanel {
 public:
  QueriesOfPanel(const ScoreTile& tile, const float* panel, bool floats)
      : panel_(panel),
        words_(tile.params->qk_dim / 2),
        terms_(tile.query_terms),
        floats_(floats) {}

  // The numbers of word `k` of a row of keys, `lanes` after the panel's first.
  HWY_INLINE TwoNumbers Integers(int64_t k, ptrdiff_t lanes) const {
    constexpr int64_t kHalf = kTermChannels / 2;
    const int64_t d = k / kHalf * kTermChannels + k % kHalf;
    if (floats_) return {At(d, lanes), At(d + kHalf, lanes)};
    TwoNumbers sum{hn::Zero(kF), hn::Zero(kF)};
    for (int term = 0; term < terms_; ++term) {
      const Vector word = At(term * words_ + k, lanes);
      sum.lower = hn::Add(sum.lower, LowerOfPairs(word));
      sum.upper = hn::Add(sum.upper, UpperOfPairs(word));
    }
    return sum;
  }
  // Those of word `k` of its rope.
  HWY_INLINE TwoNumbers Rope(int64_t k, ptrdiff_t lanes) const {
    if (floats_) {
      const int64_t d = 2 * (words_ + k);
      return {At(d + 1, lanes), At(d, lanes)};
    }
    const Vector word = At(terms_ * words_ + k, lanes);
    return {LowerOfPairs(word), UpperOfPairs(word)};
  }

 private:
  HWY_INLINE Vector At(int64_t row, ptrdiff_t lanes) const {
    return hn::Load(kF, panel_ + row * Width() + lanes);
  }

  const float* panel_;
  int64_t words_;
  int terms_;
  bool floats_;
};

// products[key, lane] of keys whose integers met scales of channels and keys,
// and of their ropes, with queries: of any numbers.
HWY_NOINLINE inline void ProductsOfIntegers(
    const ScoreTile& tile, const ChannelRows& keys, int64_t count,
    const QueriesOfPanel& queries, const float* of_channels,
    const IntegerScales& scales, float* HWY_RESTRICT products) {
  constexpr int64_t kHalf = kTermChannels / 2;
  const int64_t words = tile.params->qk_dim / 2;
  const int64_t rope_words = tile.params->rope_dim / 2;
  for (int64_t j = 0; j < count; ++j) {
    const float* const key = keys.at + j * keys.stride;
    const float of_key = scales.of_keys == nullptr ? 1.0f : scales.of_keys[j];
    const auto scale_of = [&](int64_t d) HWY_ATTR {
      return hn::Set(kF, of_channels == nullptr ? of_key : of_channels[d]);
    };
    for (ptrdiff_t lanes = 0; lanes < Width(); lanes += Lanes()) {
      Vector sum = hn::Zero(kF);
      for (int64_t k = 0; k < words; ++k) {
        const int64_t d = k / kHalf * kTermChannels + k % kHalf;
        const Vector word = hn::Set(kF, key[k]);
        const TwoNumbers q = queries.Integers(k, lanes);
        sum =
            hn::MulAdd(hn::Mul(LowerOfPairs(word), scale_of(d)), q.lower, sum);
        sum = hn::MulAdd(hn::Mul(UpperOfPairs(word), scale_of(d + kHalf)),
                         q.upper, sum);
      }
      sum =
          hn::Mul(sum, lanes == 0 ? scales.of_lanes.low : scales.of_lanes.high);
      for (int64_t k = 0; k < rope_words; ++k) {
        const Vector word = hn::Set(kF, key[words + k]);
        const TwoNumbers q = queries.Rope(k, lanes);
        sum = hn::MulAdd(LowerOfPairs(word), q.lower,
                         hn::MulAdd(UpperOfPairs(word), q.upper, sum));
      }
      hn::Store(sum, kF, products + j * Width() + lanes);
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_INTEGERS_INL_H_
