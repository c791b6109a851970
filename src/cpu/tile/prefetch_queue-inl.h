// SPDX-License-Identifier: Apache-2.0
// Prefetching rows that lie anywhere: a queue of them, and the shares that
// blocks of arithmetic issue, or their loops, some lines with every few turns.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/range.h"
#include "cpu/pair_dots.h"
#include "cpu/processor_kind.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_PREFETCH_QUEUE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_PREFETCH_QUEUE_INL_H_
#undef FLASHACL_CPU_TILE_PREFETCH_QUEUE_INL_H_
#else
#define FLASHACL_CPU_TILE_PREFETCH_QUEUE_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Lines that a loop prefetches, evenly: some with every kTurns turns. All at
// once they would be more than a processor has under way, and it would wait
// (docs/notes/0060).
class LineShare {
 public:
  static constexpr int64_t kTurns = 8;

  LineShare() = default;  // nothing
  // For a loop of kTurns turns or more.
  LineShare(const std::byte* const* lines, int64_t count, int64_t turns)
      : next_(lines),
        left_(static_cast<int32_t>(count)),
        each_(static_cast<int32_t>(CeilDiv(count, turns / kTurns))) {}

  bool any() const { return left_ > 0; }

  // What is not issued yet.
  std::span<const std::byte* const> left() const {
    return {next_, static_cast<size_t>(left_)};
  }

  // Calls turn() so many times.
  template <typename Turn>
  HWY_INLINE void ForTurns(int64_t turns, const Turn& turn) {
    int64_t k = 0;
    for (; k + kTurns <= turns; k += kTurns) {
      Issue();
      HWY_UNROLL_ALL
      for (int64_t n = 0; n < kTurns; ++n) turn();
    }
    for (; k < turns; ++k) turn();
  }

 private:
  HWY_INLINE void Issue() {
    for (int32_t n = 0; n < each_ && left_ > 0; ++n, --left_) {
      __builtin_prefetch(*next_++, 0, 3);
    }
  }

  const std::byte* const* next_ = nullptr;
  int32_t left_ = 0;
  int32_t each_ = 0;
};

// So a call gets one in registers. In memory it was read as a vector just after
// its parts had been written, which waits (docs/notes/0072).
static_assert(sizeof(LineShare) <= 16);

// Whether the forward direction prefetches rows within blocks of arithmetic. So
// it does on Intel's; on Zen 4 it took as long (docs/notes/0063), and
// gradients, whose tiles read and compute more for each row, took as long or
// longer (docs/notes/0060).
inline const bool kPrefetchesWithTurns =
    kProcessorKind == ProcessorKind::kOther;

// Whether rows of a tile are prefetched into the second cache: on Zen 4, where
// scores are of floats; of pairs, which take less time for each row, it gained
// nothing (docs/notes/0069). And whether listed rows are: on Intel's, too,
// where no matrix registers multiply them (docs/notes/0071).
inline bool PrefetchesIntoSecond(PairDots dots) {
  return kIsZen4 && dots == PairDots::kNone;
}
inline bool PrefetchesListedIntoSecond(bool matrices) {
  return kIsZen4 || (kProcessorKind == ProcessorKind::kOther && !matrices);
}

// Rows that will be read or written soon, in the order of their use.
//
// A processor drops prefetches while about twenty lines are under way, or waits
// until fewer are, so they are issued in small shares between blocks of
// arithmetic, or by these. And it waits for the page of a row, of which every
// row may have one of its own, so a share goes through several rows whose pages
// are looked for together.
//
// Issue() prefetches into the first cache, or into the second, which on Zen 4
// takes none of the places that loads wait for, of which the first has 24
// (docs/notes/0067, 0069). Loops prefetch their shares into the first.
class PrefetchQueue {
 public:
  explicit PrefetchQueue(bool into_second = false)
      : into_second_(into_second) {}

  void Clear() {
    count_ = next_ = line_ = offset_ = 0;
    shares_ = bytes_ = skew_ = 0;
  }

