// SPDX-License-Identifier: Apache-2.0
// The tiles and the scratch memory of few rows.
#pragma once

#include <cstdint>

#include "cpu/decode/decode_kernel.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/piece_shape.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// All packed rows of a sequence and kv head in one tile.
TileShape DecodeTileShape(const AttentionProblem& problem,
                          Range sequence_rows = TileShape::kAnyRows);

// How many kv heads' tiles, of at most so many rows, go side by side: 1 where
// every head's keys lie by themselves, more where those of all heads of a
// position do, as memory is fastest where rows of all heads are read together,
// unless queries and sums of so many rows fill the caches. And how many splits
// follow each other, so that the first keys of the next are prefetched in time.
// Fewer of both where `workers` would not share that many `tiles` evenly. No
// result depends on either.
PieceShape DecodePiece(const AttentionProblem& problem, int64_t rows,
                       int64_t tiles, int64_t workers);

// The same of bundles of `heads`, once more is known of the tiles.
int64_t SplitsOfPiece(int64_t tiles, int64_t heads, int64_t workers);

// The most tiles there may be, where lengths are on the device.
int64_t MostDecodeTiles(const AttentionProblem& problem, Range sequence_rows);

struct DecodeWorkspace : ForwardWorkspace {
  ScratchLayout<DecodeScratch> decode;
};

// Who has scratch memory of its own: each worker, for so many tiles.
struct DecodeSharing {
  int64_t workers = 1;
  int64_t tiles_per_worker = 1;
};

// Reserves memory for tiles of a DecodeTileShape. Of the scratch memory,
// queries and outputs are [micro-tile][vector of channels, row, lane], scores
// [micro-tile][key, row], bits [row, 32 keys], and keys is where rows of either
// kind become floats, with one row of zeros at the end.
DecodeWorkspace ReserveDecode(const AttentionProblem& problem,
                              const TileShape& shape,
                              const DecodeSharing& sharing,
                              WorkspaceLayout& layout);

}  // namespace flashacl::cpu
