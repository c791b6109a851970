// SPDX-License-Identifier: Apache-2.0
// Prefetching: lines that are needed soon, in an order that no processor
// guesses, a few at a time.
//
// Tiles of many rows and listed keys fill a PrefetchQueue before each panel
// with the rows of the next, which lie anywhere (prefetch_queue-inl.h); decode,
// at the speed of memory, goes by LinePrefetcher through rows in the order in
// which they lie. The loop of the arithmetic is outer: after each of its
// blocks, with their turns, or with each line it reads, it prefetches a share.
// Nothing is packed or copied.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

// Whether long spans of lines are prefetched in sections: where the processor
// fetches ahead of what it is asked for, but within pages, of which one does
// not keep memory busy. So it is on Intel's (docs/notes/0053); on Zen 5 it took
// longer (docs/notes/0055), and on Zen 4 it gained nothing (docs/notes/0063).
inline const bool kPrefetchesInSections =
    kProcessorKind == ProcessorKind::kOther;

// How a loop prefetches: nothing, or into which cache. That is the second, as
// rows a power of two apart push each other out of the first; but the first
// where that was faster all the same, on Zen 5 (docs/notes/0051). Short loops
// are compiled for each, as to ask with every line took half as long as their
// arithmetic (docs/notes/0055).
enum class Prefetches : uint8_t {
  kNone,
  kFirst,
  kFirstSlowly,
  kSecond,
  kAny,  // as the processor wants it, asked with every line
};

inline const bool kPrefetchesIntoFirst = kAmdFamily == 26;

// Whether this code may run on a processor of which that holds.
inline constexpr bool kMayPrefetchIntoFirst =
    HWY_ARCH_X86_64 && kVectorRegisters == 32;

