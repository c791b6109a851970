// SPDX-License-Identifier: Apache-2.0
// What a tile of few rows begins a split with, and how it goes to the next one
// of the same rows.

#include <algorithm>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_DECODE_SPLIT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_SPLIT_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_SPLIT_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_SPLIT_INL_H_
#endif

#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/pair_matrices-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// What sums and outputs are before the first step.
inline void ClearSums(DecodeTile& decode) {
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    const MicroTile micro_tile = decode.At(n);
    ClearOut(decode, micro_tile);
    for (int r = 0; r < 4; ++r) {
      // A sink joins at the end, but no row's maximum is below it.
      micro_tile.max[r] =
          r < micro_tile.rows ? micro_tile.query_rows[r].sink : kMinusInfinity;
      micro_tile.sum[r] = 0;
    }
  }
  decode.out_unit =
      decode.matrix_values && !decode.skip_masked ? 1 / kProbScale : 1.0f;
}

inline void StartSplit(DecodeTile& decode) {
  decode.stored = 0;
  decode.skip_masked = decode.hides = false;
  decode.row_sums = nullptr;
  ClearSums(decode);
}

// The columns from `first` on that are of one split.
inline Range SplitFrom(int64_t first, int64_t last, int64_t split_keys) {
  const int64_t end = (first / split_keys + 1) * split_keys;
  return {first, std::max(std::min(end, last), first)};
}

// The tile becomes the next split of its rows, whose results follow its own. A
// sink is a key of the first split.
inline void MoveTo(Range split, ForwardTile& tile) {
  tile.cols = split;
  tile.split_out += tile.rows * (tile.params->v_dim + 2);
  for (int64_t r = 0; r < tile.rows; ++r) {
    tile.scratch.query_rows[r].sink = kMinusInfinity;
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_SPLIT_INL_H_
