// SPDX-License-Identifier: Apache-2.0
// Both products of a step, for all micro-tiles of a tile: which kernels take
// them, and where these find the step's rows.

#include <algorithm>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_DECODE_STEP_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_STEP_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_STEP_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_STEP_INL_H_
#endif

#include "cpu/decode/decode_bytes-inl.h"
#include "cpu/decode/decode_int16-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/pair_matrices-inl.h"
#include "cpu/decode/score-inl.h"
#include "cpu/decode/step_prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Keys where they lie, for all micro-tiles of a call.
inline QkArgs ScoreArgs(const DecodeTile& decode, const StepRows& at,
                        LinePrefetcher& prefetch) {
  const KvRows& rows = decode.tile->keys;
  QkArgs work;
  work.keys = at.key;
  work.ropes = rows.rope.base == nullptr ? nullptr : at.rope;
  work.prefetch = &prefetch;
  work.count = at.step.size();
  work.piece_step = 0;
  work.key_channels = rows.key.channels;
  work.rope_channels = rows.rope.channels;
  work.factor = FactorBeforeBias(*decode.tile->params);
  work.leaves_lines = decode.leaves_lines;
  return work;
}

// Values where they lie.
inline PvArgs AddArgs(const DecodeTile& decode, const StepRows& at,
                      LinePrefetcher& prefetch) {
  PvArgs work;
  work.values = at.value;
  work.prefetch = &prefetch;
  work.count = at.step.size();
  work.piece_step = 0;
  work.vectors = decode.values.vectors;
  return work;
}

// Micro-tile `n` as products take it; `as_floats` where its keys are staged.
inline QkTile QkTileOf(const DecodeTile& decode, int64_t n, int64_t key_shift,
                       int64_t rope_shift, bool as_floats = false) {
  const MicroTile micro_tile = decode.At(n);
  QkTile tile{micro_tile.rows,  key_shift,         rope_shift,
              micro_tile.query, micro_tile.offset, micro_tile.scores};
  if (decode.int16 && !as_floats) {
    const Int16Query query(decode, n);
    tile.query = query.words;
    tile.units = query.units;
    tile.starts = query.starts;
  }
  return tile;
}
inline PvTile PvTileOf(const MicroTile& micro_tile, int64_t shift) {
  return {micro_tile.rows, shift, micro_tile.scores, micro_tile.out};
}

// The scores of a step, for all micro-tiles; issues `prefetch` meanwhile.
inline void ScoreStep(const DecodeTile& decode, const StepPlace& at,
                      LinePrefetcher& prefetch) {
  if (decode.matrix_scores) return ScoreMatrixStep(decode, at, prefetch);
  const KvRows& rows = decode.tile->keys;
  QkArgs work = ScoreArgs(decode, at.rows, prefetch);
  StepFactors factors;
  const bool by_row = rows.key.scaled_by_row();
  if (by_row) factors.Load(rows, rows.key, at.rows.step);
  // A rope is not scaled, and what is not finite is by channel.
  const bool dequantises = by_row && (work.ropes != nullptr ||
                                      decode.dequantises || !factors.finite);
  const bool staged = decode.keys.staged || dequantises;
  const bool bytes =
      !staged && ScoresBytes(decode, by_row ? &factors : nullptr);
  const bool pieces = !staged && decode.keys.pieces(at.rows);
  const bool joined = !staged && !pieces && !bytes && decode.keys.blocked;
  if (bytes && decode.bytes->pack_keys != nullptr) {
    PackBytes(decode, at, true, prefetch);
  }
  if (staged) Stage(decode, at, true, dequantises ? &factors : nullptr);
  if (joined) JoinRows(decode, at, true);
  work.piece_step = pieces ? decode.keys.piece_step : 0;
  if (staged || decode.keys.blocked) {
    work.ropes = nullptr;
    work.key_channels = decode.channels;
  }
  const bool buffered = staged || joined;
  if (buffered) work.keys = decode.buffer;
  QkTile tiles[kDecodeRows / 4];
  const int64_t count = decode.micro_tiles();
  for (int64_t n = 0; n < count; ++n) {
    tiles[n] =
        QkTileOf(decode, n, buffered ? 0 : at.key_shift, at.rope_shift, staged);
  }
  const DotKernels& dot =
      staged ? GemvKernelsOf(DType::kF32)->dot : *decode.keys.dot;
  work.all = {tiles, 1, count, work.count};
  if (bytes) {
    DotBytesStep(decode, dot, work);
  } else {
    dot.of[tiles[0].rows - 1](work);
  }
  if (!by_row || dequantises) return;
  for (int64_t n = 0; n < count; ++n) {
    ScaleMicroTileScores(decode.At(n), decode.scratch.query_sums + 4 * n,
                         factors, {work.count, work.factor});
  }
}

