// SPDX-License-Identifier: Apache-2.0
// Tiles of few rows whose keys have 8 bits, and what of them is computed in
// integers: where queries are numbers of 16 bits, channels whole vectors of
// bytes, rows as many as pay for packing, and no score can err by more than
// rounded probs may. On x86 a micro-tile of a single row, which needs no
// packing, remains floats, but on matrix registers.
//
// All of this is decided by the problem and by the queries of a tile, which has
// all rows of a sequence and kv head, and where keys have scales by row, by
// those of a step: not by threads, pages or bundles.

#include <algorithm>
#include <cmath>
#include <cstdint>

#if defined(FLASHACL_CPU_DECODE_DECODE_BYTES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_BYTES_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_BYTES_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_BYTES_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/score-inl.h"
#include "cpu/decode/step_prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

HWY_INLINE bool AreWholeBytes(const Reading& reading, const RowSource& source,
                              int64_t channels) {
  return source.format.dtype == DType::kI8 && !reading.staged &&
         !reading.blocked && channels % ByteLanes() == 0;
}

inline bool TakesBytes(const DecodeTile& decode, const ByteKernels& kernels) {
  const ForwardTile& tile = *decode.tile;
  const DType query = tile.params->query.dtype;
  return tile.rows >= kernels.min_rows &&
         (query == DType::kF16 || query == DType::kBf16) &&
         tile.params->rope_dim == 0 &&
         AreWholeBytes(decode.keys, tile.keys.key, tile.keys.key.channels) &&
         tile.keys.key.channels % kernels.channel_unit == 0;
}

// What scores may err by, whatever the keys: half of what rounding probs to the
// queries' type, as verify/compare.h allows it, does to a prob.
inline float AllowedScoreError(DType query) {
  return query == DType::kBf16 ? 0x1p-10f : 0x1p-13f;
}

// What digits of queries whose greatest unit is `unit` may make of a score.
inline float ScoreErrorOf(const DecodeTile& decode, float unit) {
  const float factor = std::abs(FactorBeforeBias(*decode.tile->params));
  return 0.5f * unit * factor * 128.0f * static_cast<float>(decode.channels);
}

static_assert(ByteQueryWords(4) == ByteQuery::kHead + ByteQuery::kGroup);

HWY_INLINE int32_t* ByteQueryOf(const DecodeTile& decode, int64_t n) {
  return decode.scratch.query_digits + n * ByteQueryWords(decode.channels);
}

// Makes digits of queries that are there as floats, if all can be.
inline void LoadByteQueries(DecodeTile& decode, ByteDots byte_dots) {
  const ByteKernels* const kernels = ByteKernelsOf(byte_dots);
  if (kernels == nullptr || !TakesBytes(decode, *kernels)) return;
  float unit = 0;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    const MicroTile micro_tile = decode.At(n);
    if (kernels->dot[micro_tile.rows - 1] == nullptr) continue;
    const ByteQueryRows rows(ByteQueryOf(decode, n), micro_tile.rows,
                             decode.channels, kernels->digits_in_twos);
    for (int r = 0; r < micro_tile.rows; ++r) {
      unit = std::max(unit, rows.Store(r, micro_tile.query + r * Lanes()));
    }
  }
  // By row scales multiply it, step by step.
  const float error = ScoreErrorOf(decode, unit);
  const float allowed = AllowedScoreError(decode.tile->params->query.dtype);
  const bool by_row = decode.tile->keys.key.scaled_by_row();
  if (!(error <= (by_row ? 0x1p100f : allowed))) return;
  decode.max_key_scale = error == 0 ? 0x1p100f : allowed / error;
  decode.bytes = kernels;
  decode.byte_values = AreWholeBytes(decode.values, decode.tile->keys.values(),
                                     decode.tile->params->v_dim);
}

// Whether a step's scores are sums of bytes, whose keys' scales by row are
// `factors`, or null.
inline bool ScoresBytes(const DecodeTile& decode, const StepFactors* factors) {
  return decode.bytes != nullptr &&
         (factors == nullptr ||
          factors->AreWithin(-decode.max_key_scale, decode.max_key_scale));
}

// The same of its outputs. Digits of probs have no sign.
inline bool AddsBytes(const DecodeTile& decode, const StepFactors* factors) {
  return decode.byte_values && decode.row_sums == nullptr &&
         (factors == nullptr || factors->AreWithin(0.0f, 0x1p99f));
}

// Whether they multiply a micro-tile's.
HWY_INLINE bool HasByteKernels(const DecodeTile& decode, int rows) {
  return decode.bytes->dot[rows - 1] != nullptr;
}

