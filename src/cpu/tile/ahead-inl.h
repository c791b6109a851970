// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for ahead of its use, a few lines at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_AHEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_AHEAD_INL_H_
#undef FLASHACL_CPU_TILE_AHEAD_INL_H_
#else
#define FLASHACL_CPU_TILE_AHEAD_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kLineBytes = 64;

// Asks for the lines of a row, for reading; rows are too short for a processor
// to see what comes next.
HWY_INLINE void PrefetchRow(const std::byte* from, int64_t bytes) {
  for (int64_t n = 0; n < bytes; n += kLineBytes) {
    __builtin_prefetch(from + n, 0, 3);
  }
}

// Rows that will be read or written soon, in the order of their use.
//
// A processor drops what it is asked for while about twenty lines are under
// way, so they are asked for in small shares between blocks of arithmetic. And
// it waits for the page of a row, of which every row may have one of its own,
// so a share goes through several rows whose pages are looked for together.
class Ahead {
 public:
  void Clear() { count_ = next_ = shares_ = bytes_ = 0; }

  // What does not fit is not asked for.
  void Add(const std::byte* from, int64_t bytes) {
    if (from == nullptr || bytes <= 0) return;
    if (bytes != bytes_) FillGroup();
    if (count_ == kMostAhead) return;
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

  // Ask() will be called about `times` times.
  void Divide(int64_t times) {
    FillGroup();
    at_once_ = std::clamp(shares_ / std::max<int64_t>(times, 1) + 1, int64_t{1},
                          kMostLines / kGroup);
  }

  HWY_INLINE void Ask() {
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

  const std::byte* rows_[kMostAhead];
  int64_t lines_[kMostAhead / kGroup];  // of each group, still to ask for
  int64_t count_ = 0;
  int64_t next_ = 0;
  int64_t shares_ = 0;
  int64_t bytes_ = 0;
  int64_t at_once_ = 0;
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_AHEAD_INL_H_
