// SPDX-License-Identifier: Apache-2.0
// Values, keys and probs as matrix registers want them (matrices-inl.h).
//
// Values of a step, and keys for gradients of queries, lie by channel,
// [channel, key], as bf16: two neighbouring keys are a word. Probs become words
// of the same two keys, [pair of keys, lane], in place; what a first term of
// bf16 leaves of them may become a second one. The outer loop of values is over
// as many keys as a panel has lanes, whose words of two channels are transposed
// in registers, the even keys' and the odd ones', and exchange halves.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/sizes.h"
#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_MATRIX_VALUES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MATRIX_VALUES_INL_H_
#undef FLASHACL_CPU_TILE_MATRIX_VALUES_INL_H_
#else
#define FLASHACL_CPU_TILE_MATRIX_VALUES_INL_H_
#endif

#include "cpu/tile/integers-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/terms-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// How small and how great numbers of bf16 are, without their signs.
class RangeOfPairs {
 public:
  HWY_INLINE RangeOfPairs() : greatest_(hn::Zero(kHalves)) {}

  HWY_INLINE void Add(const Vector& words) {
    least_.Add(words);
    const auto bits = hn::BitCast(kHalves, words);
    greatest_ = hn::Max(greatest_, hn::Add(bits, bits));
  }

  HWY_INLINE bool AnyBelow(int exponent) const {
    return least_.AnyBelow(exponent);
  }
  // All but infinities and NaNs are below 2^128.
  HWY_INLINE bool AllBelow(int exponent) const {
    const auto bound = static_cast<uint16_t>((exponent + 127) << 8);
    return hn::AllTrue(kHalves, hn::Lt(greatest_, hn::Set(kHalves, bound)));
  }

 private:
  using Halves = hn::Repartition<uint16_t, Floats>;
  static constexpr Halves kHalves{};
  LeastOfPairs<Floats> least_;
  VectorOf<Halves> greatest_;
};

// Where the channels of words go: those of lower halves from `lower` on, `step`
// channels from word to word, those of upper halves likewise.
struct WordChannels {
  float* lower;
  float* upper;
  ptrdiff_t step;
};

// Four words, from number `word` of their rows on, of as many keys as a panel
// has lanes: even ones in `rows`, then odd ones.
HWY_INLINE void FourWords(const std::byte* const* rows, int64_t word,
                          const WordChannels& to, RangeOfPairs& range) {
  const auto quads = [&](ptrdiff_t lane) HWY_ATTR {
    const auto row = [&](int r) HWY_ATTR {
      return JoinQuads(kF, 0, [&](int n) HWY_ATTR {
        const std::byte* const at = rows[lane + 4 * n + r];
        return hn::LoadU(kQ, reinterpret_cast<const float*>(at) + word);
      });
    };
    QuadsOf<Floats> four{{row(0), row(1), row(2), row(3)}};
    four.Transpose();
    return four;
  };
  const QuadsOf<Floats> even = quads(0), odd = quads(Lanes());
  HWY_UNROLL_ALL
  for (int n = 0; n < 4; ++n) {
    range.Add(even.at[n]);
    range.Add(odd.at[n]);
    hn::StoreU(LowerHalves(even.at[n], odd.at[n]), kF, to.lower + n * to.step);
    hn::StoreU(UpperHalves(even.at[n], odd.at[n]), kF, to.upper + n * to.step);
  }
}

// Values of keys that lie by channel from `to` on, of rows of bf16.
HWY_INLINE void ChannelsOfRows(const std::byte* const* rows, int64_t v_dim,
                               ptrdiff_t stride, float* to,
                               RangeOfPairs& range) {
  for (int64_t d = 0; d < v_dim; d += 8) {
    float* const first = to + d * stride;
    FourWords(rows, d / 2, {first, first + stride, 2 * stride}, range);
  }
}

