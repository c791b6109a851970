// SPDX-License-Identifier: Apache-2.0
// Keys and values of a step as matrix registers read them: 16 rows at a time
// where they lie, if these are evenly apart, or copies of them.
//
// Scores are [key, column]: rows of the first operand are keys, 64 bytes of
// channels at a time, columns of the second are queries, or digits of them. The
// outer loop is over channels, so that a block of the second operand meets all
// keys of a step.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_MATRIX_KEYS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_MATRIX_KEYS_INL_H_
#undef FLASHACL_CPU_DECODE_MATRIX_KEYS_INL_H_
#else
#define FLASHACL_CPU_DECODE_MATRIX_KEYS_INL_H_
#endif

#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

inline constexpr int64_t kMatrixBytes = 64;  // along k
inline constexpr int64_t kColumns = 16;      // of sums

static_assert(kDecodeKeys == 3 * kMatrixRows);

// Rows of a step: where they lie, and so many bytes after that.
struct RowPlaces {
  const std::byte* const* at;
  int64_t shift;
  int64_t count;
};

// A step's rows, up to three times 16 of them.
class StepMatrices {
 public:
  // Of rows of `bytes` bytes, a multiple of kMatrixBytes; `room` has room for
  // copies of those that are not evenly apart, or not whole matrices. What
  // follows the last row is 0: probs there are, too, and 0 times what is no
  // number is none.
  HWY_INLINE StepMatrices(const RowPlaces& rows, int64_t bytes, std::byte* room)
      : bytes_(bytes), count_(CeilDiv(rows.count, kMatrixRows)) {
    for (int64_t g = 0; g < count_; ++g) {
      const int64_t first = g * kMatrixRows;
      const std::byte* const* const at = rows.at + first;
      const int64_t count = std::min(rows.count - first, kMatrixRows);
      const ptrdiff_t stride = count < 2 ? 0 : at[1] - at[0];
      bool even = count == kMatrixRows && stride % 4 == 0;
      for (int64_t n = 2; n < count; ++n) {
        even = even && at[n] - at[n - 1] == stride;
      }
      at_[g] = at[0] + rows.shift;
      words_[g] = stride / 4;
      if (even) continue;
      std::byte* const copy = room + first * bytes;
      for (int64_t n = 0; n < count; ++n) {
        std::memcpy(copy + n * bytes, at[n] + rows.shift,
                    static_cast<size_t>(bytes));
      }
      std::memset(copy + count * bytes, 0,
                  static_cast<size_t>((kMatrixRows - count) * bytes));
      at_[g] = copy;
      words_[g] = bytes / 4;
    }
  }

  int64_t count() const { return count_; }

  // Words of matrix `g`, from so many bytes of its rows on.
  template <int kTo, class M>
  HWY_INLINE void LoadLanes(int64_t g, int64_t from, M& m) const {
    m.template LoadLanes<kTo>(at_[g] + from, words_[g]);
  }

  // Sums 0 to 2 += products with `panel`, [word along k][column], as many
  // columns as `Product` has, which loads and multiplies them. Prefetches so
  // many lines with each multiplication.
  template <class Product, class M>
  HWY_INLINE void MultiplyAdd(const void* panel, int64_t lines,
                              LinePrefetcher& prefetch, M& m) const {
    const auto* block = static_cast<const float*>(panel);
    for (int64_t k = 0; k < bytes_; k += kMatrixBytes) {
      Product::template Load<3>(block, m);
      block += kMatrixBytes / 4 * Product::Columns();
      m.template LoadRows<4>(at_[0] + k, words_[0]);
      Product::template MultiplyAdd<0, 4, 3>(m);
      prefetch.PrefetchLines(lines);
      if (count_ > 1) {
        m.template LoadRows<5>(at_[1] + k, words_[1]);
        Product::template MultiplyAdd<1, 5, 3>(m);
        prefetch.PrefetchLines(lines);
      }
      if (count_ > 2) {
        m.template LoadRows<6>(at_[2] + k, words_[2]);
        Product::template MultiplyAdd<2, 6, 3>(m);
        prefetch.PrefetchLines(lines);
      }
    }
  }

  // sums[key, column], of whole matrices.
  template <class M>
  HWY_INLINE void StoreSums(void* sums, M& m) const {
    auto* const to = static_cast<float*>(sums);
    m.template StoreRows<0>(to, kColumns);
    if (count_ > 1) {
      m.template StoreRows<1>(to + kMatrixRows * kColumns, kColumns);
    }
    if (count_ > 2) {
      m.template StoreRows<2>(to + 2 * kMatrixRows * kColumns, kColumns);
    }
  }

 private:
  const int64_t bytes_;
  const int64_t count_;
  const std::byte* at_[3];
  ptrdiff_t words_[3];
};

template <class M>
HWY_INLINE void ClearSums(M& m) {
  m.template Clear<0>();
  m.template Clear<1>();
  m.template Clear<2>();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_MATRIX_KEYS_INL_H_
