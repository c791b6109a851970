// SPDX-License-Identifier: Apache-2.0
// What the rows of a step add to sums: probs times values, or ds times keys, of
// one panel of heads.
//
// Rows are floats, or pairs of which floats are made in registers. Those of few
// heads stay where they lie: some channels of all of them become floats at a
// time, which the first cache keeps while they are multiplied. Sums have the
// same bits whichever it is.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "cpu/rows_in_place.h"
#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_ADD_LISTED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_ADD_LISTED_INL_H_
#undef FLASHACL_CPU_TOPK_ADD_LISTED_INL_H_
#else
#define FLASHACL_CPU_TOPK_ADD_LISTED_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Keys after which lines of the next step's are prefetched. With few heads
// there are many lines to a block, and all at its end are too many at a time.
inline constexpr int64_t kKeysAtOnce = 32;

// Channels that become floats at a time: a line of each row. Those of 96 keys
// are 12 KiB, beside as much of a panel; twice as many took longer
// (docs/notes/0069).
inline constexpr int64_t kLineChannels = 32;

// Rows of a step that stay where they lie, numbers of 16 bits side by side, for
// heads that fill half a panel. With so few, to make floats of a pair takes as
// many instructions as multiply it, and on Zen 4, whose shifts and masks take
// places of multiply-adds, 1.5 times as long; Intel's have no other places for
// them (docs/notes/0071).
struct RowsInPlace {
  DType dtype = DType::kNone;
  const std::byte* const* rows = nullptr;
  int64_t channels = 0;                     // of these
  const std::byte* const* ropes = nullptr;  // the channels after them; or null
};

// Whether keys or values stay in place for the products of a tile; `rope`: what
// comes after them. Not keys that are floats for scores.
inline bool StayInPlace(const ScoreTile& tile, const RowSource& source,
                        const RowSource& rope = {}) {
  const DType dtype = source.format.dtype;
  const auto dense = [&](const ElementFormat& format) {
    return format.dtype == dtype && format.step == 1 &&
           format.channel_block == 0;
  };
  const bool are_keys = source.base == tile.keys.key.base;
  if (!kHasHalfPanels || tile.rows > Lanes() || !RowsStayInPlace() ||
      tile.dots == PairDots::kMatrices ||
      (tile.dots == PairDots::kNone && are_keys) ||
      (dtype != DType::kBf16 && dtype != DType::kF16)) {
    return false;
  }
  return dense(source.format) &&
         (rope.base == nullptr ||
          (dense(rope.format) && source.channels % kLineChannels == 0));
}

// Rows of a step, and what they are.
struct ListedRows {
  const float* at;
  ptrdiff_t stride;
  bool pairs;
  RowsInPlace in_place{};  // if there are any, nothing else counts
};

// sums[r] += column r of rows * panel, where rows are pairs of channels.
template <int kRows, int kHalves>
HWY_INLINE void AddPairsApart(const float* HWY_RESTRICT rows, ptrdiff_t stride,
                              const float* HWY_RESTRICT panel, int64_t depth,
                              Sums<kRows, kHalves>& sums) {
  static_assert(kRows % 2 == 0);
  for (int64_t k = 0; k < depth; ++k) {
    Vector low, high;
    FloatsOfPanel::Load<kHalves>(panel, low, high);
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; r += 2) {
      const Vector words = hn::Set(kF, rows[r / 2]);
      sums.AddEvery(r, UpperOfPairs(words), low, high);
      sums.AddEvery(r + 1, LowerOfPairs(words), low, high);
    }
    panel += Width();
    rows += stride;
  }
}

// out = out * rescale + panel * rows for a block of channels, floats or pairs,
// which begins at `rows.at`; null: no factor. The panel is probs or ds, a row
// per key.
template <int kRows, int kHalves, bool kPairs>
HWY_NOINLINE void AddListed(const ListedRows& rows,
                            const float* HWY_RESTRICT panel, int64_t count,
                            const PanelPair* rescale, float* HWY_RESTRICT out,
                            PrefetchQueue& prefetch) {
  Sums<kRows, kHalves> sums;
  sums.Load(out);
  if (rescale != nullptr) sums.Scale(*rescale);
  for (int64_t first = 0; first < count; first += kKeysAtOnce) {
    const float* const at = rows.at + first * rows.stride;
    const float* const scores = panel + first * Width();
    const int64_t some = std::min(kKeysAtOnce, count - first);
    if constexpr (kPairs) {
      AddPairsApart(at, rows.stride, scores, some, sums);
    } else {
      AddColumnsApart(at, rows.stride, scores, some, sums);
    }
    prefetch.Issue();
  }
  sums.Store(out);
}