// A step's rows go where others that do not stay where they lie go.
HWY_INLINE float* PackedBytes(const DecodeTile& decode) {
  return decode.tile->scratch.keys;
}

// Of what goes with outputs a quarter goes with packing, lines for every four
// rows; the rest the micro-tiles share.
HWY_INLINE int64_t LinesWithPacking(const DecodeTile& decode, int64_t count) {
  return CeilDiv(LinesWithOutputs(decode, count),
                 4 * CeilDiv(count, int64_t{4}));
}

// Three quarters of `lines`, as packing and softmax have a quarter: those of
// one micro-tile.
HWY_INLINE int64_t LinesOfMicroTile(const DecodeTile& decode, int64_t lines) {
  return CeilDiv(3 * lines, 4 * decode.micro_tiles());
}

inline void PackBytes(const DecodeTile& decode, const StepPlace& at, bool keys,
                      LinePrefetcher& prefetch) {
  PackArgs work;
  work.rows = keys ? at.rows.key : at.rows.value;
  work.shift = keys ? at.key_shift : at.value_shift;
  work.count = at.count();
  work.channels = keys ? decode.channels : decode.tile->params->v_dim;
  work.packed = PackedBytes(decode);
  work.prefetch = &prefetch;
  work.lines = decode.bytes->shares_lines && !keys
                   ? LinesWithPacking(decode, work.count)
                   : 0;
  keys ? decode.bytes->pack_keys(work) : decode.bytes->pack_values(work);
}

// What `as_floats` would compute of micro-tile `n`.
inline void DotMicroTileBytes(const DecodeTile& decode, int64_t n,
                              const QkTile& tile, const QkArgs& as_floats) {
  ByteQkArgs work;
  work.rows = as_floats.keys;
  work.shift = tile.key_shift;
  work.keys = PackedBytes(decode);
  work.count = as_floats.count;
  work.channels = decode.channels;
  work.query = ByteQueryOf(decode, n);
  work.offset = tile.offset;
  work.factor = as_floats.factor;
  work.prefetch = as_floats.prefetch;
  work.lines = LinesOfMicroTile(decode, LinesWithScores(decode, work.count));
  work.scores = tile.scores;
  decode.bytes->dot[tile.rows - 1](work);
}

inline void AddMicroTileBytes(const DecodeTile& decode, const PvTile& tile,
                              const PvArgs& as_floats) {
  BytePvArgs work;
  work.values = PackedBytes(decode);
  work.count = as_floats.count;
  work.prefetch = as_floats.prefetch;
  work.lines = LinesOfMicroTile(decode, LinesWithOutputs(decode, work.count));
  work.vectors = decode.values.vectors;
  work.probs = tile.probs;
  work.out = tile.out;
  decode.bytes->add[tile.rows - 1](work);
}

// All micro-tiles of a step: bytes(number, tile) for those that have a kernel
// of bytes, rest(tile) with `work` of that tile alone for others; the first has
// what is to be prefetched, unless they share it. `all` of `work` is used up: a
// copy of it would wait until what was just written to it has left the store
// buffer.
template <class Args, class Bytes, class Rest>
HWY_INLINE void ForByteTiles(const DecodeTile& decode, Args& work, Bytes bytes,
                             Rest rest) {
  LinePrefetcher nothing;
  LinePrefetcher* const first = work.prefetch;
  const auto all = work.all;
  for (int64_t n = 0; n < all.of_head; ++n) {
    const auto& tile = all.tiles[n];
    if (HasByteKernels(decode, tile.rows)) {
      bytes(n, tile);
    } else {
      work.all = {&tile, 1, 1, work.count};
      rest(tile);
    }
    if (!decode.bytes->shares_lines) work.prefetch = &nothing;
  }
  work.prefetch = first;
}

inline void DotBytesStep(const DecodeTile& decode, const DotKernels& dot,
                         QkArgs& work) {
  ForByteTiles(
      decode, work,
      [&](int64_t n, const QkTile& tile) {
        DotMicroTileBytes(decode, n, tile, work);
      },
      [&](const QkTile& tile) { dot.of[tile.rows - 1](work); });
}

inline void AddBytesStep(const DecodeTile& decode, const GemvKernels& kernels,
                         PvArgs& work) {
  ForByteTiles(
      decode, work,
      [&](int64_t, const PvTile& tile) {
        AddMicroTileBytes(decode, tile, work);
      },
      [&](const PvTile& tile) { kernels.add[tile.rows - 1](work); });
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_BYTES_INL_H_
