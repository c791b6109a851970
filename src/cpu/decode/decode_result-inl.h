// SPDX-License-Identifier: Apache-2.0
// What becomes of the sums of a tile of few rows when the last step of a split
// is done.

#include <algorithm>
#include <cmath>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_DECODE_RESULT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_RESULT_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_RESULT_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_RESULT_INL_H_
#endif

#include "cpu/decode/decode_tile-inl.h"
#include "cpu/tile/result-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Whether all sums are: neither infinite nor NaN.
inline bool OutIsFinite(const DecodeTile& decode) {
  const Vector zero = hn::Zero(kF);
  Vector sum = zero;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    const MicroTile micro_tile = decode.At(n);
    const int64_t count = decode.values.vectors * micro_tile.rows * Lanes();
    for (int64_t d = 0; d < count; d += Lanes()) {
      sum = hn::MulAdd(hn::Load(kF, micro_tile.out + d), zero, sum);
    }
  }
  return hn::AllTrue(kF, hn::Eq(sum, zero));
}

// The sums of one row as it lies in memory: 8-bit values are
// scale * (x + offset) by channel, which can wait until here, as a sum of probs
// times values is linear in both. `sum` is that of the probs. Sums of matrix
// registers are brought to their unit.
inline void GatherRow(const DecodeTile& decode, const MicroTile& micro_tile,
                      int r, float sum, float* HWY_RESTRICT row) {
  const Vector unit = hn::Set(kF, decode.out_unit);
  for (int64_t v = 0; v < decode.values.vectors; ++v) {
    const float* const out =
        micro_tile.out + (v * micro_tile.rows + r) * Lanes();
    hn::StoreU(hn::Mul(hn::Load(kF, out), unit), kF, row + v * Lanes());
  }
  FromLanes(decode.values.order, decode.values.vectors * Lanes(), row);
  const QuantParams& quant = decode.tile->keys.values().quant;
  const int64_t v_dim = decode.tile->params->v_dim;
  if (ScalesProbs(decode)) {
    const int64_t first =
        micro_tile.query_rows - decode.tile->scratch.query_rows;
    const float offset = decode.scratch.value_sums[first + r];
    for (int64_t d = 0; d < v_dim; ++d) row[d] += offset;
  }
  if (quant.scale == nullptr) return;
  for (int64_t d = 0; d < v_dim; ++d) {
    const float offset = quant.offset == nullptr ? 0.0f : quant.offset[d];
    row[d] = quant.scale[d] * (row[d] + offset * sum);
  }
}

static_assert(kDecodeRows <= 64);

enum class WhichRows : uint8_t { kAll, kFinite };

// Stores the results of a micro-tile that are not stored yet: all, or those
// that are finite. Returns whether rows may have overflowed and must be
// computed again; `overflowed` gets their sums, and 0 of others.
inline bool StoreMicroTile(DecodeTile& decode, int64_t n, WhichRows which,
                           float* overflowed) {
  const ForwardTile& tile = *decode.tile;
  const MicroTile micro_tile = decode.At(n);
  float* const row = tile.scratch.staging;
  bool any = false;
  for (int r = 0; r < micro_tile.rows; ++r) {
    const QueryRow& query_row = micro_tile.query_rows[r];
    const float max = micro_tile.max[r];
    float sum = micro_tile.sum[r];
    const uint64_t bit = uint64_t{1} << (4 * n + r);
    overflowed[4 * n + r] = 0;
    if ((decode.stored & bit) != 0) continue;
    GatherRow(decode, micro_tile, r, sum, row);
    if (which == WhichRows::kFinite && !AllFinite(row, tile.params->v_dim)) {
      continue;
    }
    decode.stored |= bit;
    if (query_row.sink != kMinusInfinity) {
      // Of a sink that is no number the row becomes NaN, as of any such score.
      sum += std::isfinite(query_row.sink)
                 ? hn::GetLane(Exp(hn::Set(kF, query_row.sink - max)))
                 : NAN;
    }
    const bool redo = MayOverflow(row, tile.params->v_dim, sum);
    overflowed[4 * n + r] = redo ? sum : 0.0f;
    any = any || redo;
    if (tile.split_out != nullptr) {
      StoreSplit(tile, 4 * n + r, row, max, sum);
    } else {
      FinishRow(tile, query_row, max, sum, row);
    }
  }
  return any;
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_RESULT_INL_H_
