// SPDX-License-Identifier: Apache-2.0
// The decode loop over tiles of few rows: a stream of keys and values, each
// read once and met by all rows.
//
// Channels lie in lanes, and elements become floats in registers, but for those
// of 16 bits that an instruction takes as they are (gemv_elements-inl.h); what
// registers cannot take - odd channels, strided elements - becomes floats in
// scratch memory first, a few keys at a time; elements of 8 bits may be
// multiplied as integers (decode_int16-inl.h, decode_bytes-inl.h), and bf16 of
// many rows on matrix registers (pair_matrices-inl.h). Queries are packed once.
// The outer loop is over steps of keys; inside, all tiles of a head bundle
// score the keys of the step, then all add its values, micro-tile by
// micro-tile; tiles that are read where they lie share calls, and may go
// through a few keys at a time, all of them before any goes on. Outputs stay
// unnormalized in scratch memory until the last step of a split; a row's sink
// joins then, and it is divided by its sum, or is a split to be combined.
// Splits of the same rows may follow each other: queries are packed once for
// all of them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_DECODE_INL_H_
#undef FLASHACL_CPU_DECODE_DECODE_INL_H_
#else
#define FLASHACL_CPU_DECODE_DECODE_INL_H_
#endif

#include "cpu/decode/decode_query-inl.h"
#include "cpu/decode/decode_result-inl.h"
#include "cpu/decode/decode_split-inl.h"
#include "cpu/decode/decode_step-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/score-inl.h"
#include "cpu/decode/step_prefetch-inl.h"
#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/result-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline void RescaleOut(const DecodeTile& decode, const MicroTile& micro_tile,
                       const float* HWY_RESTRICT rescale) {
  if (ScalesProbs(decode)) {
    float* const sums =
        decode.scratch.value_sums +
        (micro_tile.query_rows - decode.tile->scratch.query_rows);
    for (int r = 0; r < micro_tile.rows; ++r) sums[r] *= rescale[r];
  }
  float* HWY_RESTRICT out = micro_tile.out;
  for (int64_t v = 0; v < decode.values.vectors; ++v) {
    for (int r = 0; r < micro_tile.rows; ++r) {
      hn::Store(hn::Mul(hn::Load(kF, out), hn::Set(kF, rescale[r])), kF, out);
      out += Lanes();
    }
  }
}

// Probs are divided by the sums of their rows.
inline void NormalizeProbs(const DecodeTile& decode,
                           const MicroTile& micro_tile, int64_t count) {
  const ForwardTile& tile = *decode.tile;
  const int64_t first = micro_tile.query_rows - tile.scratch.query_rows;
  for (int r = 0; r < micro_tile.rows; ++r) {
    const float factor = NormalizerOf(tile, decode.row_sums[first + r]);
    for (int64_t j = 0; j < count; ++j) {
      micro_tile.scores[j * micro_tile.width + r] *= factor;
    }
  }
}

// Scores of a step become probs.
inline void SoftmaxStep(DecodeTile& decode, const StepRows& at,
                        const MicroTile& micro_tile) {
  const ForwardTile& tile = *decode.tile;
  const ScoreParams& params = *tile.params;
  const Range cols = at.step;
  if (params.biased || params.masked) {
    PrefetchBiasAndMask(tile, micro_tile, cols);
  }
  if (params.biased) AddMicroTileBias(tile, micro_tile, cols);
  if (params.alibi) AddMicroTileAlibi(tile, micro_tile, cols);
  const int64_t first = micro_tile.query_rows - tile.scratch.query_rows;
  const Range rows = tile.positions({first, first + micro_tile.rows});
  const bool full = tile.band.Classify(rows, cols) == TileKind::kFull &&
                    !params.masked && !at.absent;
  if (!full || decode.skip_masked) {
    const Visible visible =
        FillVisible(tile, micro_tile.query_rows, micro_tile.rows, cols,
                    at.absent ? at.exists.data() : nullptr, micro_tile.visible);
    if (!visible.all) {
      decode.hides = true;
      ReplaceUnset(micro_tile, micro_tile.visible, cols.size(), kMinusInfinity);
    }
  }
  const int64_t count = cols.size() * micro_tile.width;
  std::fill(micro_tile.scores + count,
            micro_tile.scores + RoundUp(count, Width()), kMinusInfinity);
  float rescale[4];
  if (MicroTileSoftmax{micro_tile}.OnlineSoftmax(cols.size(), rescale)) {
    RescaleOut(decode, micro_tile, rescale);
  }
  if (params.dropped) {
    FillKept(tile, micro_tile.query_rows, micro_tile.rows, cols,
             micro_tile.kept);
    ReplaceUnset(micro_tile, micro_tile.kept, cols.size(), 0.0f);
  }
  if (decode.row_sums != nullptr) {
    NormalizeProbs(decode, micro_tile, cols.size());
  }
}