// The same of rows of words as terms-inl.h leaves them.
HWY_INLINE void ChannelsOfWords(const std::byte* const* rows, int64_t first,
                                int64_t channels, ptrdiff_t stride, float* to,
                                RangeOfPairs& range) {
  constexpr int64_t kHalf = kTermChannels / 2;
  for (int64_t word = 0; word < channels / 2; word += 4) {
    const int64_t channel = word / kHalf * kTermChannels + word % kHalf;
    float* const lower = to + channel * stride;
    FourWords(rows, first + word, {lower, lower + kHalf * stride, stride},
              range);
  }
}

// The same of rows of fp16, which become words of terms in `words`; the second
// terms lie after the first of all channels.
HWY_INLINE void ChannelsOfTerms(const std::byte* const* rows, int64_t v_dim,
                                ptrdiff_t stride, float* to, float* words,
                                RangeOfPairs& range) {
  const std::byte* of_terms[Width()];
  NonFinite unused;
  for (int64_t n = 0; n < Width(); ++n) {
    LoadTerms(rows[n], v_dim, v_dim / 2, words + n * v_dim, unused);
    of_terms[n] = reinterpret_cast<const std::byte*>(words + n * v_dim);
  }
  RangeOfPairs of_rests;
  ChannelsOfWords(of_terms, 0, v_dim, stride, to, range);
  ChannelsOfWords(of_terms, v_dim / 2, v_dim, stride, to + v_dim * stride,
                  of_rests);
}

// Rows of a step by channel. Those that do not exist, and 32 or more after the
// last, are 0, as `none` is.
struct RowsByChannel {
  const RowSource& source;
  const std::byte* const* at;
  int64_t count;
  int64_t channels;
  const float* none;
};

// words: room for rows of two terms, of as many keys as a panel has lanes.
HWY_NOINLINE inline void PackByChannel(const RowsByChannel& from, int terms,
                                       ptrdiff_t stride, float* to,
                                       float* words, RangeOfPairs& range) {
  const std::byte* rows[Width()];
  for (int64_t j = 0; j < from.count + 2 * kMatrixWords; j += Width()) {
    for (int64_t n = 0; n < Width(); ++n) {
      const int64_t key = j + n;
      const std::byte* row = key < from.count ? from.at[key] : nullptr;
      if (row == nullptr) row = reinterpret_cast<const std::byte*>(from.none);
      rows[n / 2 + n % 2 * Lanes()] = row;
      PrefetchLater(from.source, from.at, key, from.count);
    }
    if (terms == 1) {
      ChannelsOfRows(rows, from.channels, stride, to + j / 2, range);
    } else {
      ChannelsOfTerms(rows, from.channels, stride, to + j / 2, words, range);
    }
  }
}

// The same of integers, whose words are those of `keys`, if these are the same
// rows, or are made in `words`.
HWY_NOINLINE inline void PackIntegersByChannel(const RowsByChannel& from,
                                               const ChannelRows& keys,
                                               ptrdiff_t stride, float* to,
                                               float* words) {
  const int64_t row_words = from.channels / 2;
  const std::byte* rows[Width()];
  RangeOfPairs unused;
  for (int64_t j = 0; j < from.count + 2 * kMatrixWords; j += Width()) {
    for (int64_t n = 0; n < Width(); ++n) {
      const int64_t key = j + n;
      const bool exists = key < from.count;
      const float* row = keys.at + key * keys.stride;
      if (keys.at == nullptr || !exists) {
        float* const own = words + n * row_words;
        LoadIntegers(from.source.format, exists ? from.at[key] : nullptr,
                     from.channels, own);
        PrefetchLater(from.source, from.at, key, from.count);
        row = own;
      }
      rows[n / 2 + n % 2 * Lanes()] = reinterpret_cast<const std::byte*>(row);
    }
    ChannelsOfWords(rows, 0, from.channels, stride, to + j / 2, unused);
  }
}

