// SPDX-License-Identifier: Apache-2.0
// Numbers that decide how many workers share a run; docs/notes/0040 says where
// they come from. They are no business of kernels, which see tuning.h alone.
#pragma once

#include <cstdint>

namespace flashacl::cpu {

// What loading a key and value, or a query and output, takes in multiply-adds
// per channel: 1.3 % of the time of 1024 rows, and 8 % of that of 128 keys
// (docs/notes/0012). And adding up one number of a split.
inline constexpr double kKeyLoadCost = 12;
inline constexpr double kRowLoadCost = 10;
inline constexpr double kCombineCost = 4;

// The fewest tiles of the forward direction, unless rows are few: so many for
// each worker, up to kEnoughTiles for all of them. Of two workers, 2 for each
// took as long as 4, 8 took 1.01 to 1.07 times as long, 32 took 1.04 to 1.16
// times (docs/notes/0012).
inline constexpr int64_t kTilesPerWorker = 4;
inline constexpr int64_t kEnoughTiles = 64;

// Where workers are many, tiles of the forward direction have fewer rows, but
// no fewer than kMinShareRows: so many that workers are busy for kMinBusy of
// the time. With kManyTiles tiles for each worker they are anyway.
inline constexpr int64_t kMinShareRows = 64;
inline constexpr double kMinBusy = 0.95;
inline constexpr int64_t kManyTiles = 16;

// Problems of fewer packed rows than kManyRows, which are 256 for each of 192
// workers, split their keys until rows and splits are so many, into splits of
// at least kManyRowsSplitKeys keys. Storing and adding up splits of so many
// takes 1 % of the time.
inline constexpr int64_t kManyRows = 192 * 256;
inline constexpr int64_t kManyRowsSplitKeys = 2048;

// Few rows: the keys of a split, a multiple of kDecodeKeys. A piece has as many
// heads as leave kBundlesPerWorker bundles of one split for each worker but the
// first; then as many splits as leave kSplitPiecesPerWorker pieces, at most
// kMostSplitsOfPiece (docs/notes/0051).
inline constexpr int64_t kFewRowsSplitKeys = 768;
inline constexpr int64_t kBundlesPerWorker = 8;
inline constexpr int64_t kSplitPiecesPerWorker = 16;
inline constexpr int64_t kMostSplitsOfPiece = 8;

// Gradients: the fewest tiles for each worker, unless a tile is one block of
// rows; and how many workers share a head whose tiles are interleaved with
// those of others, where there are as many heads.
inline constexpr int64_t kGradTilesPerWorker = 8;
inline constexpr int64_t kWorkersPerHead = 2;

// Listed keys: lists of kManyTopKRows heads and positions or fewer are split in
// three, of at least kTopKSplitKeys keys each. 64 lists of up to 128 heads are
// then three for each of 64 workers, and one for each of 192. Splits of so many
// rows of 512 channels take 101 MB.
inline constexpr int64_t kManyTopKRows = 128 * 128;
inline constexpr int64_t kTopKSplits = 3;
inline constexpr int64_t kTopKSplitKeys = 640;

}  // namespace flashacl::cpu