// What of a step's rows lies side by side where channels lie in blocks: of each
// block those of some rows.
struct BlockRuns {
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kMaxRuns = 32 * kDecodeKeys / kRows;
  const std::byte* at[kMaxRuns];

  // Of the rows `which`; what lies apart or does not fit is not prefetched.
  LinePrefetcher Of(const RowSource& source, int64_t channels,
                    const std::byte* const* rows, Range which) {
    const std::byte** end = at;
    int64_t from = 0;
    for (int64_t d = 0; d < channels; d += source.format.channel_block) {
      for (int64_t j = which.first; j + kRows <= which.last; j += kRows) {
        const bool together =
            rows[j + kRows - 1] - rows[j] == (kRows - 1) * source.row_bytes;
        if (together && end < at + kMaxRuns) *end++ = rows[j] + from;
      }
      from += source.format.block_bytes;
    }
    return {at, end, kRows * source.row_bytes};
  }
};

// How many of a step's keys, each so many bytes of all heads, are read of all
// heads before any head goes on. All of them, but where they are long or lie
// apart: then few, which are still in the first cache, into which they were
// prefetched just before (docs/notes/0057).
inline int64_t KeysOfAllHeads(std::span<const std::byte* const> rows,
                              int64_t bytes,
                              bool into_first = kMayPrefetchIntoFirst &&
                                                kPrefetchesIntoFirst) {
  if (!into_first) return kDecodeKeys;
  if (bytes >= kDecodeLongRowBytes) return kDecodeKeysAtATime;
  int apart = 0;
  for (size_t j = 1; j < rows.size(); ++j) {
    if (rows[j] != rows[j - 1] + bytes) ++apart;
  }
  return apart > 1 ? kDecodeKeysAtATime : kDecodeKeys;
}

// Rows that are prefetched one after the other, some of each of two kinds.
struct PrefetchedRows {
  const std::byte* rows[2 * kDecodeKeys];

  LinePrefetcher Of(const std::byte* const* some, Range which,
                    const std::byte* const* others, Range of_others,
                    int64_t bytes) {
    const std::byte** end =
        std::copy(some + which.first, some + which.last, rows);
    end = std::copy(others + of_others.first, others + of_others.last, end);
    return {rows, end, bytes};
  }
};

// The tiles of neighbouring kv heads, whose keys lie side by side: all of them
// score the keys of a step, then all of them add its values.
class HeadBundle {
 public:
  HeadBundle(DecodeTile* tiles, int64_t count) : tiles_(tiles), count_(count) {
    const KvRows& first = tiles[0].tile->keys;
    for (int64_t n = 0; n < count; ++n) {
      const KvRows& rows = tiles[n].tile->keys;
      key_shift_[n] = rows.key.base - first.key.base;
      rope_shift_[n] = rows.rope.base - first.rope.base;
      value_shift_[n] = rows.values().base - first.values().base;
    }
    shares_calls_ = count > 1;
    for (int64_t n = 0; n < count; ++n) {
      shares_calls_ = shares_calls_ && ReadsInPlace(tiles[n]) &&
                      tiles[n].keys.dot == tiles[0].keys.dot;
    }
    if (shares_calls_) ListMicroTiles();
    value_order_ =
        ValueOrder(first.value.base != nullptr &&
                   PrefetchesValuesAhead(std::max(RowBytes(), ValueBytes()),
                                         tiles[0].tile->cols.size()));
  }