// Lines of rows in about the order in which they lie, in which memory is
// fastest, to be prefetched evenly while others are read.
//
// Rows that touch are one span. A long one is taken as up to eight sections,
// some lines of each in turn.
//
// A reader takes about as many lines as it reads, some at a time, and
// prefetches them between its arithmetic. A row that ends within what Take()
// takes costs a call, for which kernels keep their sums in memory: so two lines
// or one are taken, but where registers are few and that took longer
// (docs/notes/0055).
//
// No prefetch begins within three cycles of the one before, wherever they are
// in the program: a processor with AMX that begins two of them at once does not
// fetch while it computes (docs/notes/0050). Slowly, it is six into the first
// cache: on Zen 5 that was faster where what is read comes from the second, too
// (docs/notes/0055). Into the second it is nine: Zen 4 drops what comes faster
// than memory takes it (docs/notes/0064).
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

  bool any() const {
    return at_ < stop_ || next_ != last_ || (between_ != 0 && AnyTurn());
  }

  // Whether readers that can should prefetch slowly.
  bool slowly() const { return slowly_; }
  void set_slowly(bool slowly) { slowly_ = slowly; }

  // The next lines, at most kMaxTaken, for the caller to prefetch. Those that
  // are not of one span are prefetched here, all at once; what is returned
  // then, as after the last span, are always the same lines, which stay in a
  // cache. Of several sections a reader takes the same number each time, or
  // some lines are missed and some are taken twice.
  HWY_INLINE const std::byte* Take(int64_t lines) {
    const std::byte* taken = at_;
    at_ += lines * kLineBytes;
    if (HWY_LIKELY(at_ <= stop_)) return taken;
    if (between_ != 0) {
      // The span's last lines, and some after them.
      if (taken < stop_) return taken;
      if (HWY_LIKELY(FindTurn(lines))) {
        taken = at_;
        at_ += lines * kLineBytes;
        return taken;
      }
      taken = at_;
    }
    if (HWY_LIKELY(taken == stop_ && rows_apart_ && next_ != last_)) {
      taken = *next_++;
      stop_ = taken + RoundUp(bytes_, kLineBytes);
      at_ = taken + lines * kLineBytes;
      if (HWY_LIKELY(at_ <= stop_)) return taken;
    }
    at_ = taken;
    if (!any()) return kNothing;
    LinePrefetcher copy = *this;  // or *this would have to be in memory
    taken = copy.TakeNext(lines);
    *this = copy;
    return taken;
  }

  static constexpr int64_t kMaxTaken = 4;

  // Prefetches so many lines, kMaxTaken at a time where rows touch: what that
  // is too many the next calls are short of.
  HWY_INLINE void PrefetchLines(int64_t lines) {
    TakeLines(lines, [&](const std::byte* line) HWY_ATTR { Prefetch(line); });
  }

  // Calls work(line) for each line of PrefetchLines().
  template <typename Work>
  HWY_INLINE void TakeLines(int64_t lines, const Work& work) {
    owed_ += lines;
    if (rows_apart_ && between_ == 0) return TakeRows(work);
    if (between_ != 0 && at_ >= stop_) TakeTurns(work);
    for (; owed_ > 0 && any(); owed_ -= kMaxTaken) {
      TakeFour(Take(kMaxTaken), work);
    }
  }

  // Prefetches a line that was taken.
  template <Prefetches kHow = Prefetches::kAny>
  HWY_INLINE void Prefetch(const std::byte* line) {
    constexpr bool kSlowly = kHow == Prefetches::kFirstSlowly;
    if (kHow == Prefetches::kAny ? kMayPrefetchIntoFirst && kPrefetchesIntoFirst
                                 : kHow != Prefetches::kSecond) {
      __builtin_prefetch(line + zero_, 0, 3);
    } else {
      __builtin_prefetch(line + zero_, 0, 2);
      if (kMayPrefetchIntoFirst && slowly_) {
        zero_ = SameLater(SameLater(zero_));
      }
    }
    zero_ = SameLater(zero_);
    if (kSlowly) zero_ = SameLater(zero_);
  }

 private:
  static constexpr int64_t kSections = 8;
  // What is between sections is a whole number of their turns.
  static constexpr int64_t kSectionUnit = 12 * kLineBytes;
  // Two sections in one page were no faster than one.
  static constexpr int64_t kMinSectionBytes = 4096;

  // Four lines of each section in turn, or as many as a reader takes of these.
  static constexpr int64_t TurnBytes(int64_t lines) {
    return kMaxTaken / lines * lines * kLineBytes;
  }

  template <typename Work>
  static HWY_INLINE void TakeFour(const std::byte* lines, const Work& work) {
    static_assert(kMaxTaken == 4);
    HWY_UNROLL_ALL
    for (int64_t n = 0; n < kMaxTaken; ++n) work(lines + n * kLineBytes);
  }

  // Goes through rows of which no two touch: Take() would end each that has
  // fewer lines than it takes with a call (docs/notes/0059).
  template <typename Work>
  HWY_INLINE void TakeRows(const Work& work) {
    const std::byte *at = at_, *stop = stop_;
    const std::byte* const* next = next_;
    int64_t owed = owed_;
    for (;;) {
      for (; owed > 0 && at < stop; --owed, at += kLineBytes) work(at);
      if (owed <= 0) break;
      if (next == last_) {
        owed = 0;
        break;
      }
      at = *next++;
      stop = at + RoundUp(bytes_, kLineBytes);
    }
    at_ = at;
    stop_ = stop;
    next_ = next;
    owed_ = owed;
  }

  // Goes through turns of sections while lines are owed and turns are left. As
  // Take() does, but what changes is in registers: 1.03 times as fast for
  // decode on matrix registers (docs/notes/0058).
  template <typename Work>
  HWY_INLINE void TakeTurns(const Work& work) {
    const std::byte *section = section_, *turn = turn_;
    int64_t owed = owed_;
    for (; owed > 0; owed -= kMaxTaken) {
      const std::byte* next = section + between_;
      if (next >= end_) {
        next = turn + TurnBytes(kMaxTaken);
        if (next >= second_) break;
        turn = next;
      }
      section = next;
      TakeFour(section, work);
    }
    section_ = section;
    turn_ = turn;
    owed_ = owed;
  }

  bool AnyTurn() const {
    return section_ + between_ < end_ || turn_ + TurnBytes(1) < second_;
  }

  // Goes to the next section's turn; false, and to the end of the span, if
  // there is none.
  HWY_INLINE bool FindTurn(int64_t lines) {
    section_ += between_;
    if (section_ >= end_) {
      turn_ += TurnBytes(lines);
      section_ = turn_;
      // The first section ends where the second begins.
      if (turn_ >= second_) {
        between_ = 0;
        at_ = stop_;
        return false;
      }
    }
    at_ = section_;
    stop_ = section_ +
            std::min(TurnBytes(lines), RoundUp(end_ - section_, kLineBytes));
    return true;
  }

  // Take() where the lines that are left are not enough. A call.
  HWY_NOINLINE const std::byte* TakeNext(int64_t lines) {
    if (at_ >= stop_) {
      NextSpan();
      if (between_ != 0) FindTurn(lines);
      const std::byte* const taken = at_;
      at_ += lines * kLineBytes;
      if (at_ <= stop_) return taken;
      at_ = taken;
    }
    // All sections begin with a turn of their own.
    while (lines > 0 && between_ == 0) {
      for (; lines > 0 && at_ < stop_; --lines, at_ += kLineBytes) {
        Prefetch(at_);
      }
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
    stop_ = at_ + RoundUp(length, kLineBytes);
    if (!in_sections_ || length < 2 * kMinSectionBytes) return;
    between_ =
        RoundUp(std::max(length / kSections, kMinSectionBytes), kSectionUnit);
    // Before the first turn.
    turn_ = stop_ = at_;
    section_ = at_ - between_;
    second_ = at_ + between_;
  }

  static constexpr std::byte kNothing[kMaxTaken * kLineBytes]{};
  const std::byte* at_ = kNothing;
  const std::byte* stop_ = kNothing;  // after the lines of the turn, or span
  // The rest is of a span of several sections, but `end_`.
  int64_t between_ = 0;                 // bytes from one to the next; else 0
  const std::byte* section_ = nullptr;  // where its turn began
  const std::byte* turn_ = nullptr;     // the same, of the first section
  const std::byte* second_ = nullptr;   // where the second section begins
  const std::byte* end_ = kNothing;     // of the span
  const std::byte* const* next_ = nullptr;
  const std::byte* const* last_ = nullptr;
  int64_t bytes_ = 0;
  bool in_sections_ = false;
  bool rows_apart_ = false;
  bool slowly_ = false;
  int64_t owed_ = 0;  // lines of PrefetchLines(); fewer than 0: too many
  int64_t zero_ = 0;  // as a processor learns only when the next may begin
};

