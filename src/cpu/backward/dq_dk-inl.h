// SPDX-License-Identifier: Apache-2.0
// The products of the backward direction that have channels in their lanes:
// scalars of a few rows or keys, times rows of channels as they lie in memory.

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

// Rows of channels, `stride` floats apart.
struct ChannelRows {
  const float* at;
  ptrdiff_t stride;
};

struct ChannelSums {
  float* at;
  ptrdiff_t stride;
};

template <int kRows>
HWY_INLINE void LoadSums(const ChannelSums& from, Sums<kRows>& sums) {
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    sums.at[r][0] = hn::Load(kF, from.at + r * from.stride);
    sums.at[r][1] = hn::Load(kF, from.at + r * from.stride + Lanes());
  }
}

template <int kRows>
HWY_INLINE void StoreSums(const Sums<kRows>& sums, const ChannelSums& to) {
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    hn::Store(sums.at[r][0], kF, to.at + r * to.stride);
    hn::Store(sums.at[r][1], kF, to.at + r * to.stride + Lanes());
  }
}

// sums[r] += sum over k < depth of scalars[k * kStep + r * kApart] * rows[k],
// for one panel of channels.
template <int kStep, int kApart, int kRows>
HWY_INLINE void AddScaledRows(const float* HWY_RESTRICT scalars,
                              const ChannelRows& rows, int64_t depth,
                              Sums<kRows>& sums) {
  const float* HWY_RESTRICT row = rows.at;
  for (int64_t k = 0; k < depth; ++k) {
    const Vector low = hn::Load(kF, row);
    const Vector high = hn::Load(kF, row + Lanes());
    HWY_UNROLL_ALL
    for (int r = 0; r < kRows; ++r) {
      sums.Add(r, scalars[r * kApart], low, high);
    }
    row += rows.stride;
    scalars += kStep;
  }
}

// The same where rows may hold infinities: scalars that are -0 stand for what
// nobody sees and are not multiplied, as 0 * inf would be NaN.
template <int kStep, int kApart, int kRows>
HWY_INLINE void AddSeenRows(const float* HWY_RESTRICT scalars,
                            const ChannelRows& rows, int64_t depth,
                            Sums<kRows>& sums) {
  for (int r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      const float x = scalars[k * kStep + r * kApart];
      const float* const row = rows.at + k * rows.stride;
      if (x == 0.0f && std::signbit(x)) continue;
      sums.Add(r, x, hn::Load(kF, row), hn::Load(kF, row + Lanes()));
    }
  }
}

// Gradients of kRows query rows: += sum over keys of ds times the key.
template <int kRows, bool kSkipMasked>
HWY_NOINLINE void GradQueryBlock(const float* HWY_RESTRICT grad_scores,
                                 const ChannelRows& keys, int64_t count,
                                 const ChannelSums& out) {
  Sums<kRows> sums;
  LoadSums(out, sums);
  if constexpr (kSkipMasked) {
    AddSeenRows<Width(), 1>(grad_scores, keys, count, sums);
  } else {
    AddScaledRows<Width(), 1>(grad_scores, keys, count, sums);
  }
  StoreSums(sums, out);
}

// The weights, or gradients of scores, of a block of rows: [panel, key, lane].
struct BlockOfRows {
  const float* probs;
  ptrdiff_t panel_floats;  // from panel to panel
  const Range* seen;       // of each panel, keys that are not all 0
  int64_t rows;
};

// Gradients of kRows keys from `key` on: += sum over rows of the weight times
// the row.
template <int kRows, bool kSkipMasked>
HWY_NOINLINE void GradKeyBlock(const BlockOfRows& block, int64_t key,
                               const ChannelRows& rows,
                               const ChannelSums& out) {
  Sums<kRows> sums;
  LoadSums(out, sums);
  const float* probs = block.probs + key * Width();
  ChannelRows panel = rows;
  const Range* seen = block.seen;
  for (int64_t left = block.rows; left > 0; left -= Width(), ++seen) {
    if (seen->first < key + kRows && key < seen->last) {
      if (kSkipMasked) {
        AddSeenRows<1, Width()>(probs, panel, left < Width() ? left : Width(),
                                sums);
      } else if (left >= Width()) {
        AddScaledRows<1, Width()>(probs, panel, Width(), sums);
      } else {
        AddScaledRows<1, Width()>(probs, panel, left, sums);
      }
    }
    probs += block.panel_floats;
    panel.at += Width() * rows.stride;
  }
  StoreSums(sums, out);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_DQ_DK_INL_H_
