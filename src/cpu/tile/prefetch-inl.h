// SPDX-License-Identifier: Apache-2.0
// Prefetching: lines that are needed soon, in an order that no processor
// guesses, a few at a time.
//
// Tiles of many rows and listed keys fill a PrefetchQueue before each panel
// with the rows of the next, which lie anywhere; decode, at the speed of
// memory, goes by LinePrefetcher through rows in the order in which they lie.
// The loop of the arithmetic is outer: after each of its blocks, or with each
// line it reads, it prefetches a share. Nothing is packed or copied.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/processor_kind.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_PREFETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_PREFETCH_INL_H_
#undef FLASHACL_CPU_TILE_PREFETCH_INL_H_
#else
#define FLASHACL_CPU_TILE_PREFETCH_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kLineBytes = 64;

// The same number, three cycles later.
HWY_INLINE int64_t SameLater(int64_t number) {
#if HWY_ARCH_X86_64
  asm("imulq $1, %0, %0" : "+r"(number));
#endif
  return number;
}

// Prefetches the lines of a row, for reading; rows are too short for a
// processor to see what comes next.
HWY_INLINE void PrefetchRow(const std::byte* from, int64_t bytes) {
  for (int64_t n = 0; n < bytes; n += kLineBytes) {
    __builtin_prefetch(from + n, 0, 3);
  }
}

// The row of a position and a head, where there is a tensor.
HWY_INLINE void PrefetchRow(const TensorRows& rows, int64_t position,
                            int64_t head, int64_t channels) {
  const std::byte* const row = rows.At(position, head);
  if (row != nullptr) PrefetchRow(row, channels * rows.format.element_bytes);
}

// Rows that will be read or written soon, in the order of their use.
//
// A processor drops prefetches while about twenty lines are under way, so they
// are issued in small shares between blocks of arithmetic. And it waits for the
// page of a row, of which every row may have one of its own, so a share goes
// through several rows whose pages are looked for together.
class PrefetchQueue {
 public:
  void Clear() { count_ = next_ = shares_ = bytes_ = 0; }

  // What does not fit is not prefetched.
  void Add(const std::byte* from, int64_t bytes) {
    if (from == nullptr || bytes <= 0) return;
    if (bytes != bytes_) FillGroup();
    if (count_ == kMaxPrefetchRows) return;
    bytes_ = bytes;
    const auto skew =
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) % kLineBytes);
    const int64_t lines = (skew + bytes + kLineBytes - 1) / kLineBytes;
    int64_t& most = lines_[count_ / kGroup];
    if (count_ % kGroup == 0) most = 0;
    shares_ += std::max(lines - most, int64_t{0});
    most = std::max(lines, most);
    rows_[count_++] = from - skew;
  }

  // Issue() will be called about `times` times.
  void Divide(int64_t times) {
    FillGroup();
    at_once_ = std::clamp(shares_ / std::max<int64_t>(times, 1) + 1, int64_t{1},
                          kMaxPrefetchLines / kGroup);
  }

  HWY_INLINE void Issue() {
    for (int64_t n = 0; n < at_once_ && next_ < count_; ++n) {
      const std::byte** const rows = rows_ + next_;
      HWY_UNROLL_ALL
      for (int64_t r = 0; r < kGroup; ++r) {
        __builtin_prefetch(rows[r], 0, 3);
        rows[r] += kLineBytes;
      }
      if (--lines_[next_ / kGroup] == 0) next_ += kGroup;
    }
  }

 private:
  static constexpr int64_t kGroup = 8;  // rows of a share, of a line each

  // Rows that are missing to a group repeat the last one.
  void FillGroup() {
    for (; count_ % kGroup != 0; ++count_) rows_[count_] = rows_[count_ - 1];
  }

  const std::byte* rows_[kMaxPrefetchRows];
  int64_t lines_[kMaxPrefetchRows / kGroup];  // of each group, still to issue
  int64_t count_ = 0;
  int64_t next_ = 0;
  int64_t shares_ = 0;
  int64_t bytes_ = 0;
  int64_t at_once_ = 0;
};

// Whether long spans of lines are prefetched in sections: where the processor
// fetches ahead of what it is asked for, but within pages, of which one does
// not keep memory busy. Measured on Intel's alone (docs/notes/0053).
inline const bool kPrefetchesInSections =
    kProcessorKind == ProcessorKind::kOther;

// Lines of rows in about the order in which they lie, in which memory is
// fastest, to be prefetched evenly while others are read. They go into the
// second cache, as rows a power of two apart push each other out of the first;
// but into the first where that was faster all the same, on Zen 5
// (docs/notes/0051).
//
// Rows that touch are one span. A long one is taken as up to eight sections,
// some lines of each in turn.
//
// A reader takes about as many lines as it reads, some at a time, and
// prefetches them between its arithmetic: a look at the end of the row with
// every line would take as long as a tenth of the arithmetic.
//
// No prefetch begins within three cycles of the one before, wherever they are
// in the program: a processor with AMX that begins two of them at once does not
// fetch while it computes (docs/notes/0050).
class LinePrefetcher {
 public:
  LinePrefetcher() = default;  // nothing