  // All steps of the split that the tiles are at. The one after it, which the
  // next call is for, has the columns `next_split`: its first keys are
  // prefetched with the last values.
  void Attend(Range next_split = {}) {
    const ForwardTile& tile = *tiles_[0].tile;
    if (steps_[now_].step.empty()) {
      steps_[now_].Locate(tile, tile.FirstStep(kDecodeKeys, tile.cols));
      value_order_.Restart();
    }
    while (!steps_[now_].step.empty() &&
           steps_[now_].step.last <= tile.cols.last) {
      const StepRows& now = steps_[now_];
      now_ ^= 1;
      StepRows& next = steps_[now_];
      const Range step = tile.NextStep(kDecodeKeys, now.step.last);
      next.Locate(
          tile, step.empty() ? tile.FirstStep(kDecodeKeys, next_split) : step);
      if (shares_calls_ && !now.absent) {
        AttendTogether(now, next);
      } else {
        AttendStep(now, next);
      }
    }
  }

 private:
  void ListMicroTiles() {
    FLASHACL_DCHECK(count_ * tiles_[0].micro_tiles() <= kDecodeBundleTiles);
    QkTile* key = key_tiles_;
    PvTile* value = value_tiles_;
    for (int64_t t = 0; t < count_; ++t) {
      for (int64_t n = 0; n < tiles_[t].micro_tiles(); ++n) {
        *key++ = QkTileOf(tiles_[t], n, key_shift_[t], rope_shift_[t]);
        *value++ = PvTileOf(tiles_[t].At(n), value_shift_[t]);
      }
    }
  }

  // As AttendStep, with one call of each product for the tiles of all heads,
  // which go through so many keys at a time.
  void AttendTogether(const StepRows& now, const StepRows& next) {
    const int64_t micro_tiles = tiles_[0].micro_tiles();
    const int64_t keys = KeysAtATime(now);
    const Range all{0, now.step.size()}, all_next{0, next.step.size()};
    const Range first{0, std::min(keys, all.last)};
    const Range first_next{0, std::min(KeysAtATime(next), all_next.last)};
    const Range rest{first.last, all.last};
    PrefetchedRows rows;
    BlockRuns runs;
    LinePrefetcher prefetch =
        rest.empty() ? ValuesWithScores(now, next, runs)
                     : rows.Of(now.key, rest, now.value, first, RowBytes());
    prefetch.set_slowly(ScoresPrefetchSlowly(tiles_[0], true));
    QkArgs scores = ScoreArgs(tiles_[0], now, prefetch);
    scores.all = {key_tiles_, count_, micro_tiles, keys};
    tiles_[0].keys.dot->of[key_tiles_[0].rows - 1](scores);
    const int64_t lines = LinesWithSoftmax(tiles_[0], now.step.size());
    for (int64_t t = 0; t < count_; ++t) {
      for (int64_t n = 0; n < micro_tiles; ++n) {
        prefetch.PrefetchLines(lines);
        SoftmaxStep(tiles_[t], now, tiles_[t].At(n));
      }
    }
    PrefetchValuesAtOnce(next);
    prefetch = rest.empty()
                   ? AllKeys(next, first_next, runs)
                   : rows.Of(now.value, rest, next.key, first_next, RowBytes());
    prefetch.set_slowly(OutputsPrefetchSlowly(tiles_[0]));
    PvArgs values = AddArgs(tiles_[0], now, prefetch);
    values.all = {value_tiles_, count_, micro_tiles, keys};
    tiles_[0].values.kernels->add[value_tiles_[0].rows - 1](values);
  }

  // Bytes of a key of all heads, and of a value.
  int64_t RowBytes() const {
    return key_shift_[count_ - 1] + tiles_[0].keys.bytes;
  }
  int64_t ValueBytes() const {
    return value_shift_[count_ - 1] + tiles_[0].values.bytes;
  }

  int64_t KeysAtATime(const StepRows& rows) const {
    const int64_t bytes = RowBytes();
    // A prefetcher takes rows of one length, and steps with absent keys are not
    // attended together.
    if (rows.absent || bytes != ValueBytes()) return kDecodeKeys;
    // Probs that are integers have a unit of all keys of a step.
    if (tiles_[0].int16) return kDecodeKeys;
    return KeysOfAllHeads({rows.key, rows.key + rows.step.size()}, bytes);
  }

