// SPDX-License-Identifier: Apache-2.0
// Matrix registers: eight that hold 16 rows of 64 bytes, an instruction that
// multiplies two of bf16 and adds to a third of floats (x86's AMX-BF16), and
// two that multiply bytes and add to words (AMX-INT8).
//
// Rows of the first operand are scalars, words of two numbers along k; those of
// the second are words of the same two k, one lane to a column; sums are [row,
// lane]. That is what panels and rows of pairs are (pairs-inl.h). Of bytes a
// word has four along k. The layer is thin: configure, clear, load, multiply,
// store, release. Vector code of targets without the instructions computes the
// same bits in many, for tests; on those without fused multiply-adds, nearly
// the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/sizes.h"

#if defined(FLASHACL_CPU_TILE_MATRICES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_MATRICES_INL_H_
#undef FLASHACL_CPU_TILE_MATRICES_INL_H_
#else
#define FLASHACL_CPU_TILE_MATRICES_INL_H_
#endif

#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

#undef FLASHACL_HAS_MATRICES
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
#define FLASHACL_HAS_MATRICES 1
#else
#define FLASHACL_HAS_MATRICES 0
#endif

inline constexpr int64_t kMatrixRows = 16;
inline constexpr int64_t kMatrixWords = kMatrixNumbers / 2;  // along k
// Lanes of sums: half of those of a panel, 16 where there are registers.
HWY_INLINE constexpr ptrdiff_t MatrixLanes() { return Lanes(); }

// The instructions as Intel's manual describes them. Even and odd numbers have
// a sum each along k, of which each step is rounded once; the two are added,
// and then to what was there. Subnormals are 0, as operands and results.
class EmulatedMatrices {
 public:
  static HWY_INLINE void Configure() {}
  static HWY_INLINE void Release() {}

  template <int kTo>
  HWY_INLINE void Clear() {
    std::memset(rows_[kTo], 0, sizeof(rows_[kTo]));
  }

  // 16 rows, `stride` floats apart; of words, or of sums.
  template <int kTo>
  HWY_INLINE void LoadRows(const void* from, ptrdiff_t stride) {
    Load(from, stride, rows_[kTo], 16);
  }
  template <int kTo>
  HWY_INLINE void LoadLanes(const void* from, ptrdiff_t stride) {
    Load(from, stride, rows_[kTo], MatrixLanes());
  }
  template <int kFrom>
  HWY_INLINE void StoreRows(void* to, ptrdiff_t stride) const {
    Store(rows_[kFrom], to, stride, 16);
  }
  template <int kFrom>
  HWY_INLINE void StoreLanes(void* to, ptrdiff_t stride) const {
    Store(rows_[kFrom], to, stride, MatrixLanes());
  }

  // sums[row, column] += products of bytes a[row, k] and b[k, column], as words
  // that may overflow, of all 16 columns. Those of b have a sign, and those of
  // a if they are of type Byte, int8_t or uint8_t.
  template <class Byte, int kSums, int kA, int kB>
  HWY_NOINLINE void MultiplyAddBytes() {
    for (int64_t row = 0; row < kMatrixRows; ++row) {
      uint32_t sums[16];
      Byte a[64];
      std::memcpy(sums, rows_[kSums][row], sizeof(sums));
      std::memcpy(a, rows_[kA][row], sizeof(a));
      for (int64_t k = 0; k < 64; ++k) {
        int8_t b[64];
        std::memcpy(b, rows_[kB][k / 4], sizeof(b));
        for (int64_t n = 0; n < 16; ++n) {
          sums[n] += static_cast<uint32_t>(a[k] * b[4 * n + k % 4]);
        }
      }
      std::memcpy(rows_[kSums][row], sums, sizeof(sums));
    }
  }