// Rows of `terms` terms by channel, each term's after those of the one before
// it. Rows after the last repeat it: what they meet is 0.
HWY_NOINLINE inline void PackTermsByChannel(const ChannelRows& keys,
                                            int64_t count, int64_t channels,
                                            int terms, ptrdiff_t stride,
                                            float* to) {
  const std::byte* rows[Width()];
  RangeOfPairs unused;
  for (int64_t j = 0; j < count + 2 * kMatrixWords; j += Width()) {
    for (int64_t n = 0; n < Width(); ++n) {
      const int64_t key = std::min(j + n, count - 1);
      const float* const row = keys.at + key * keys.stride;
      rows[n / 2 + n % 2 * Lanes()] = reinterpret_cast<const std::byte*>(row);
    }
    for (int64_t term = 0; term < terms; ++term) {
      ChannelsOfWords(rows, term * channels / 2, channels, stride,
                      to + term * channels * stride + j / 2, unused);
    }
  }
}

// Values of integers by channel. Whoever calls with one tensor as keys and
// values has their words already.
inline void PackIntegers(const ScoreTile& tile, const KeyAddresses& at,
                         LoadedKeys& loaded) {
  const int64_t count = at.step.size();
  const StepQuantParams& quant = loaded.value_quant;
  loaded.tiny = quant.AnyBelow(0x1p-100f, count);
  loaded.large = !quant.CanWait(count);
  loaded.finite = quant.AllFinite(count);
  const int64_t v_dim = tile.params->v_dim;
  const bool shared = tile.keys.value.base == nullptr;
  const std::byte* const* const values = shared ? at.key : at.value;
  const bool same = tile.keys.key.format == tile.keys.values().format &&
                    v_dim <= tile.params->qk_dim &&
                    std::equal(values, values + count, at.key);
  const ScoreScratch& scratch = tile.scratch;
  PackIntegersByChannel(
      {tile.keys.values(), values, count, v_dim, nullptr},
      {same ? scratch.keys : nullptr, same ? scratch.key_stride : 0},
      loaded.channel_stride, loaded.values.at,
      loaded.values.at + v_dim * loaded.channel_stride);
}

// The values of a step by channel.
inline void PackValuesByChannel(const ScoreTile& tile, const KeyAddresses& at,
                                LoadedKeys& loaded) {
  const int64_t v_dim = tile.params->v_dim;
  if (tile.integers) return PackIntegers(tile, at, loaded);
  float* const none = tile.scratch.staging;
  std::fill_n(none, v_dim / 2, 0.0f);
  RangeOfPairs range;
  PackByChannel(
      {tile.keys.values(), tile.keys.value.base == nullptr ? at.key : at.value,
       at.step.size(), v_dim, none},
      loaded.terms, loaded.channel_stride, loaded.values.at,
      loaded.values.at + 2 * v_dim * loaded.channel_stride, range);
  loaded.tiny = range.AnyBelow(-100);
  loaded.large = !range.AllBelow(64);
  loaded.finite = range.AllBelow(128);
}

// Keys of bf16 by channel, their ropes after the rest.
inline void PackKeysByChannel(const ScoreTile& tile, const KeyAddresses& at,
                              ptrdiff_t stride, float* to,
                              RangeOfPairs& range) {
  const ScoreParams& params = *tile.params;
  const int64_t count = at.step.size();
  float* const none = tile.scratch.staging;
  std::fill_n(none, params.score_dim() / 2, 0.0f);
  PackByChannel({tile.keys.key, at.key, count, params.qk_dim, none}, 1, stride,
                to, nullptr, range);
  if (params.rope_dim == 0) return;
  PackByChannel({tile.keys.rope, at.rope, count, params.rope_dim, none}, 1,
                stride, to + params.qk_dim * stride, nullptr, range);
}

// The next of two terms of probs, or the only one: rounded to nearest, halves
// away from 0; what is left is exact.
HWY_INLINE Vector TermOf(Vector& rest) {
  const hn::RebindToUnsigned<Floats> u;
  const Vector term =
      hn::BitCast(kF, hn::And(Bf16Probs(rest), hn::Set(u, 0xFFFF0000u)));
  rest = hn::Sub(rest, term);
  return term;
}

