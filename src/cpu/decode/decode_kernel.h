// SPDX-License-Identifier: Apache-2.0
// The vector code of tiles of few rows, for the best instruction set that this
// processor has, and the plain numbers and addresses that are all it gets.
#pragma once

#include <cstdint>

#include "base/range.h"
#include "cpu/byte_dots.h"
#include "cpu/int16_dots.h"
#include "cpu/pair_dots.h"
#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// Scratch memory for one tile at a time, besides ForwardScratch.
struct DecodeScratch {
  float* key_offsets;  // [row]: what key offsets add to dot products
  float* query_sums;   // [row]: of a query's channels
  float* value_sums;   // [row]: what value offsets by row add to every output
  // [micro-tile]: queries as digits or integers of 16 bits, where keys have 8
  // (byte_args-inl.h, decode_int16-inl.h).
  int32_t* query_digits;
};

// Words of the digits of four queries of so many channels: sixteen of what
// belongs to rows, and sixteen for every four channels.
constexpr int64_t ByteQueryWords(int64_t channels) {
  return 16 + 4 * RoundUp(channels, 4);
}

struct DecodeArgs {
  ForwardTile tile;
  DecodeScratch scratch{};
  ByteDots byte_dots = ByteDots::kNone;
  bool half_dots = false;                   // ChooseHalfDots
  Int16Dots int16_dots = Int16Dots::kNone;  // where the problem allows them
  bool shares_conversions = false;          // ChooseSharedConversions
};

// Of tiles whose scratch memory ReserveDecode reserved.
struct DecodeKernels {
  // Computes the tiles of some kv heads and of the same rows and columns. They
  // share scratch memory, but for queries, scores, outputs, max and sum, query
  // rows and quantisation parameters. Columns on both sides of a multiple of
  // `split_keys` belong to splits of their own: each tile is changed to one
  // after the other, and its `split_out`, not null then, is that of the first.
  void (*attend)(DecodeArgs* tiles, int64_t count,
                 int64_t split_keys) = nullptr;

  // As of ForwardKernels.
  void (*combine)(const ForwardTile& tile, int64_t num_splits) = nullptr;

  bool has_pair_dots = false;   // PairDots::kInstruction
  bool has_byte_dots = false;   // ByteDots::kInstruction, kTwoByTwo
  bool has_half_dots = false;   // half_dots.h
  bool has_int16_dots = false;  // int16_dots.h
  bool has_shared_conversions = false;
  MatrixCode matrices = MatrixCode::kNone;
};

DecodeKernels Decode();

}  // namespace flashacl::cpu
