// SPDX-License-Identifier: Apache-2.0
// The queries of a tile of few rows, packed once, as [micro-tile][vector of
// channels, row, lane]: as floats, with which key scales are combined, as key
// offsets are with their dot products; or those of 16 bits as they are. For
// matrix registers they lie as [pair of channels][column]
// (pair_matrices-inl.h).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/number.h"

#if defined(FLASHACL_CPU_DECODE_DECODE_QUERY_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_QUERY_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_QUERY_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_QUERY_INL_H_
#endif

#include "cpu/decode/decode_bytes-inl.h"
#include "cpu/decode/decode_int16-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/pair_matrices-inl.h"
#include "cpu/tile/queries-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline float SumOf(const float* row, int64_t count) {
  double sum = 0;
  for (int64_t d = 0; d < count; ++d) sum += row[d];
  return static_cast<float>(sum);
}

// Whether the instruction may take a row of queries: it makes 0 of what is
// subnormal, and NaN of infinity times that. Queries that are subnormal it must
// not see. What it then loses of keys, products and sums is below 2^-92 for
// each channel, before the scale.
HWY_INLINE bool AreForInstruction(const std::byte* row, int64_t channels) {
  constexpr int kLeast = 0x0080, kGreatest = 0x4FFF;  // without the sign
  int other = 0;
  for (int64_t d = 0; d < channels; ++d) {
    const int bits = flashacl::Load<uint16_t>(row + 2 * d) & 0x7FFF;
    other |= static_cast<int>(bits != 0) &
             static_cast<int>(bits < kLeast || bits > kGreatest);
  }
  return other == 0;
}

// `words` of a query row to its vectors.
HWY_INLINE void StoreQueryRow(const DecodeTile& decode, int64_t n, int r,
                              int64_t words, const float* HWY_RESTRICT row) {
  const int rows = decode.At(n).rows;
  float* const query = decode.tile->scratch.query + 4 * n * decode.channels;
  for (int64_t d = 0; d < words; d += Lanes()) {
    hn::Store(hn::LoadU(kF, row + d), kF, query + d * rows + r * Lanes());
  }
}

// Queries of 16 bits as they are, [vector of pairs, row, lane]. Returns whether
// those of bf16 are for the instruction.
inline bool LoadMicroTileWords(const DecodeTile& decode, int64_t n) {
  const ForwardTile& tile = *decode.tile;
  const ScoreParams& params = *tile.params;
  const MicroTile micro_tile = decode.At(n);
  float* const row = tile.scratch.staging;
  auto* const bytes = reinterpret_cast<std::byte*>(row);
  bool fit = true;
  for (int r = 0; r < micro_tile.rows; ++r) {
    const QueryRow& query_row = micro_tile.query_rows[r];
    const auto size = static_cast<size_t>(2 * params.qk_dim);
    std::memcpy(bytes, query_row.query, size);
    if (params.rope_dim > 0) {
      std::memcpy(bytes + size, query_row.query_rope,
                  static_cast<size_t>(2 * params.rope_dim));
    }
    if (decode.pairs) {
      fit = AreForInstruction(bytes, params.score_dim()) && fit;
    }
    StoreQueryRow(decode, n, r, decode.channels / 2, row);
  }
  return fit;
}

// Queries of all rows for matrix registers, some at a time. Returns whether
// they are for these, which make 0 of what is subnormal, too.
inline bool LoadMatrixQueries(const DecodeTile& decode) {
  const ForwardTile& tile = *decode.tile;
  const ScoreParams& params = *tile.params;
  const int64_t words = params.score_dim() / 2, own = params.qk_dim / 2;
  for (int64_t r = 0; r < RoundUp(tile.rows, kQueriesAtOnce); r += 4) {
    float* const to =
        MatrixQueries(decode, r / kQueriesAtOnce) + r % kQueriesAtOnce;
    // Four words are all of a rope, or none is: each has whole matrices.
    for (int64_t k = 0; k < words; k += 4) {
      const auto load = [&](int64_t n) HWY_ATTR {
        if (r + n >= tile.rows) return hn::Zero(kQ);
        const QueryRow& row = tile.scratch.query_rows[r + n];
        const std::byte* const at =
            k < own ? row.query + 4 * k : row.query_rope + 4 * (k - own);
        return hn::LoadU(kQ, reinterpret_cast<const float*>(at));
      };
      Quads quads{{load(0), load(1), load(2), load(3)}};
      quads.Transpose();
      HWY_UNROLL_ALL
      for (int64_t n = 0; n < 4; ++n) {
        hn::Store(quads.at[n], kQ, to + (k + n) * kQueriesAtOnce);
      }
    }
  }
  bool fit = std::abs(params.scale) <= 0x1p32f;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const QueryRow& row = tile.scratch.query_rows[r];
    fit = fit && AreForInstruction(row.query, params.qk_dim) &&
          (params.rope_dim == 0 ||
           AreForInstruction(row.query_rope, params.rope_dim));
  }
  return fit;
}