// Stores the probs of two neighbouring keys as words, and, `next` after that,
// what a first term leaves of them.
template <bool kTwoTerms>
HWY_INLINE void StoreTerms(Vector first, Vector second, float* to,
                           ptrdiff_t next = Width()) {
  const Vector term = TermOf(first);
  hn::Store(UpperHalves(term, TermOf(second)), kF, to);
  if constexpr (kTwoTerms) {
    const Vector rest = TermOf(first);
    hn::Store(UpperHalves(rest, TermOf(second)), kF, to + next);
  }
}

// Words after those of `count` keys are 0 up to whole matrices.
inline void ClearTerms(float* HWY_RESTRICT words, int64_t count) {
  const int64_t first = RoundUp(count, 2),
                end = RoundUp(count, 2 * kMatrixWords);
  std::fill_n(words + first * Width(), (end - first) * Width(), 0.0f);
}

// Probs of `count` keys become words of pairs, [pair, term, lane], where they
// are; up to whole matrices they are 0.
template <bool kTwoTerms>
HWY_NOINLINE void PackTerms(float* HWY_RESTRICT probs, int64_t count) {
  if (count % 2 != 0) std::fill_n(probs + count * Width(), Width(), 0.0f);
  ClearTerms(probs, count);
  for (int64_t j = 0; j < count; j += 2) {
    float* const at = probs + j * Width();
    const PanelPair first = PanelPair::Load(at);
    const PanelPair second = PanelPair::Load(at + Width());
    StoreTerms<kTwoTerms>(first.low, second.low, at);
    StoreTerms<kTwoTerms>(first.high, second.high, at + Lanes());
  }
}

// What OnlineSoftmax and PackTerms do, in one pass.
template <bool kTwoTerms>
HWY_NOINLINE PanelPair SoftmaxTerms(const PanelState& state,
                                    float* HWY_RESTRICT scores, int64_t count,
                                    const PanelPair& block_max) {
  const PanelPair rescale = state.Raise(block_max);
  const PanelPair from = state.FiniteMax();
  const PanelPair less{hn::Neg(from.low), hn::Neg(from.high)};
  PanelPair sum = PanelPair::Of(0.0f);
  ForKeys(count, [&](int64_t first, auto keys) HWY_ATTR {
    constexpr int kKeys = keys();
    float* const at = scores + first * Width();
    Vector p[4];
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      const PanelPair s = PanelPair::Load(at + j * Width());
      p[2 * j] = hn::Add(s.low, less.low);
      p[2 * j + 1] = hn::Add(s.high, less.high);
    }
    if constexpr (kKeys == 1) p[2] = p[3] = hn::Set(kF, kMinusInfinity);
    ExpAll(p);
    HWY_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      sum.low = hn::Add(sum.low, p[2 * j]);
      sum.high = hn::Add(sum.high, p[2 * j + 1]);
    }
    StoreTerms<kTwoTerms>(p[0], p[2], at);
    StoreTerms<kTwoTerms>(p[1], p[3], at + Lanes());
  });
  ClearTerms(scores, count);
  state.AddToSum(sum);
  return rescale;
}

// out[channel, lane] = out * rescale + probs * values of the keys `local` of a
// step, of which the packed probs are; null: out is not there yet. half: of the
// panel's first half alone.
inline void AddMatrixOut(const LoadedKeys& loaded, const float* probs,
                         bool two_terms, bool half, int64_t v_dim, Range local,
                         const PanelPair* rescale, float* out,
                         PrefetchQueue& prefetch) {
  for (int64_t d = 0; rescale != nullptr && d < v_dim; ++d) {
    PanelPair sum = PanelPair::Load(out + d * Width());
    sum.low = hn::Mul(sum.low, rescale->low);
    sum.high = hn::Mul(sum.high, rescale->high);
    sum.Store(out + d * Width());
  }
  const auto* const first =
      reinterpret_cast<const std::byte*>(loaded.values.at) + 2 * local.first;
  Matrices matrices;
  AddMatrixProducts(
      {first, loaded.channel_stride, loaded.terms,
       v_dim * loaded.channel_stride},
      v_dim, {probs, 2 * Width(), two_terms ? 2 : 1, Width(), half},
      CeilDiv(local.size(), 2), rescale == nullptr, out, matrices, prefetch);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MATRIX_VALUES_INL_H_