  // sums[row, lane] += products of a[row, k] and b[k, lane].
  template <int kSums, int kA, int kB>
  HWY_NOINLINE void MultiplyAdd() {
    for (int64_t row = 0; row < kMatrixRows; ++row) {
      Vector lower = hn::Zero(kF), upper = hn::Zero(kF);
      for (int64_t k = 0; k < kMatrixWords; ++k) {
        const Vector a = hn::Set(kF, rows_[kA][row][k]);
        const Vector b = hn::Load(kF, rows_[kB][k]);
        lower = AddFlushed(LowerOfPairs(a), LowerOfPairs(b), lower);
        upper = AddFlushed(UpperOfPairs(a), UpperOfPairs(b), upper);
      }
      float* const sums = rows_[kSums][row];
      const Vector both = Flush(hn::Add(lower, upper));
      hn::Store(Flush(hn::Add(Flush(hn::Load(kF, sums)), both)), kF, sums);
    }
  }

 private:
  static HWY_INLINE Vector Flush(const Vector& x) {
    return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(kF, 0x1p-126f)), x);
  }
  static HWY_INLINE Vector AddFlushed(const Vector& x, const Vector& y,
                                      const Vector& sum) {
    return Flush(hn::MulAdd(Flush(x), Flush(y), sum));
  }
  using Rows = float[kMatrixRows][16];
  static HWY_INLINE void Load(const void* from, ptrdiff_t stride, Rows& to,
                              ptrdiff_t count) {
    for (int64_t row = 0; row < kMatrixRows; ++row) {
      std::memcpy(to[row], static_cast<const float*>(from) + row * stride,
                  static_cast<size_t>(count) * sizeof(float));
    }
  }
  static HWY_INLINE void Store(const Rows& from, void* to, ptrdiff_t stride,
                               ptrdiff_t count) {
    for (int64_t row = 0; row < kMatrixRows; ++row) {
      std::memcpy(static_cast<float*>(to) + row * stride, from[row],
                  static_cast<size_t>(count) * sizeof(float));
    }
  }

  HWY_ALIGN Rows rows_[8];
};

#if FLASHACL_HAS_MATRICES
// What ldtilecfg loads: the only palette that there is, and how many bytes a
// row and how many rows each register has.
struct alignas(64) MatrixConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[8] = {64, 64, 64, 64, 64, 64, 64, 64}, none[8] = {};
  uint8_t rows[8] = {16, 16, 16, 16, 16, 16, 16, 16}, unused[8] = {};
};
static_assert(sizeof(MatrixConfig) == 64 && kMatrixRows == 16);
inline constexpr MatrixConfig kMatrixConfig;

// They belong to the thread from Configure to Release; nobody else's code in
// between may use them, or save them at a price.
class Matrices {
 public:
  static HWY_INLINE void Configure() {
    asm volatile("ldtilecfg %0" : : "m"(kMatrixConfig));
  }
  static HWY_INLINE void Release() { asm volatile("tilerelease"); }

  template <int kTo>
  HWY_INLINE void Clear() const {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTo));
  }
  template <int kTo>
  HWY_INLINE void LoadRows(const void* from, ptrdiff_t stride) const {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(stride * 4), "i"(kTo)
                 : "memory");
  }
  template <int kTo>
  HWY_INLINE void LoadLanes(const void* from, ptrdiff_t stride) const {
    LoadRows<kTo>(from, stride);
  }
  template <int kFrom>
  HWY_INLINE void StoreRows(void* to, ptrdiff_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(stride * 4), "i"(kFrom)
                 : "memory");
  }
  template <int kFrom>
  HWY_INLINE void StoreLanes(void* to, ptrdiff_t stride) const {
    StoreRows<kFrom>(to, stride);
  }
  template <int kSums, int kA, int kB>
  HWY_INLINE void MultiplyAdd() const {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSums), "i"(kA), "i"(kB));
  }
  template <class Byte, int kSums, int kA, int kB>
  HWY_INLINE void MultiplyAddBytes() const {
    if constexpr (std::is_signed_v<Byte>) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                   :
                   : "i"(kSums), "i"(kA), "i"(kB));
    } else {
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                   :
                   : "i"(kSums), "i"(kA), "i"(kB));
    }
  }
};
#else
using Matrices = EmulatedMatrices;
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_MATRICES_INL_H_