// Shares out lines evenly among calls of PrefetchLines(), of which there are so
// many.
class EvenShares {
 public:
  EvenShares(int64_t lines, int64_t calls)
      : calls_(calls), each_(lines / calls), rest_(lines % calls) {}

  HWY_INLINE int64_t Next() {
    over_ += rest_;
    const bool one_more = over_ >= calls_;
    over_ -= one_more ? calls_ : 0;
    return each_ + (one_more ? 1 : 0);
  }

 private:
  const int64_t calls_, each_, rest_;
  int64_t over_ = 0;
};

// How much arithmetic a loop has for a line: the less, the more there is to
// choose beforehand.
enum class LoopBody : uint8_t { kLong, kShort, kShortest };

// Calls work(how to prefetch, a constant), for which a loop is compiled. A test
// says whether lines may, and do, go into the first cache.
template <LoopBody kBody, bool kMayIntoFirst = kMayPrefetchIntoFirst,
          typename Work>
HWY_INLINE void WithPrefetches(const LinePrefetcher& prefetch, const Work& work,
                               bool into_first = kPrefetchesIntoFirst) {
  using P = Prefetches;
  if (!prefetch.any()) return work(std::integral_constant<P, P::kNone>());
  if constexpr (!kMayIntoFirst) {
    return work(std::integral_constant<P, P::kSecond>());
  } else if constexpr (kBody == LoopBody::kLong) {
    return work(std::integral_constant<P, P::kAny>());
  } else {
    if (!into_first) {
      return work(std::integral_constant<P, P::kSecond>());
    }
    if constexpr (kBody == LoopBody::kShortest) {
      if (prefetch.slowly()) {
        return work(std::integral_constant<P, P::kFirstSlowly>());
      }
    }
    work(std::integral_constant<P, P::kFirst>());
  }
}

// Prefetches share `n` of kShares of the next kLines lines; `taken` is where
// those are that were taken last.
template <Prefetches kHow, int kLines, int kShares>
HWY_INLINE void PrefetchShare(int n, const std::byte*& taken,
                              LinePrefetcher& prefetch) {
  if constexpr (kHow == Prefetches::kNone) return;
  constexpr int kTaken = kVectorRegisters == 32 ? (kLines % 2 == 0 ? 2 : 1)
                         : kLines % 4 == 0      ? 4
                         : kLines % 3 == 0      ? 3
                                                : kLines;
  HWY_UNROLL_ALL
  for (int line = 0; line < kLines; ++line) {
    if (line * kShares / kLines != n) continue;
    if (line % kTaken == 0) taken = prefetch.Take(kTaken);
    prefetch.Prefetch<kHow>(taken + line % kTaken * kLineBytes);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PREFETCH_INL_H_
