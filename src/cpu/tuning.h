// SPDX-License-Identifier: Apache-2.0
// Numbers that only measurement can justify, each with where it came from.
#pragma once

#include <cstdint>

namespace flashacl::cpu {

// The most packed rows of one tile. Keys and values are converted once per
// tile, so their cost falls with its rows: from 256 to 512 to 1024 rows,
// attention at 64 channels went from 0.78 to 0.80 to 0.81 of the FMA peak
// (docs/notes/0012). A problem with too few tiles of that size for its workers
// (share_tuning.h) gets smaller ones, down to kMinRows.
inline constexpr int64_t kMaxRows = 1024;
inline constexpr int64_t kMinRows = 128;

// Rows of tiles are multiples of this: whole panels of every instruction set.
inline constexpr int64_t kRowUnit = 32;

// What a tile's queries and outputs may take, in second caches and at all. They
// are streamed, once per step; keys and values, which every panel reads, matter
// more: at 512 channels 256 rows gave 0.85 of the peak, 64 gave 0.78.
inline constexpr double kRowShare = 2.0;
inline constexpr double kMaxRowBytes = 2 << 20;

// The most keys of one step, their unit, and the share of a second cache that a
// step's keys and values may fill. 144 keys of 128 channels are 147 KiB.
inline constexpr int64_t kMaxColumns = 144;
inline constexpr int64_t kColumnUnit = 12;
inline constexpr double kColumnShare = 0.3;

// Keys of a step, whoever multiplies.
inline constexpr int64_t kMaxStepKeys = 192;

// The same where matrix registers multiply (docs/notes/0045): whole matrices of
// 32 keys, and fewer tiles, as arithmetic is so fast that loading a tile's keys
// counts twice.
inline constexpr int64_t kEnoughMatrixTiles = 8;
inline constexpr int64_t kMaxMatrixColumns = 192;
inline constexpr int64_t kMatrixColumnUnit = 32;
inline constexpr double kMatrixColumnShare = 0.3;

// Blocks of a panel along k, 2 KiB for each term, that stay in a first cache
// while all rows meet them. Panels of kMostPanelBlocks or fewer are not parted,
// as sums are stored in between. Scores of 576 channels took 1 / 1.05 of the
// time (docs/notes/0045).
inline constexpr int64_t kPanelBlocks = 8;
inline constexpr int64_t kMostPanelBlocks = 12;

// Channels of one partial sum of scores: 256 channels of 16 query rows are
// 16 KiB, half of a first cache.
inline constexpr int64_t kDepth = 256;

// The fewest keys of a split, of which each is a tile.
inline constexpr int64_t kSplitKeys = 1024;

// Only so many packed rows are split, unless all rows are few (share_tuning.h):
// more of them keep a worker busy, and splits take little memory.
inline constexpr int64_t kMaxSplitRows = 64;

// The most packed rows per kv head whose keys are streamed rather than
// converted once per tile, at all. MostFewRows (decode/few_rows.h) says how
// many are on a machine, up to kFewRows where nothing better is known of it.
inline constexpr int64_t kDecodeRows = 64;
inline constexpr int64_t kFewRows = 40;

// The same of heads per kv head whose keys are listed, with vectors of so many
// bits (docs/notes/0073).
inline constexpr int64_t kFewHeadsOf512 = 24;
inline constexpr int64_t kFewHeadsOf256 = 12;

// Tensors with room for fewer keys than kFewKeys are faster in tiles of one
// panel. With AVX-512 rows are streamed as far as two panels where there is
// room for so many keys; of 16 bits, which tiles convert fast, where keys and
// values have so many channels together (docs/notes/0070).
inline constexpr int64_t kFewKeys = 64;
inline constexpr int64_t kKeysOfTwoPanels = 1024;
inline constexpr int64_t kChannelsOfTwoPanels = 256;

// Keys of one step of few rows: 48 rows of 256 bytes stay in a first cache
// while all their channels are summed; a multiple of all the numbers of keys
// that are computed at a time.
inline constexpr int64_t kDecodeKeys = 48;

// The fewest rows whose products with rows of 8 bits are sums of bytes, which
// are packed first: of 4 and 5 these took as long as floats, of 6 and more 0.75
// to 0.9 of their time (docs/notes/0047). On matrix registers keys are not
// packed, and two rows took 0.85 of the time of floats, one row 1.1. ARM takes
// more instructions to convert bytes than to pack them (docs/notes/0044).
#if defined(__aarch64__)
inline constexpr int64_t kMinByteRows = 1;
#else
inline constexpr int64_t kMinByteRows = 6;
#endif
inline constexpr int64_t kMinMatrixByteRows = 2;

// The fewest rows whose products with rows of bf16 are on matrix registers: 5
// took 0.9 of the time of floats, 8 took 0.75 (docs/notes/0045).
inline constexpr int64_t kMinMatrixRows = 5;

// The most kv heads whose tiles go side by side, and the most bytes of a key
// and a value of all of them. Memory is fastest where rows of all heads touch:
// 32 heads of 256 bytes reached 20.2 GB/s, 16 of them 18.4. 8-bit rows take
// longer to convert than to fetch, and the sums of fewer tiles stay closer: 16
// heads of 128 bytes reached 12.2, 32 of them 11.9 (docs/notes/0013).
inline constexpr int64_t kDecodeHeadBundle = 32;
inline constexpr int64_t kDecodeHeadBundleBytes = 16384;
inline constexpr int64_t kDecodeHeadBundleBytes8 = 4096;

// Of many rows fewer heads go side by side, as their queries and sums leave no
// room in the caches: at most as many as have kDecodeBundleRows packed rows
// together, or kDecodeHeadsOfManyRows if these are more. Of 4 to 48 rows 8
// heads of 128 channels took 1 / 1.07 to 1 / 1.16 of the time of 32 on Zen 4
// (docs/notes/0070).
inline constexpr int64_t kDecodeBundleRows = 64;
inline constexpr int64_t kDecodeHeadsOfManyRows = 8;

// Micro-tiles of four rows of a bundle.
inline constexpr int64_t kDecodeBundleTiles =
    kDecodeHeadsOfManyRows * kDecodeRows / 4;
static_assert(kDecodeBundleTiles >= kDecodeHeadBundle &&
              kDecodeBundleTiles >= kDecodeBundleRows);

// How many keys of all heads of a bundle are read before any head goes on,
// where a key of all heads is so long, or keys lie apart: as many as some lines
// of values have, whatever their type (docs/notes/0057).
inline constexpr int64_t kDecodeKeysAtATime = 8;
inline constexpr int64_t kDecodeLongRowBytes = 8192;

// Keys or values of a step, of all heads of a bundle, whose values are
// prefetched a step ahead: with 12 and 24 KiB of 16 bits and four rows or more
// decode was 1.1 to 1.25 times as fast so on Zen 4, with 48 KiB as fast, with
// 96 KiB 0.97 to 1.06 times. And the fewest keys of a piece: 256 from memory
// gained 1.1, 128 from a cache lost 0.06 (docs/notes/0063).
inline constexpr int64_t kDecodeAheadBytes = 24 << 10;
inline constexpr int64_t kDecodeAheadKeys = 5 * kDecodeKeys;

// Scores of a row of one step, with room for what passes their end.
inline constexpr int64_t kDecodeScores = kDecodeKeys + 16;

// How many rows before its use a row is prefetched again, after its prefetch a
// step before: rows that lie a power of two apart share a few sets of every
// cache, and push each other out before their step comes.
inline constexpr int64_t kPrefetchRows = 6;

// Lines prefetched at a time, at most: Zen 3 drops what passes about twenty
// under way (docs/notes/0012). More of what panels of AVX-512 load and store,
// and of rows of gradients: of 16 at a time too few came before they were
// needed, on Zen 5 (docs/notes/0012, 0014). And rows that can wait in a
// PrefetchQueue.
inline constexpr int64_t kMaxPrefetchLines = 16;
inline constexpr int64_t kMaxRowPrefetchLines = 48;
inline constexpr int64_t kMaxPrefetchRows = 3 * kMaxStepKeys;

// Lines of listed rows at a time, at most, but for matrix registers: 16 heads
// with values of their own have 23 after each block. With 16 a third of their
// rows were not prefetched, and forward took 1.03 to 1.08 of the time on Zen 4
// (docs/notes/0015).
inline constexpr int64_t kMaxListedPrefetchLines = 24;

// Listed keys: heads of one item at most, the share of a second cache that a
// step's keys may fill if they are floats, and how far lists are split that are
// fewer than kMinTopKItems items (of more: share_tuning.h): to
// kMinTopKSplitKeys at least.
inline constexpr int64_t kMaxTopKRows = 256;
inline constexpr double kTopKCacheShare = 0.4;
inline constexpr int64_t kMinTopKItems = 16;
inline constexpr int64_t kMinTopKSplitKeys = 256;

// Gradients over listed keys. p and ds of the positions of a stage are saved by
// one stage and read by the next, and take kSavedPdsBytes twice, or more for a
// position of each worker. A stage takes at most kMaxStageKeys of a list. A kv
// block has as many rows as make a position list kKeysPerKvBlock of them, and a
// d block as many channels as make both that share of a second cache, at most
// kMaxDBlockBytes: half of that would read p and ds twice as often. Some keys
// take as many channels at a time as keep the rows of all heads in
// kDBlockOperandBytes (docs/notes/0015). Sequences of few keys share
// kKvGradBytes.
inline constexpr int64_t kSavedPdsBytes = 32 << 20;
inline constexpr int64_t kMinStagePositions = 2;
inline constexpr int64_t kMaxStagePositions = 256;
inline constexpr int64_t kMaxStageKeys = 4096;
inline constexpr int64_t kKeysPerKvBlock = 64;
inline constexpr double kDBlockShare = 0.5;
inline constexpr double kMaxDBlockBytes = 512 << 10;
inline constexpr int64_t kDBlockOperandBytes = 32 << 10;
inline constexpr int64_t kKvGradBytes = 64 << 20;

// Backward: the most packed rows of one tile, and of those whose P and dS are
// kept at a time; the most keys of one step.
inline constexpr int64_t kMaxGradRows = 1024;
inline constexpr int64_t kGradRowBlock = 128;
inline constexpr int64_t kMaxGradColumns = 96;

// The same beside a second cache of kLargeSecondCache bytes, unless P and dS
// are rounded or matrix registers multiply, which take whole matrices:
// sequences of 128 keys are one step then, and sums of gradients are loaded and
// stored less often. On a Xeon with 2 MiB 128 keys took 0.93 to 0.95 of the
// time, and 2048 keys 0.98; on Zen 5, with 1 MiB, steps of 128 took up to 1.04
// (docs/notes/0014, 0060).
inline constexpr int64_t kMaxGradColumnsOfLarge = 132;
inline constexpr int64_t kLargeSecondCache = 2 << 20;

// What the rows of a tile may take: five arrays of them are streamed once per
// step.
inline constexpr double kMaxGradRowBytes = 4 << 20;

// The same share of a second cache where matrix registers multiply, which take
// rows faster than a third cache has them (docs/notes/0045).
inline constexpr double kMatrixGradRowShare = 0.4;

// Sequences and kv heads that are computed at a time, at most, unless workers
// are many (share_tuning.h): each has a copy of the gradients of its keys.
inline constexpr int64_t kMaxInterleaved = 16;

// What sums of gradients of keys that several tiles add to may take: four times
// the gradients of queries in fp32, but at least and at most so much. Where one
// kv head needs more, its keys are swept twice, and steps of keys are computed
// so many at a time.
inline constexpr double kMinSumBytes = 16 << 20;
inline constexpr double kMaxSumBytes = 1 << 30;
inline constexpr int64_t kSweptSteps = 8;

// The share of a second cache that a step's keys, values and their gradients
// may fill.
inline constexpr double kGradColumnShare = 0.45;

}  // namespace flashacl::cpu