// Queries as the products read them. 8-bit keys are scale * (x + offset) by
// channel: the scale goes into the query, and what the offset adds to every
// score of a row is one dot product. Returns whether all of those are finite.
inline bool LoadMicroTileFloats(const DecodeTile& decode, int64_t n) {
  const ForwardTile& tile = *decode.tile;
  const ScoreParams& params = *tile.params;
  const MicroTile micro_tile = decode.At(n);
  float* const row = tile.scratch.staging;
  const QuantParams quant =
      decode.dequantises ? QuantParams{} : tile.keys.key.quant;
  bool finite = true;
  const int64_t used = params.score_dim();
  for (int r = 0; r < micro_tile.rows; ++r) {
    const QueryRow& query_row = micro_tile.query_rows[r];
    LoadQuery(params, query_row, row);
    std::fill(row + used, row + decode.channels, 0.0f);
    double offset = 0;
    if (quant.scale != nullptr) {
      for (int64_t d = 0; d < params.qk_dim; ++d) row[d] *= quant.scale[d];
    }
    if (quant.offset != nullptr) {
      for (int64_t d = 0; d < params.qk_dim; ++d) {
        offset += static_cast<double>(row[d]) * quant.offset[d];
      }
    }
    if (tile.keys.key.scaled_by_row()) {
      // Without offsets nothing is added, and 0 * inf would be NaN.
      const bool offsets = tile.keys.key.row_offset.base != nullptr;
      const float sum = offsets ? SumOf(row, params.qk_dim) : 0.0f;
      decode.scratch.query_sums[4 * n + r] = sum;
      finite = finite && std::isfinite(sum);
    }
    finite = finite && std::isfinite(offset);
    decode.scratch.key_offsets[4 * n + r] = static_cast<float>(offset);
    ToLanes(decode.keys.order, decode.channels, row);
    StoreQueryRow(decode, n, r, decode.channels, row);
  }
  return finite;
}

inline void LoadQueries(DecodeTile& decode, const DecodeArgs& args) {
  const int64_t rows = 4 * decode.micro_tiles();
  std::fill_n(decode.scratch.key_offsets, rows, 0.0f);
  if (decode.tile->keys.key.scaled_by_row()) {
    std::fill_n(decode.scratch.query_sums, rows, 0.0f);
  }
  if (decode.matrix_scores) {
    decode.matrix_scores = LoadMatrixQueries(decode);
    if (decode.matrix_scores) return;
  }
  const bool as_they_are = decode.pairs || decode.halves;
  bool all = true;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    all = (as_they_are ? LoadMicroTileWords(decode, n)
                       : LoadMicroTileFloats(decode, n)) &&
          all;
  }
  if (decode.halves) {
    decode.keys.dot = &kDotHalves;
    return;
  }
  if (decode.pairs) {
    const bool at_once = decode.tile->dots == PairDots::kInstruction && all &&
                         std::abs(decode.tile->params->scale) <= 0x1p32f;
    decode.keys.dot = &(at_once ? kGemvPairsAtOnce : kGemvPairs).dot;
    return;
  }
  if (all) {
    LoadInt16Queries(decode, args.int16_dots);
    if (!decode.int16) LoadByteQueries(decode, args.byte_dots);
    return;
  }
  // inf * x and inf * offset may cancel where inf * (x + offset) is one.
  decode.dequantises = decode.keys.staged = true;
  decode.keys.order = ChannelOrder::kTheirOwn;
  decode.keys.kernels = GemvKernelsOf(DType::kF32);
  decode.keys.dot = &decode.keys.kernels->dot;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    LoadMicroTileFloats(decode, n);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_QUERY_INL_H_