// out += probs * values where hidden values may be infinite: they must not be
// multiplied, as 0 * inf would be NaN. Probs are rounded where pairs of keys
// have them so.
inline void AddSeen(const DecodeTile& decode, const MicroTile& micro_tile,
                    const StepPlace& at, const StepFactors* factors) {
  const RowSource& source = decode.tile->keys.values();
  const int64_t v_dim = decode.tile->params->v_dim;
  float* const value = decode.tile->scratch.staging;
  for (int64_t j = 0; j < at.count(); ++j) {
    if (at.Value(j) == ZeroRow(decode.tile->scratch)) continue;
    LoadChannels(source.format, at.Value(j), v_dim, value);
    if (factors != nullptr) {
      DequantiseRow(factors->scale[j], factors->offset[j], v_dim, value);
    }
    std::fill(value + v_dim, value + RoundUp(v_dim, Lanes()), 0.0f);
    ToLanes(decode.values.order, RoundUp(v_dim, Lanes()), value);
    for (int r = 0; r < micro_tile.rows; ++r) {
      const uint32_t word = micro_tile.visible.At(r, j / 32);
      if (((word >> (j % 32)) & 1u) == 0) continue;
      Vector prob = hn::Set(kF, micro_tile.scores[j * micro_tile.width + r]);
      if (RoundsProbs(decode)) prob = RoundToBf16(prob);
      for (int64_t v = 0; v < decode.values.vectors; ++v) {
        float* const out = micro_tile.out + (v * micro_tile.rows + r) * Lanes();
        hn::Store(hn::MulAdd(hn::LoadU(kF, value + v * Lanes()), prob,
                             hn::Load(kF, out)),
                  kF, out);
      }
    }
  }
}

// The values of a step, for all micro-tiles; issues `prefetch` meanwhile.
inline void AddStep(const DecodeTile& decode, const StepPlace& at,
                    LinePrefetcher& prefetch) {
  const KvRows& rows = decode.tile->keys;
  StepFactors factors;
  const bool by_row = ScalesProbs(decode);
  if (by_row) factors.Load(rows, rows.values(), at.rows.step);
  if (decode.skip_masked) {
    for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
      AddSeen(decode, decode.At(n), at, by_row ? &factors : nullptr);
    }
    return;
  }
  if (decode.matrix_values && decode.row_sums == nullptr) {
    return AddMatrixStep(decode, at, prefetch);
  }
  const bool dequantises = by_row && !factors.finite;
  const bool staged = decode.values.staged || dequantises;
  const bool bytes = !staged && AddsBytes(decode, by_row ? &factors : nullptr);
  const bool int16 = AddsInt16(decode, by_row ? &factors : nullptr);
  const bool pieces = !staged && decode.values.pieces(at.rows);
  const bool joined = !staged && !pieces && !bytes && decode.values.blocked;
  PvArgs work = AddArgs(decode, at.rows, prefetch);
  work.piece_step = pieces ? decode.values.piece_step : 0;
  if (bytes) PackBytes(decode, at, false, prefetch);
  if (staged) Stage(decode, at, false, dequantises ? &factors : nullptr);
  if (joined) JoinRows(decode, at, false);
  const bool buffered = staged || joined;
  if (buffered) work.values = decode.buffer;
  PvTile tiles[kDecodeRows / 4];
  const int64_t count = decode.micro_tiles();
  for (int64_t n = 0; n < count; ++n) {
    const MicroTile micro_tile = decode.At(n);
    tiles[n] = PvTileOf(micro_tile, buffered ? 0 : at.value_shift);
    if (by_row && !dequantises) {
      ScaleMicroTileProbs(micro_tile, factors, work.count,
                          decode.scratch.value_sums + 4 * n);
    }
  }
  const bool as_floats = (decode.int16_values && !int16) ||
                         (decode.pairs_of_keys && !RoundsProbs(decode));
  const DType dtype = staged ? DType::kF32 : rows.values().format.dtype;
  const GemvKernels& kernels =
      staged || as_floats ? *GemvKernelsOf(dtype) : *decode.values.kernels;
  work.all = {tiles, 1, count, work.count};
  if (bytes) return AddBytesStep(decode, kernels, work);
  kernels.add[tiles[0].rows - 1](work);
}

// Whether products read a tile's rows where they lie, not on matrix registers
// nor as bytes, and scale nothing by row: then tiles of several heads may share
// a call.
inline bool ReadsInPlace(const DecodeTile& decode) {
  const KvRows& rows = decode.tile->keys;
  return !decode.matrix_scores && !decode.matrix_values &&
         decode.bytes == nullptr && !decode.keys.staged &&
         !decode.keys.blocked && !decode.values.staged &&
         !decode.values.blocked && rows.value.base != nullptr &&
         !rows.key.scaled_by_row() && !ScalesProbs(decode);
}

// Whether scores by vectors leave lines to the softmax, which takes four at a
// time. Four rows with few registers take three, and a reader of sections must
// not take both: lines would be missed.
inline bool LeavesLines(const DecodeTile& decode) {
  const bool takes_three = kVectorRegisters < 32 && decode.tile->rows >= 4;
  return LeavesLinesToSoftmax(decode) && !takes_three && ReadsInPlace(decode);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_STEP_INL_H_
