// SPDX-License-Identifier: Apache-2.0
// What a tile prefetches in a step, shared out evenly in time: while nothing is
// prefetched memory idles (docs/notes/0058, 0059, 0063).
//
// With scores and softmax these are the step's values, or the next step's
// (PrefetchesValuesAhead), or half of the next keys where keys are the values;
// with outputs the next keys, or the other half; with softmax also biases and
// masks of the next keys.

#include <algorithm>
#include <cstdint>

#include "cpu/processor_kind.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_
#undef FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_
#else
#define FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_
#endif

#include "cpu/decode/byte_args-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Lines of a tile in a step of `count` keys.
HWY_INLINE int64_t LinesWithScores(const DecodeTile& decode, int64_t count) {
  const bool has_values = decode.tile->keys.value.base != nullptr;
  return has_values ? count * decode.values.bytes / kLineBytes
                    : count * decode.keys.bytes / kLineBytes / 2;
}
HWY_INLINE int64_t LinesWithOutputs(const DecodeTile& decode, int64_t count) {
  const bool has_values = decode.tile->keys.value.base != nullptr;
  const int64_t lines = count * decode.keys.bytes / kLineBytes;
  return has_values ? lines : lines / 2;
}

// Whether a line takes at most so many products of vectors of 16 floats with
// all rows; pairs are counted as floats. Fewer bits take longer to convert.
HWY_INLINE bool TakesAtMost(const DecodeTile& decode, int64_t products) {
  const ElementFormat& format = decode.tile->keys.key.format;
  return IsFloat(format.dtype) &&
         decode.tile->rows * 4 <= products * format.element_bytes;
}

// Whether scores by vectors leave lines to the softmax. Only where that gained:
// on Intel's processors (docs/notes/0059), and with AVX-512 on Zen 4 where
// scores ask for lines faster than memory has them (docs/notes/0064).
HWY_INLINE bool LeavesLinesToSoftmax(const DecodeTile& decode,
                                     bool in_sections = kPrefetchesInSections,
                                     bool is_zen4 = kIsZen4 &&
                                                    kMayPrefetchIntoFirst) {
  return in_sections || (is_zen4 && (decode.pairs || TakesAtMost(decode, 8)));
}

// Whether products of a line take less time than memory, on Zen 4
// (docs/notes/0064): as integers of 16 bits that is so of one row
// (docs/notes/0065).
HWY_INLINE bool TakesLessThanMemory(const DecodeTile& decode, bool is_zen4) {
  if (decode.int16) return is_zen4 && decode.tile->rows == 1;
  return is_zen4 && TakesAtMost(decode, 4);
}

// Whether lines are prefetched slowly with scores. Into the first cache those
// of several heads: keys of one head stay there, those of several push each
// other out, and come from the second. Into the second where products take less
// than memory.
HWY_INLINE bool ScoresPrefetchSlowly(const DecodeTile& decode, bool of_several,
                                     bool into_first = kPrefetchesIntoFirst,
                                     bool is_zen4 = kIsZen4) {
  return into_first ? of_several : TakesLessThanMemory(decode, is_zen4);
}

// Whether they are with outputs: into the second cache where products take less
// than memory, and where they are of pairs of keys (docs/notes/0066).
HWY_INLINE bool OutputsPrefetchSlowly(const DecodeTile& decode,
                                      bool into_first = kPrefetchesIntoFirst,
                                      bool is_zen4 = kIsZen4) {
  if (into_first) return false;
  return (is_zen4 && decode.pairs_of_keys) ||
         TakesLessThanMemory(decode, is_zen4);
}

// Whether values go with the scores of the step before their own, of keys and
// values that take so many bytes in all heads, and of a piece of so many keys.
// Where a step is short, memory has not yet answered when its values are asked
// for with its own scores. Measured on Zen 4 alone (docs/notes/0063); Zen 5
// prefetches into its first cache, which would not hold both steps' values.
inline bool PrefetchesValuesAhead(int64_t row_bytes, int64_t keys,
                                  bool is_zen4 = kIsZen4) {
  if (!is_zen4) return false;
  return row_bytes * kDecodeKeys <= kDecodeAheadBytes &&
         keys >= kDecodeAheadKeys;
}

