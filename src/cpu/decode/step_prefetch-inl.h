// SPDX-License-Identifier: Apache-2.0
// What a tile prefetches in a step, shared out evenly in time: while nothing is
// prefetched memory idles (docs/notes/0058, 0059).
//
// With scores and softmax these are the step's values, or half of the next keys
// where keys are the values; with outputs the next keys, or the other half.

#include <algorithm>
#include <cstdint>

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

// Whether scores by vectors leave lines to the softmax. Only where that was
// measured: on Intel's processors (docs/notes/0059).
inline const bool kLeavesLinesToSoftmax = kPrefetchesInSections;

// Whether tiles prefetch with softmax, too, where scores leave lines to it.
// Elsewhere, and in steps that are multiplied in another way, scores take as
// many lines as they read, which leaves none.
HWY_INLINE bool PrefetchesWithSoftmax(const DecodeTile& decode) {
  return decode.matrix_scores || decode.leaves_lines ||
         (decode.bytes != nullptr && decode.bytes->shares_lines);
}

// A quarter of what goes with scores, shared by the micro-tiles: those of one.
HWY_INLINE int64_t LinesWithSoftmax(const DecodeTile& decode, int64_t count) {
  if (!PrefetchesWithSoftmax(decode)) return 0;
  return CeilDiv(LinesWithScores(decode, count), 4 * decode.micro_tiles());
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_STEP_PREFETCH_INL_H_