  // Adds the rows at(0) to at(count - 1), of so many bytes each, but those that
  // are null. What does not fit is not prefetched. Lines of a group are counted
  // with its last row, so that a row takes few instructions.
  template <typename At>
  HWY_INLINE void Add(int64_t count, int64_t bytes, const At& at) {
    if (count <= 0 || bytes <= 0) return;
    if (bytes != bytes_) FillGroup();
    bytes_ = bytes;
    int64_t rows = count_, most = skew_;
    for (int64_t n = 0; n < count && rows < kMaxPrefetchRows; ++n) {
      const std::byte* const from = at(n);
      if (from == nullptr) continue;
      const auto skew =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) % kLineBytes);
      most = std::max(most, skew);
      rows_[rows++] = from - skew;
      if (rows % kGroup != 0) continue;
      EndGroup(rows, most);
      most = 0;
    }
    count_ = rows;
    skew_ = most;
  }
  void Add(const std::byte* from, int64_t bytes) {
    Add(1, bytes, [&](int64_t) { return from; });
  }

  // After the last row. Issue() or WithShare() will be called about `times`
  // times, each for `lines` at most, of kMaxRowPrefetchLines. with_turns: loops
  // issue their shares where these have more lines than are under way at a
  // time.
  void Divide(int64_t times, int64_t lines = kMaxPrefetchLines,
              bool with_turns = false) {
    FillGroup();
    at_once_ = std::clamp(shares_ / std::max<int64_t>(times, 1) + 1, int64_t{1},
                          lines / kGroup);
    with_turns_ = with_turns && at_once_ * kGroup > kMaxPrefetchLines;
  }

  HWY_INLINE void Issue() {
    // Not by a lambda: GCC 12 drops calls of a function that only prefetches.
    for (int64_t n = 0; n < at_once_ && next_ < count_; ++n) {
      const std::byte* const* const rows = rows_ + next_;
      if (into_second_) {
        HWY_UNROLL_ALL
        for (int64_t r = 0; r < kGroup; ++r) {
          __builtin_prefetch(rows[r] + offset_, 0, 2);
        }
      } else {
        HWY_UNROLL_ALL
        for (int64_t r = 0; r < kGroup; ++r) {
          __builtin_prefetch(rows[r] + offset_, 0, 3);
        }
      }
      GoOn();
    }
  }

  // Calls block(lines), a block of a loop of `turns` turns that issues the next
  // share: a LineShare, or NoLines, for which it is compiled once more, where
  // there are none or the share is issued after it. Loops of floats do.
  template <class Product, typename Block>
  HWY_INLINE void WithShare(int64_t turns, const Block& block) {
    if constexpr (HWY_ARCH_X86 && std::is_same_v<Product, OfFloats>) {
      if (with_turns_) {
        const LineShare lines = NextShare(turns);
        if (lines.any()) return block(lines);
      }
    }
    block(NoLines());
    Issue();
  }

  // The next share, for a loop of so many turns; valid until the next call.
  // None, and none is taken, where the loop is too short.
  HWY_INLINE LineShare NextShare(int64_t turns) {
    if (turns < LineShare::kTurns || next_ >= count_) return {};
    int64_t count = 0;
    for (int64_t n = 0; n < at_once_ && next_ < count_; ++n) {
      HWY_UNROLL_ALL
      for (int64_t r = 0; r < kGroup; ++r) {
        share_[count + r] = rows_[next_ + r] + offset_;
      }
      count += kGroup;
      GoOn();
    }
    return {share_, count, turns};
  }

 private:
  static constexpr int64_t kGroup = 8;  // rows of a share, of a line each

  // To the next line of these rows, or to the next rows. Their addresses stay
  // as they are: eight that were just written are read late as a vector.
  HWY_INLINE void GoOn() {
    offset_ += kLineBytes;
    if (++line_ < lines_[next_ / kGroup]) return;
    offset_ = line_ = 0;
    next_ += kGroup;
  }

  // Rows that are missing to a group repeat the last one.
  void FillGroup() {
    if (count_ % kGroup == 0) return;
    for (; count_ % kGroup != 0; ++count_) rows_[count_] = rows_[count_ - 1];
    EndGroup(count_, skew_);
    skew_ = 0;
  }

  // Ends the group before row `rows`, whose rows begin at most `skew` bytes
  // into a line.
  HWY_INLINE void EndGroup(int64_t rows, int64_t skew) {
    const int64_t lines = (skew + bytes_ + kLineBytes - 1) / kLineBytes;
    lines_[rows / kGroup - 1] = lines;
    shares_ += lines;
  }

  const std::byte* share_[kMaxRowPrefetchLines];
  const std::byte* rows_[kMaxPrefetchRows];
  int64_t lines_[kMaxPrefetchRows / kGroup];  // of each group
  int64_t count_ = 0;
  int64_t next_ = 0;    // the group to issue begins with this row
  int64_t line_ = 0;    // of the group
  int64_t offset_ = 0;  // of that line in its rows, in bytes
  int64_t shares_ = 0;
  int64_t bytes_ = 0;
  int64_t skew_ = 0;  // of the rows of a group that is not full, the greatest
  int64_t at_once_ = 0;
  bool with_turns_ = false;
  const bool into_second_;
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PREFETCH_QUEUE_INL_H_
