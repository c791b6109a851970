// SPDX-License-Identifier: Apache-2.0
// A tile of few rows: where its keys and values are, and how they are read.
//
// The addresses of a step's rows are found once for a head bundle; those of its
// other tiles are so many bytes after them. Keys and values are read from there
// into lanes, channel by channel, and are not packed, unless they must become
// floats first (Stage), are multiplied as integers (PackBytes) or lie in blocks
// that products do not read (JoinRows): then they are rows in scratch memory,
// one step at a time.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/decode/decode_kernel.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_DECODE_TILE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_TILE_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_TILE_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_TILE_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/decode/channel_order-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/score-inl.h"
#include "cpu/tile/keys-inl.h"
#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Where there is nothing but zeros.
HWY_INLINE std::byte* ZeroRow(const ScoreScratch& scratch) {
  return reinterpret_cast<std::byte*>(scratch.keys +
                                      kDecodeKeys * scratch.key_stride);
}

// Addresses of the rows of one step.
struct StepRows {
  Range step;
  bool absent = false;  // some key does not exist
  std::array<uint32_t, kDecodeKeys / 32 + 1> exists;
  const std::byte* key[kDecodeKeys];
  const std::byte* rope[kDecodeKeys];
  const std::byte* value[kDecodeKeys];

  // Keys that do not exist are where there is nothing but zeros.
  void Locate(const ForwardTile& tile, Range cols) {
    step = cols;
    absent = false;
    if (cols.empty()) return;
    absent = tile.keys.Locate(cols, key, rope, value);
    if (absent) ReplaceAbsent(tile.scratch);
    if (tile.keys.value.base == nullptr) {  // values are keys
      std::copy_n(key, cols.size(), value);
    }
  }

  void ReplaceAbsent(const ScoreScratch& scratch) {
    std::byte* const zeros = ZeroRow(scratch);
    std::fill_n(zeros, 4 * scratch.key_stride, std::byte{0});
    exists.fill(0);
    for (int64_t j = 0; j < step.size(); ++j) {
      if (key[j] != nullptr) {
        exists[static_cast<size_t>(j / 32)] |= 1u << (j % 32);
      } else {
        key[j] = rope[j] = value[j] = zeros;
      }
    }
  }
};

// Where the rows of one tile's step are: so many bytes after those of the first
// tile of its head bundle.
struct StepPlace {
  const StepRows& rows;
  int64_t key_shift = 0;
  int64_t rope_shift = 0;
  int64_t value_shift = 0;

  int64_t count() const { return rows.step.size(); }
  const std::byte* Key(int64_t j) const { return rows.key[j] + key_shift; }
  const std::byte* Rope(int64_t j) const { return rows.rope[j] + rope_shift; }
  const std::byte* Value(int64_t j) const {
    return rows.value[j] + value_shift;
  }
};

// How the rows of one kind are read.
struct Reading {
  const GemvKernels* kernels;
  const DotKernels* dot;  // of keys; theirs, or of 16 bits as they are
  bool staged;            // as floats, in scratch memory
  int64_t vectors;        // of channels
  int64_t bytes;          // of a row where it lies
  bool blocked;           // channels lie in blocks, of rows or of ropes
  ChannelOrder order;     // of channels in lanes
  // Bytes from piece to piece where products may read blocks as they lie; else
  // they are joined in scratch memory.
  int64_t piece_step;

  // Whether products read a step's rows as pieces. Zeros in place of a row that
  // does not exist are a row.
  bool pieces(const StepRows& rows) const {
    return piece_step != 0 && !rows.absent;
  }
};

// 0 where products cannot read pieces.
HWY_INLINE int64_t PieceStepOf(const RowSource& source, int64_t channels) {
  const ElementFormat& format = source.format;
  const bool pieces = HasPieces(format.dtype) && format.block_bytes > 0 &&
                      format.BytesOf(format.channel_block) == kPieceBytes &&
                      channels % (2 * format.channel_block) == 0;
  return pieces ? format.block_bytes : 0;
}

HWY_INLINE bool IsForRegisters(const RowSource& source, int64_t channels) {
  const int64_t block = source.format.channel_block;
  return GemvKernelsOf(source.format.dtype) != nullptr &&
         source.format.step == 1 && channels % Lanes() == 0 &&
         (block == 0 || channels % block == 0);
}