  // The first `bytes` of each of the rows [first, last).
  LinePrefetcher(const std::byte* const* first, const std::byte* const* last,
                 int64_t bytes, bool in_sections = kPrefetchesInSections)
      : next_(first), last_(last), bytes_(bytes), in_sections_(in_sections) {
    if (first == last) return;
    const std::byte* const* row = first + 1;
    while (row != last && *row != row[-1] + bytes) ++row;
    rows_apart_ = row == last;
    NextSpan();
  }

  bool any() const { return at_ < end_ || next_ != last_; }

  // The next lines, at most kMaxTaken, for the caller to prefetch. Those that
  // are not of one span are prefetched here, all at once; what is returned
  // then, as after the last span, are always the same lines, which stay in a
  // cache. Of several sections a reader takes the same number each time, or
  // some lines are missed and some are taken twice.
  HWY_INLINE const std::byte* Take(int64_t lines) {
    const std::byte* taken = at_;
    at_ += between_ + lines * kLineBytes;
    if (HWY_LIKELY(at_ <= end_)) return taken;
    if (between_ != 0) {
      turn_ += lines * kLineBytes;
      at_ = turn_;
      // The first section ends where the second begins.
      if (HWY_UNLIKELY(turn_ >= second_ + lines * kLineBytes)) {
        between_ = 0;
        at_ = end_;
      }
      return taken;
    }
    if (HWY_LIKELY(taken == end_ && rows_apart_ && next_ != last_)) {
      taken = *next_++;
      end_ = taken + bytes_;
      at_ = taken + lines * kLineBytes;
      if (HWY_LIKELY(at_ <= end_)) return taken;
    }
    at_ = taken;
    if (!any()) return kNothing;
    LinePrefetcher copy = *this;  // or *this would have to be in memory
    taken = copy.TakeNext(lines);
    *this = copy;
    return taken;
  }

  static constexpr int64_t kMaxTaken = 4;

  // Prefetches a line that was taken.
  HWY_INLINE void Prefetch(const std::byte* line) {
    if (kAmdFamily == 26) {
      __builtin_prefetch(line + zero_, 0, 3);
    } else {
      __builtin_prefetch(line + zero_, 0, 2);
    }
    zero_ = SameLater(zero_);
  }

 private:
  static constexpr int64_t kSections = 8;
  // What is between sections is a whole number of what readers take, three
  // lines or four, and no shorter than a page: two in one were no faster than
  // one.
  static constexpr int64_t kSectionUnit = 12 * kLineBytes;
  static constexpr int64_t kMinSectionBytes = 4096;

  // Take() where the lines that are left are not enough. A call, for which
  // kernels keep their sums in memory.
  HWY_NOINLINE const std::byte* TakeNext(int64_t lines) {
    if (at_ >= end_) {
      NextSpan();
      const std::byte* const taken = at_;
      at_ += between_ + lines * kLineBytes;
      if (at_ <= end_) return taken;
      at_ = taken;
    }
    // All sections begin with a turn of their own.
    while (lines > 0 && between_ == 0) {
      for (; lines > 0 && at_ < end_; --lines, at_ += kLineBytes) Prefetch(at_);
      if (lines == 0 || next_ == last_) break;
      NextSpan();
    }
    return kNothing;
  }

  void NextSpan() {
    at_ = *next_++;
    end_ = at_ + bytes_;
    const int64_t others = last_ - next_;
    if (last_[-1] - at_ == others * bytes_) {
      end_ += others * bytes_;
      next_ = last_;
    }
    for (; next_ != last_ && *next_ == end_; ++next_) end_ += bytes_;
    const int64_t length = end_ - at_;
    if (!in_sections_ || length < 2 * kMinSectionBytes) return;
    turn_ = at_;
    between_ =
        RoundUp(std::max(length / kSections, kMinSectionBytes), kSectionUnit);
    second_ = at_ + between_;
    --end_;  // nothing is taken from there on
  }

  static constexpr std::byte kNothing[kMaxTaken * kLineBytes]{};
  const std::byte* at_ = kNothing;
  const std::byte* end_ = kNothing;  // of the span
  // Bytes from what is taken of one section to the next section's; 0: there is
  // one section.
  int64_t between_ = 0;
  // Where it is in the first section, and what is `between_` after its begin.
  const std::byte* turn_ = nullptr;
  const std::byte* second_ = nullptr;
  const std::byte* const* next_ = nullptr;
  const std::byte* const* last_ = nullptr;
  int64_t bytes_ = 0;
  bool in_sections_ = false;
  bool rows_apart_ = false;
  int64_t zero_ = 0;  // as a processor learns only when the next may begin
};

// Prefetches share `n` of kShares of the next kLines lines; `taken` is where
// those are that were taken last.
template <int kLines, int kShares>
HWY_INLINE void PrefetchShare(int n, const std::byte*& taken,
                              LinePrefetcher& prefetch) {
  constexpr int kTaken = kLines % 4 == 0 ? 4 : kLines % 3 == 0 ? 3 : kLines;
  HWY_UNROLL_ALL
  for (int line = 0; line < kLines; ++line) {
    if (line * kShares / kLines != n) continue;
    if (line % kTaken == 0) taken = prefetch.Take(kTaken);
    prefetch.Prefetch(taken + line % kTaken * kLineBytes);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PREFETCH_INL_H_
