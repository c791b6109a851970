// SPDX-License-Identifier: Apache-2.0
// What is added to the scores of a panel: a tensor's elements, or slopes times
// distances.

#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_SCORE_INL_H_
#undef FLASHACL_CPU_TILE_SCORE_INL_H_
#else
#define FLASHACL_CPU_TILE_SCORE_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// score = (score + bias) * factor for the keys `cols` and the rows of a panel.
inline void AddBias(const ForwardTile& tile, const QueryRow* query_rows,
                    int64_t count, Range cols, float factor,
                    float* HWY_RESTRICT scores) {
  const ForwardParams& shape = *tile.shape;
  const int64_t stride = tile.scratch.staging_stride;
  float* const staging = tile.scratch.staging;
  const int64_t offset =
      cols.first * shape.bias.step * shape.bias.element_bytes;
  for (int64_t first = 0; first < count; first += 4) {
    for (int64_t r = 0; r < 4; ++r) {
      // Lanes without a row repeat the last: what they get is never used.
      const QueryRow& query_row = query_rows[std::min(first + r, count - 1)];
      const int64_t last =
          std::min(cols.last, query_row.position + shape.bias_reach);
      LoadRow(shape.bias, query_row.bias + offset, last - cols.first,
              staging + r * stride);
    }
    AddRowsToPanel({staging, stride}, cols.size(), factor, scores + first);
  }
}

// score -= slope * |distance|, or slope * sqrt(|distance|).
inline void AddAlibi(const ForwardTile& tile, const QueryRow* query_rows,
                     int64_t count, Range cols, float* HWY_RESTRICT scores) {
  HWY_ALIGN float slope[Width()];
  HWY_ALIGN float start[Width()];
  for (int64_t r = 0; r < Width(); ++r) {
    const QueryRow& query_row = query_rows[std::min(r, count - 1)];
    slope[r] = query_row.slope;
    start[r] =
        static_cast<float>(cols.first - query_row.position + tile.alibi_start);
  }
  const bool root = tile.shape->alibi_root;
  for (ptrdiff_t half = 0; half < Width(); half += Lanes()) {
    const Vector factor = hn::Load(kF, slope + half);
    Vector distance = hn::Load(kF, start + half);
    for (int64_t j = 0; j < cols.size(); ++j) {
      float* const at = scores + j * Width() + half;
      Vector far = hn::Abs(distance);
      if (root) far = hn::Sqrt(far);
      hn::Store(hn::NegMulAdd(factor, far, hn::Load(kF, at)), kF, at);
      distance = hn::Add(distance, hn::Set(kF, 1.0f));
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_SCORE_INL_H_
