// SPDX-License-Identifier: Apache-2.0
// The products dq += dS k, dk += dS^T q and dv += P^T do, out of registers.
//
// Channels lie in the lanes: one panel of them, two vectors, of a few rows of
// sums. P and dS are scalars, kept as [panel, key, lane] with query rows in the
// lanes as softmax left them; queries, keys and gradients of outputs are rows
// of channels as they lie in memory, so nothing is packed or transposed. The
// caller loops over panels of channels outside, then over blocks of sums, so
// that a panel of all rows stays in the first cache; a block is loaded, sums
// over all rows or keys of a step, and is stored.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/range.h"

#if defined(FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_
#undef FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Calls body(first, halves) for panels of channels, of which the last may fill
// no more than its lower half.
template <typename Body>
HWY_INLINE void ForChannels(int64_t channels, Body body) {
  for (int64_t c = 0; c < channels; c += Width()) {
    WithHalves(channels - c <= Lanes(),
               [&](auto halves) HWY_ATTR { body(c, halves); });
  }
}

// sums[r] += sum over k < depth of scalars[k * kNext + r * kApart] * rows[k],
// for one panel of channels, or its lower half, where the last channels are.
template <int kNext, int kApart, class Product = OfFloats, int kRows,
          int kHalves>
HWY_INLINE void AddScaledRows(const float* HWY_RESTRICT scalars,
                              const ChannelRows& rows, int64_t depth,
                              Sums<kRows, kHalves>& sums) {
  const float* HWY_RESTRICT row = rows.at;
  for (int64_t k = 0; k < depth; ++k) {
    const Vector low = hn::Load(kF, row);
    Vector high = low;
    if constexpr (kHalves == 2) high = hn::Load(kF, row + Lanes());
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums.template Add<Product>(r, scalars[r * kApart], low, high);
    }
    row += rows.stride;
    scalars += kNext;
  }
}

// The same where rows may hold infinities: scalars that are -0 stand for what
// nobody sees and are not multiplied, as 0 * inf would be NaN.
template <int kNext, int kApart, int kRows>
HWY_INLINE void AddSeenRows(const float* HWY_RESTRICT scalars,
                            const ChannelRows& rows, int64_t depth,
                            Sums<kRows>& sums) {
  for (int r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      const float x = scalars[k * kNext + r * kApart];
      const float* const row = rows.at + k * rows.stride;
      if (x == 0.0f && std::signbit(x)) continue;
      sums.Add(r, x, hn::Load(kF, row), hn::Load(kF, row + Lanes()));
    }
  }
}

// Gradients of kRows query rows: += sum over keys of ds times the key. Rows of
// `out` are as far apart as those of keys.
template <int kRows, bool kSkipMasked, int kHalves = 2>
HWY_NOINLINE void GradQueryBlock(const float* HWY_RESTRICT grad_scores,
                                 const ChannelRows& keys, int64_t count,
                                 float* out) {
  Sums<kRows, kHalves> sums;
  sums.Load(out, keys.stride);
  if constexpr (kSkipMasked) {
    AddSeenRows<Width(), 1>(grad_scores, keys, count, sums);
  } else {
    AddScaledRows<Width(), 1>(grad_scores, keys, count, sums);
  }
  sums.Store(out, keys.stride);
}

// P or dS of a block of rows: [panel, key, lane].
struct BlockOfRows {
  const float* probs;
  ptrdiff_t panel_floats;  // from panel to panel
  const Range* seen;       // of each panel, keys that are not all 0
  int64_t rows;
};

// Calls body(probs, rows of channels, how many) for the panels of a block that
// see one of kKeys keys from `key` on, each of which is `key_floats` apart.
template <int kKeys, typename Body>
HWY_INLINE void ForPanels(const BlockOfRows& block, int64_t key,
                          ptrdiff_t key_floats, const ChannelRows& rows,
                          Body body) {
  const float* probs = block.probs + key * key_floats;
  ChannelRows panel = rows;
  const Range* seen = block.seen;
  for (int64_t left = block.rows; left > 0; left -= Width(), ++seen) {
    if (seen->first < key + kKeys && key < seen->last) {
      body(probs, panel, left < Width() ? left : Width());
    }
    probs += block.panel_floats;
    panel.at += Width() * rows.stride;
  }
}

// Gradients of kRows keys from `key` on: += sum over rows of p or ds times the
// row. Rows of `out` are as far apart as those.
template <int kRows, bool kSkipMasked, int kHalves = 2>
HWY_NOINLINE void GradKeyBlock(const BlockOfRows& block, int64_t key,
                               const ChannelRows& rows, float* out) {
  Sums<kRows, kHalves> sums;
  sums.Load(out, rows.stride);
  ForPanels<kRows>(block, key, Width(), rows,
                   [&](const float* probs, const ChannelRows& panel,
                       int64_t count) HWY_ATTR {
                     if constexpr (kSkipMasked) {
                       AddSeenRows<1, Width()>(probs, panel, count, sums);
                     } else if (count == Width()) {
                       AddScaledRows<1, Width()>(probs, panel, Width(), sums);
                     } else {
                       AddScaledRows<1, Width()>(probs, panel, count, sums);
                     }
                   });
  sums.Store(out, rows.stride);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_