// Channels [d, d + kLineChannels) of rows of so many channels as floats, 0
// after the last. The next ones are prefetched, and first ones of later rows:
// some may have left the caches, or never came.
template <DType kType>
HWY_INLINE void LoadLines(const std::byte* const* rows, int64_t count,
                          int64_t channels, int64_t d,
                          float* HWY_RESTRICT floats) {
  constexpr int64_t kBytes = 2;  // of a number
  const int64_t some = std::min(kLineChannels, channels - d);
  for (int64_t j = 0; j < count; ++j, floats += kLineChannels) {
    const std::byte* const row = rows[j] + d * kBytes;
    if (d == 0 && j + kPrefetchRows < count) {
      __builtin_prefetch(rows[j + kPrefetchRows], 0, 3);
    }
    if (d + some < channels) {
      __builtin_prefetch(row + kLineChannels * kBytes, 0, 3);
    }
    int64_t c = 0;
    for (; c + Lanes() <= some; c += Lanes()) {
      hn::Store(FloatsAt<kType>(kF, row, c), kF, floats + c);
    }
    if (HWY_LIKELY(c == kLineChannels)) continue;
    for (; c < some; ++c) floats[c] = FloatOf(kType, row + c * kBytes);
    std::fill(floats + some, floats + kLineChannels, 0.0f);
  }
}

// The same of rows in place, for the lower half of a panel: of keys or values,
// or of their ropes. The last block may pass BlockEnd(channels) by less than
// kSmall, for which the only panel of such a tile has room.
template <DType kType>
HWY_NOINLINE void AddInPlace(const std::byte* const* rows, int64_t channels,
                             const float* HWY_RESTRICT panel, int64_t count,
                             const PanelPair* rescale, float* HWY_RESTRICT out,
                             PrefetchQueue& prefetch) {
  HWY_ALIGN float floats[kMaxStepKeys * kLineChannels];
  for (int64_t d = 0; d < channels; d += kLineChannels) {
    LoadLines<kType>(rows, count, channels, d, floats);
    const int64_t some = std::min(kLineChannels, channels - d);
    ForBlocks(some, [&](int64_t c, auto size) HWY_ATTR {
      AddListed<size(), kHasHalfPanels ? 1 : 2, false>(
          {floats + c, kLineChannels, false}, panel, count, rescale,
          out + (d + c) * Width(), prefetch);
    });
  }
}

// All channels of `count` rows, for a panel or its lower half.
inline void AddStep(const ListedRows& rows, int64_t channels, bool half,
                    const float* HWY_RESTRICT panel, int64_t count,
                    const PanelPair* rescale, float* HWY_RESTRICT out,
                    PrefetchQueue& prefetch) {
  const RowsInPlace& in_place = rows.in_place;
  if (in_place.rows != nullptr) {
    const auto add = in_place.dtype == DType::kBf16 ? AddInPlace<DType::kBf16>
                                                    : AddInPlace<DType::kF16>;
    const int64_t first = in_place.channels;
    add(in_place.rows, first, panel, count, rescale, out, prefetch);
    if (in_place.ropes == nullptr) return;
    return add(in_place.ropes, channels - first, panel, count, rescale,
               out + first * Width(), prefetch);
  }
  WithHalves(half, [&](auto halves) HWY_ATTR {
    ForBlocks(channels, [&](int64_t d, auto size) HWY_ATTR {
      const bool pairs = kListedRowsStayPairs && rows.pairs;
      const auto add = pairs ? AddListed<size(), halves(), kListedRowsStayPairs>
                             : AddListed<size(), halves(), false>;
      add({rows.at + (pairs ? d / 2 : d), rows.stride, pairs}, panel, count,
          rescale, out + d * Width(), prefetch);
    });
  });
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_ADD_LISTED_INL_H_