inline Reading ReadingOfKeys(const ForwardTile& tile) {
  const KvRows& rows = tile.keys;
  const int64_t channels = rows.key.channels + rows.rope.channels;
  const bool roped = rows.rope.base != nullptr;
  const bool direct =
      IsForRegisters(rows.key, rows.key.channels) &&
      (!roped || (IsForRegisters(rows.rope, rows.rope.channels) &&
                  rows.rope.format.dtype == rows.key.format.dtype));
  const DType dtype = direct ? rows.key.format.dtype : DType::kF32;
  const GemvKernels* const kernels = GemvKernelsOf(dtype);
  return {kernels,
          &kernels->dot,
          !direct,
          CeilDiv(channels, Lanes()),
          rows.key.format.BytesOf(rows.key.channels),
          rows.key.format.channel_block != 0 ||
              (roped && rows.rope.format.channel_block != 0),
          OrderOf(dtype),
          roped ? 0 : PieceStepOf(rows.key, rows.key.channels)};
}

inline Reading ReadingOfValues(const ForwardTile& tile) {
  const RowSource& source = tile.keys.values();
  const int64_t channels = tile.params->v_dim;
  const bool direct = IsForRegisters(source, channels);
  const DType dtype = direct ? source.format.dtype : DType::kF32;
  return {GemvKernelsOf(dtype),
          nullptr,
          !direct,
          CeilDiv(channels, Lanes()),
          source.format.BytesOf(channels),
          source.format.channel_block != 0,
          OrderOf(dtype),
          PieceStepOf(source, channels)};
}

// Whether scores are of pairs: what of keys fills no vector of them would need
// a product of its own.
inline bool AreWholePairs(const ForwardTile& tile, const Reading& keys) {
  constexpr int64_t kChannels = 2 * Lanes();
  return tile.dots != PairDots::kNone && tile.dots != PairDots::kMatrices &&
         !keys.staged && tile.keys.key.channels % kChannels == 0 &&
         tile.keys.rope.channels % kChannels == 0;
}

// Whether outputs are of pairs of keys, as probs may be rounded to bf16: of
// several micro-tiles. One waits for memory with floats, too
// (docs/notes/0066).
inline bool ArePairsOfKeys(const ForwardTile& tile, const Reading& values) {
  return tile.pairs_of_keys && tile.rows > 4 &&
         tile.dots != PairDots::kMatrices && !values.staged &&
         tile.keys.values().format.dtype == DType::kBf16 &&
         tile.params->v_dim % (2 * Lanes()) == 0;
}

// Whether scores are of fp16 as it is. Keys that are not staged have no steps
// between channels.
inline bool AreWholeHalves(const DecodeArgs& args, const Reading& keys) {
  const ForwardTile& tile = args.tile;
  const ScoreParams& params = *tile.params;
  const auto whole = [](int64_t channels) {
    return channels % (2 * Lanes()) == 0;
  };
  const auto dense = [](const ElementFormat& format) {
    return format.dtype == DType::kF16 && format.step == 1 &&
           format.channel_block == 0;
  };
  return args.half_dots && !keys.staged &&
         tile.keys.key.format.dtype == DType::kF16 && dense(params.query) &&
         (params.rope_dim == 0 || dense(params.query_rope)) &&
         whole(tile.keys.key.channels) && whole(tile.keys.rope.channels);
}

// Whether both products of keys and values may be on matrix registers, where
// these multiply bf16: rows are whole matrices.
inline bool AreWholeMatrices(const ForwardTile& tile, const Reading& keys,
                             const Reading& values) {
  const int64_t unit = std::max<int64_t>(2 * Lanes(), kMatrixNumbers);
  const auto whole = [&](int64_t channels) { return channels % unit == 0; };
  return tile.dots == PairDots::kMatrices && tile.rows >= kMinMatrixRows &&
         !keys.staged && !keys.blocked && !values.staged && !values.blocked &&
         whole(tile.keys.key.channels) && whole(tile.keys.rope.channels) &&
         whole(tile.params->v_dim);
}

// Takes rows of 16 bits by kernels that share conversions, where these have
// whole lines of bf16, or more than four rows.
inline void ShareConversions(const ForwardTile& tile, bool whole_lines,
                             DType dtype, Reading& reading) {
  if (reading.staged) return;
  if (dtype == DType::kBf16 && whole_lines && !reading.blocked) {
    reading.kernels = &kGemvPartedPairs;
    reading.order = ChannelOrder::kParts;
  } else if (tile.rows <= 4) {
    return;
  } else if (dtype == DType::kBf16) {
    reading.kernels = &kGemvBf16InTwos;
  } else if (dtype == DType::kF16) {
    reading.kernels = &kGemvF16InTwos;
  }
}