  // With keys it prefetches the values of the same step, or of the next one
  // (ValueOrder), with values the next keys: two steps' keys or values, or
  // three, need to stay in a cache.
  void AttendStep(const StepRows& now, const StepRows& next) {
    const bool has_values = tiles_[0].tile->keys.value.base != nullptr;
    const int64_t half = next.step.size() / 2;
    BlockRuns runs;
    LinePrefetcher prefetch = has_values ? ValuesWithScores(now, next, runs)
                                         : AllKeys(next, {0, half}, runs);
    prefetch.set_slowly(ScoresPrefetchSlowly(tiles_[0], count_ > 1));
    const int64_t rope_bytes = RopeBytesApart(next);
    LinePrefetcher ropes;
    if (rope_bytes > 0) {
      ropes = {next.rope, next.rope + next.step.size(), rope_bytes};
    }
    EvenShares rope_lines(LinesOfRows(next.step.size(), rope_bytes),
                          tiles_[0].micro_tiles());
    for (int64_t t = 0; t < count_; ++t) {
      DecodeTile& decode = tiles_[t];
      ForStep(now, t, [&](const StepPlace& at) {
        ScoreStep(decode, at, prefetch);
        const int64_t lines = LinesWithSoftmax(decode, at.count());
        for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
          prefetch.PrefetchLines(lines);
          ropes.PrefetchLines(rope_lines.Next());
          SoftmaxStep(decode, at.rows, decode.At(n));
        }
      });
    }
    PrefetchValuesAtOnce(next);
    prefetch = AllKeys(next, {has_values ? 0 : half, next.step.size()}, runs);
    prefetch.set_slowly(OutputsPrefetchSlowly(tiles_[0]));
    for (int64_t t = 0; t < count_; ++t) {
      ForStep(now, t,
              [&](const StepPlace& at) { AddStep(tiles_[t], at, prefetch); });
    }
  }

  // Calls work(where the rows of tile `n` are).
  template <typename Work>
  void ForStep(const StepRows& first, int64_t n, const Work& work) const {
    if (n == 0 || !first.absent) {
      work(StepPlace{first, key_shift_[n], rope_shift_[n], value_shift_[n]});
      return;
    }
    StepRows own;
    own.Locate(*tiles_[n].tile, first.step);
    work(StepPlace{own});
  }

  // Rows of all tiles, which go through them together: shares of whole rows
  // would leave some tile with more to prefetch than it reads.
  LinePrefetcher AllKeys(const StepRows& rows, Range which,
                         BlockRuns& runs) const {
    const RowSource& source = tiles_[0].tile->keys.key;
    if (source.format.channel_block != 0) {
      return runs.Of(source, source.channels, rows.key, which);
    }
    return {rows.key + which.first, rows.key + which.last,
            key_shift_[count_ - 1] + tiles_[0].keys.bytes};
  }

  // Of a tile's ropes that are to be prefetched with softmax; 0: of none, as of
  // those that touch, which the processor fetches ahead by itself, and of
  // several heads.
  int64_t RopeBytesApart(const StepRows& rows) const {
    const RowSource& source = tiles_[0].tile->keys.rope;
    const int64_t count = rows.step.size();
    if (!kPrefetchesRopesApart || source.base == nullptr || count < 2 ||
        count_ > 1 || source.format.channel_block != 0) {
      return 0;
    }
    const int64_t bytes = source.format.BytesOf(source.channels);
    const bool touch =
        rows.rope[count - 1] - rows.rope[0] == (count - 1) * bytes;
    return touch ? 0 : bytes;
  }

  LinePrefetcher AllValues(const StepRows& rows, BlockRuns& runs) const {
    const RowSource& source = tiles_[0].tile->keys.value;
    if (source.format.channel_block != 0) {
      return runs.Of(source, source.channels, rows.value,
                     {0, rows.step.size()});
    }
    return {rows.value, rows.value + rows.step.size(), ValueBytes()};
  }

  // Values that go with the scores of the step `now`.
  LinePrefetcher ValuesWithScores(const StepRows& now, const StepRows& next,
                                  BlockRuns& runs) const {
    return AllValues(value_order_.next_with_scores() ? next : now, runs);
  }

  // After scores, values of the next step that will go with none.
  void PrefetchValuesAtOnce(const StepRows& next) {
    if (!value_order_.NextAtOnce()) return;
    BlockRuns runs;
    AllValues(next, runs)
        .PrefetchLines(LinesOfRows(next.step.size(), ValueBytes()));
  }

  DecodeTile* tiles_;
  int64_t count_;
  StepRows steps_[2];  // of the first tile
  int now_ = 0;        // the one that is next
  int64_t key_shift_[kDecodeHeadBundle];
  int64_t rope_shift_[kDecodeHeadBundle];
  int64_t value_shift_[kDecodeHeadBundle];
  bool shares_calls_;
  ValueOrder value_order_{false};
  // Of tiles that share calls, [head, micro-tile].
  QkTile key_tiles_[kDecodeBundleTiles];
  PvTile value_tiles_[kDecodeBundleTiles];
};