// Whose values go with the scores of a step: its own, or the next step's. Then
// the first step's go with its own scores, and the second's with none, so they
// are prefetched at once after these.
class ValueOrder {
 public:
  explicit ValueOrder(bool ahead) : ahead_(ahead) {}

  // The step at hand is the first, or follows none.
  void Restart() { came_before_ = false; }

  // Whether the next step's go with the scores of the step at hand.
  bool next_with_scores() const { return came_before_; }

  // After these scores: whether the next step's are to be prefetched at once.
  bool NextAtOnce() {
    const bool at_once = ahead_ && !came_before_;
    came_before_ = ahead_;
    return at_once;
  }

 private:
  bool ahead_;
  bool came_before_{};  // values of the step at hand, before its scores
};

// Whether ropes that lie apart from keys and from each other are prefetched: on
// Intel's, where it was measured (docs/notes/0073).
inline const bool kPrefetchesRopesApart =
    kProcessorKind == ProcessorKind::kOther;

// How many lines rows are that may lie apart.
inline int64_t LinesOfRows(int64_t count, int64_t bytes) {
  return count * CeilDiv(bytes, kLineBytes);
}

// Whether tiles prefetch with softmax, too, where scores leave lines to it.
// Elsewhere, and in steps that are multiplied in another way, scores take as
// many lines as they read, which leaves none.
HWY_INLINE bool PrefetchesWithSoftmax(const DecodeTile& decode) {
  return decode.matrix_scores || decode.leaves_lines ||
         (decode.bytes != nullptr && decode.bytes->shares_lines);
}

// The lines that begin within what the columns `cols` take of a row that has so
// many bytes for each.
struct ColumnLines {
  const std::byte* first;
  const std::byte* last;  // the row may end within the line before it

  HWY_INLINE ColumnLines(const std::byte* row, int64_t bytes, Range cols)
      : first(FirstLineFrom(row + cols.first * bytes)),
        last(FirstLineFrom(row + cols.last * bytes)) {}

 private:
  static HWY_INLINE const std::byte* FirstLineFrom(const std::byte* at) {
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(at));
    return at + (RoundUp(address, kLineBytes) - address);
  }
};

HWY_INLINE void PrefetchLinesOf(const ColumnLines& lines) {
  for (const std::byte* line = lines.first; line < lines.last;
       line += kLineBytes) {
    __builtin_prefetch(line, 0, 3);
  }
}

// The biases and masks of a micro-tile's rows for the columns after a step's. A
// step takes a line or two of each row, and of so many rows a processor fetches
// none by itself (docs/notes/0068). Inlined, as GCC 12 drops calls of functions
// that only prefetch.
HWY_INLINE void PrefetchBiasAndMask(const ForwardTile& tile,
                                    const MicroTile& micro_tile, Range step) {
  const ScoreParams& params = *tile.params;
  const Range next{step.last,
                   std::min(step.last + kDecodeKeys, tile.cols.last)};
  for (int r = 0; r < micro_tile.rows; ++r) {
    const QueryRow& row = micro_tile.query_rows[r];
    if (params.biased && params.bias.step == 1) {
      PrefetchLinesOf({row.bias, params.bias.element_bytes, next});
    }
    if (params.masked && params.mask_step == 1) {
      PrefetchLinesOf({row.mask, 1, next});
    }
  }
}

// A quarter of what goes with scores, shared by the micro-tiles: those of one.
HWY_INLINE int64_t LinesWithSoftmax(const DecodeTile& decode, int64_t count) {
  if (!PrefetchesWithSoftmax(decode)) return 0;
  return CeilDiv(LinesWithScores(decode, count), 4 * decode.micro_tiles());
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_