// What of a tile does not change from step to step.
struct DecodeTile {
  // Null as GCC 14 takes the first of no tiles for one that may be read.
  const ForwardTile* tile = nullptr;
  DecodeScratch scratch;
  Reading keys, values;
  int64_t channels;    // of queries and keys, whole vectors
  bool dequantises;    // keys are dequantised before they meet a query
  bool pairs;          // queries and keys are pairs (PairDots)
  bool halves;         // queries and keys are fp16 (half_dots.h)
  bool pairs_of_keys;  // values and probs meet as such (key_pairs-inl.h)
  // Whether scores, and sums of values, are made on matrix registers of bf16
  // (pair_matrices-inl.h).
  bool matrix_scores, matrix_values;
  // What multiplies 8-bit keys in integers, and values if these are so, of
  // micro-tiles for whose rows there is a kernel; null: floats.
  const ByteKernels* bytes;
  bool byte_values;
  // Whether scores, and outputs, are of integers of 16 bits (int16_dots.h).
  bool int16, int16_values;
  bool leaves_lines;    // scores by vectors prefetch less than they read
  float max_key_scale;  // by row, for scores of bytes
  std::byte* buffer[kDecodeKeys];  // a step's rows in scratch memory

  // Of the split that it is at.
  float out_unit;    // what multiplies outputs in the end
  bool skip_masked;  // hidden values may be infinite
  bool hides;        // some row does not see some key
  uint64_t stored;   // rows whose results are, a bit for each
  // Null: outputs are divided by their sums at the end. Else of each row the
  // sum by which its probs are divided before they meet values; 0 if it is
  // stored already.
  const float* row_sums;

  void Init(const DecodeArgs& args) {
    const ForwardTile& of = args.tile;
    tile = &of;
    scratch = args.scratch;
    keys = ReadingOfKeys(of);
    values = ReadingOfValues(of);
    channels = keys.vectors * Lanes();
    pairs = AreWholePairs(of, keys);
    halves = AreWholeHalves(args, keys);
    pairs_of_keys = ArePairsOfKeys(of, values);
    if (pairs_of_keys) {
      values.kernels =
          of.dots == PairDots::kInstruction ? &kGemvPairsAtOnce : &kGemvPairs;
    }
    matrix_scores = matrix_values = AreWholeMatrices(of, keys, values);
    if (args.shares_conversions) ShareConversionsOfProducts();
    bytes = nullptr;
    dequantises = byte_values = leaves_lines = false;
    int16 = int16_values = false;
    for (int64_t n = 0; n < kDecodeKeys; ++n) {
      float* const row = of.scratch.keys + n * of.scratch.key_stride;
      buffer[n] = reinterpret_cast<std::byte*>(row);
    }
  }

  // Not those of pairs, of halves or on matrix registers.
  void ShareConversionsOfProducts() {
    const KvRows& rows = tile->keys;
    const auto whole = [](int64_t count) { return count % (2 * Lanes()) == 0; };
    if (!pairs && !halves && !matrix_scores) {
      ShareConversions(*tile,
                       whole(rows.key.channels) && whole(rows.rope.channels),
                       rows.key.format.dtype, keys);
      keys.dot = &keys.kernels->dot;
    }
    if (!pairs_of_keys && !matrix_values) {
      ShareConversions(*tile, whole(tile->params->v_dim),
                       rows.values().format.dtype, values);
    }
  }

  int64_t micro_tiles() const { return CeilDiv(tile->rows, 4); }

  HWY_INLINE MicroTile At(int64_t n) const {
    const ScoreScratch& scratch = tile->scratch;
    const ForwardScratch& forward = tile->forward;
    const int64_t first = 4 * n;
    MicroTile micro_tile;
    micro_tile.query_rows = scratch.query_rows + first;
    micro_tile.rows =
        static_cast<int>(std::min<int64_t>(4, tile->rows - first));
    micro_tile.width = micro_tile.rows == 1 ? 1 : 4;
    micro_tile.query = scratch.query + first * channels;
    micro_tile.offset = this->scratch.key_offsets + first;
    micro_tile.out = forward.out + first * values.vectors * Lanes();
    micro_tile.max = forward.max + first;
    micro_tile.sum = forward.sum + first;
    micro_tile.scores = forward.scores + first * kDecodeScores;
    constexpr int64_t kWords = kDecodeKeys / 32 + 1;
    const auto bits = [&](uint32_t* words) -> BitWords {
      return {words + first * kWords, micro_tile.width, kWords, 1};
    };
    micro_tile.visible = bits(scratch.visible);
    micro_tile.kept = bits(scratch.kept);
    return micro_tile;
  }
};

HWY_INLINE bool ScalesProbs(const DecodeTile& decode) {
  return decode.tile->keys.values().scaled_by_row();
}

// Whether probs of a step are rounded to bf16 for pairs of keys: not those that
// were divided by sums, which may be subnormal.
HWY_INLINE bool RoundsProbs(const DecodeTile& decode) {
  return decode.pairs_of_keys && decode.row_sums == nullptr;
}