// Computes rows again that may have overflowed, of which `sums` has the sums:
// probs of the final max are divided by them before they meet values.
HWY_NOINLINE inline void RedoOverflowed(DecodeTile& decode, const float* sums) {
  const ForwardTile& tile = *decode.tile;
  decode.row_sums = sums;
  decode.out_unit = 1;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    const MicroTile micro_tile = decode.At(n);
    ClearOut(decode, micro_tile);
    std::fill_n(micro_tile.sum, 4, 0.0f);
  }
  HeadBundle(&decode, 1).Attend();
  float* const row = tile.scratch.staging;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (sums[r] == 0) continue;
    const MicroTile micro_tile = decode.At(r / 4);
    const int64_t at = r % 4;
    GatherRow(decode, micro_tile, static_cast<int>(at),
              micro_tile.sum[at] * NormalizerOf(tile, sums[r]), row);
    StoreNormalized(tile, r, micro_tile.max[at], sums[r], row);
  }
}

inline bool StoreMicroTiles(DecodeTile& decode, WhichRows which,
                            float* overflowed) {
  bool redo = false;
  for (int64_t n = 0; n < decode.micro_tiles(); ++n) {
    redo = StoreMicroTile(decode, n, which, overflowed) || redo;
  }
  return redo;
}

inline void FinishSplit(DecodeTile& decode) {
  float overflowed[kDecodeRows];
  // Probs of hidden keys are 0, and 0 * inf is NaN. Values are not inspected
  // while they stream by: where the sums show that some were infinite, the
  // split starts anew. Other rows keep what matrix registers made of them.
  if (decode.hides && !OutIsFinite(decode)) {
    if (decode.matrix_values) {
      StoreMicroTiles(decode, WhichRows::kFinite, overflowed);
    }
    decode.skip_masked = true;
    ClearSums(decode);
    HeadBundle(&decode, 1).Attend();
  }
  if (StoreMicroTiles(decode, WhichRows::kAll, overflowed)) {
    RedoOverflowed(decode, overflowed);
  }
}

// Invariant of every row, over the keys seen so far, with max the greatest
// score or the sink: sum = sum exp(s_j - max), out = sum exp(s_j - max) v_j.
inline void AttendFew(DecodeArgs* tiles, int64_t count, int64_t split_keys) {
  const bool matrices = tiles[0].byte_dots == ByteDots::kMatrices ||
                        tiles[0].tile.dots == PairDots::kMatrices;
  if (matrices) Matrices::Configure();
  DecodeTile decode[kDecodeHeadBundle];
  for (int64_t n = 0; n < count; ++n) {
    decode[n].Init(tiles[n]);
    LoadQueries(decode[n], tiles[n]);
    decode[n].leaves_lines = LeavesLines(decode[n]);
  }
  const Range cols = tiles[0].tile.cols;
  Range next = SplitFrom(cols.first, cols.last, split_keys);
  HeadBundle bundle(decode, count);  // of all the piece's keys
  for (int64_t n = 0; n < count; ++n) tiles[n].tile.cols = next;
  for (;;) {
    for (int64_t n = 0; n < count; ++n) StartSplit(decode[n]);
    next = SplitFrom(next.last, cols.last, split_keys);
    bundle.Attend(next);
    for (int64_t n = 0; n < count; ++n) FinishSplit(decode[n]);
    if (next.empty()) break;
    for (int64_t n = 0; n < count; ++n) MoveTo(next, tiles[n].tile);
  }
  if (matrices) Matrices::Release();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_DECODE_INL_H_