inline void ClearOut(const DecodeTile& decode, const MicroTile& micro_tile) {
  if (ScalesProbs(decode)) {
    const int64_t first =
        micro_tile.query_rows - decode.tile->scratch.query_rows;
    std::fill_n(decode.scratch.value_sums + first, 4, 0.0f);
  }
  std::fill_n(micro_tile.out, decode.values.vectors * micro_tile.rows * Lanes(),
              0.0f);
}

// Makes rows of floats of keys or values, in the first buffer, and dequantises
// them by `factors`, if these are not null.
inline void Stage(const DecodeTile& decode, const StepPlace& at, bool keys,
                  const StepFactors* factors) {
  const ForwardTile& tile = *decode.tile;
  const RowSource& source = keys ? tile.keys.key : tile.keys.values();
  const auto row_at = [&](int64_t j) { return keys ? at.Key(j) : at.Value(j); };
  const int64_t channels = keys ? source.channels : tile.params->v_dim;
  const bool roped = keys && tile.keys.rope.base != nullptr;
  const int64_t bytes = source.format.BytesOf(channels);
  const int64_t count = at.count();
  for (int64_t j = 0; j < count; ++j) {
    float* const to = reinterpret_cast<float*>(decode.buffer[j]);
    const std::byte* const row = row_at(j);
    if (row == ZeroRow(tile.scratch)) {
      std::fill_n(to, tile.scratch.key_stride, 0.0f);
      continue;
    }
    if (j + kPrefetchRows < count && source.format.channel_block == 0) {
      PrefetchRow(row_at(j + kPrefetchRows), bytes);
    }
    LoadChannels(source.format, row, channels, to);
    if (factors != nullptr) {
      DequantiseRow(factors->scale[j], factors->offset[j], channels, to);
    } else if (keys && decode.dequantises && source.quant.scale != nullptr) {
      Dequantise(source.quant.scale, source.quant.offset, channels, to);
    }
    int64_t used = channels;
    if (roped) {
      LoadChannels(tile.keys.rope.format, at.Rope(j), tile.keys.rope.channels,
                   to + used);
      used += tile.keys.rope.channels;
    }
    std::fill(to + used, to + RoundUp(used, Lanes()), 0.0f);
    ToLanes(keys ? decode.keys.order : decode.values.order,
            RoundUp(used, Lanes()), to);
  }
}

// Rows of a step whose channels lie in blocks, from so many bytes of each
// buffer on; row(j) is where row j begins.
template <typename Row>
inline void JoinBlocks(const DecodeTile& decode, const StepPlace& at,
                       const RowSource& source, int64_t channels, int64_t to,
                       const Row& row) {
  const ElementFormat& format = source.format;
  const std::byte* const zeros = ZeroRow(decode.tile->scratch);
  const auto join = [&](auto bytes) {
    int64_t from = 0;
    for (int64_t d = 0; d < channels; d += format.channel_block) {
      for (int64_t j = 0; j < at.count(); ++j) {
        const std::byte* const first = row(j);
        std::memcpy(decode.buffer[j] + to,
                    first == zeros ? zeros : first + from,
                    static_cast<size_t>(bytes));
      }
      from += format.block_bytes;
      to += bytes;
    }
  };
  // Those of CANN's caches have 32 bytes, whose copy is a register's where
  // the compiler knows it.
  const int64_t bytes = format.BytesOf(format.channel_block);
  if (bytes == 32) {
    join(std::integral_constant<int64_t, 32>());
  } else {
    join(bytes);
  }
}

// The rows of keys or values, and of ropes, of which one kind lies in blocks,
// where they lie close.
inline void JoinRows(const DecodeTile& decode, const StepPlace& at, bool keys) {
  const KvRows& rows = decode.tile->keys;
  const auto join = [&](const RowSource& source, int64_t channels, int64_t to,
                        const auto& row) {
    if (source.format.channel_block != 0) {
      return JoinBlocks(decode, at, source, channels, to, row);
    }
    for (int64_t j = 0; j < at.count(); ++j) {
      std::memcpy(decode.buffer[j] + to, row(j),
                  static_cast<size_t>(source.format.BytesOf(channels)));
    }
  };
  if (!keys) {
    return join(rows.values(), decode.tile->params->v_dim, 0,
                [&](int64_t j) { return at.Value(j); });
  }
  join(rows.key, rows.key.channels, 0, [&](int64_t j) { return at.Key(j); });
  if (rows.rope.base == nullptr) return;
  join(rows.rope, rows.rope.channels, decode.keys.bytes,
       [&](int64_t j) { return at.Rope(j); });
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_TILE_INL_H_
