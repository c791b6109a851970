// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit rows in integers, several at a time (cpu/byte_dots.h): what
// they take, and how queries become digits.
//
// A number of a query's row is an integer of 24 bits times a power of two that
// is the row's: three digits of 8 bits with a sign. A prob is one of 24 bits
// times what is its row's and step's: three digits without a sign. Sums of
// products of digits and elements are exact; what is rounded is each number,
// once, by less than 2^-22.9 of the greatest of its row, or by 2^-24 of that of
// its row and step.
//
// Keys of a step are packed as [group of lanes][four channels, lane], so that
// nothing is summed across lanes; values as [four keys][channel], in the order
// that interleaving gives (gemv_bytes-inl.h; byte_two_by_two-inl.h has others).
// Instructions want one of the two
// unsigned (byte_products-inl.h).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(FLASHACL_CPU_DECODE_BYTE_ARGS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_BYTE_ARGS_INL_H_
#undef FLASHACL_CPU_DECODE_BYTE_ARGS_INL_H_
#else
#define FLASHACL_CPU_DECODE_BYTE_ARGS_INL_H_
#endif

#include "cpu/decode/decode_kernel.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

#undef FLASHACL_HAS_BYTE_DOTS
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64 || \
    HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#define FLASHACL_HAS_BYTE_DOTS 1
#else
#define FLASHACL_HAS_BYTE_DOTS 0
#endif
// Of two rows by two rows.
#undef FLASHACL_HAS_BYTE_TWO_BY_TWO
#define FLASHACL_HAS_BYTE_TWO_BY_TWO \
  (FLASHACL_HAS_BYTE_DOTS && HWY_ARCH_ARM_A64)

inline constexpr int kQueryDigits = 3;
inline constexpr int kProbDigits = 3;

// Channels of 8-bit rows that one vector has.
HWY_INLINE constexpr int64_t ByteLanes() { return 4 * Lanes(); }

// The digits of a micro-tile's queries, in scratch memory of kHead words and
// kGroup for every four channels.
struct ByteQuery {
  static constexpr int64_t kHead = 4 * (kQueryDigits + 1);
  static constexpr int64_t kGroup = 16;  // a row of a matrix register

  int32_t* starts;  // [row, digit]: where sums of unsigned keys start
  float* units;     // [row]
  // [four channels][digit, row], four channels in each; of four digits, of
  // which the last is 0. In twos, [eight channels][digit * rows + row][four
  // channels, the next four].
  int32_t* digits;

  HWY_INLINE explicit ByteQuery(int32_t* words)
      : starts(words),
        units(reinterpret_cast<float*>(words + 4 * kQueryDigits)),
        digits(words + kHead) {}
};

// Packs rows that lie elsewhere.
struct PackArgs {
  const std::byte* const* rows;
  int64_t shift;  // of rows, from where `rows` says
  int64_t count;
  int64_t channels;  // a multiple of ByteLanes()
  float* packed;
  LinePrefetcher* prefetch;
  int64_t lines;  // to prefetch with every four rows
};

// scores = (dot + offset) * factor
struct ByteQkArgs {
  const std::byte* const* rows;  // where keys lie
  int64_t shift;                 // of keys, from where `rows` says
  float* keys;                   // packed; else room for as many
  int64_t count;
  int64_t channels;
  int32_t* query;       // ByteQuery
  const float* offset;  // [row], four of them
  float factor;
  LinePrefetcher* prefetch;
  int64_t lines;  // to prefetch, by kernels that share lines
  float* scores;  // [key, row], with room for whole vectors of keys
};

// out += probs * values
struct BytePvArgs {
  const float* values;  // packed
  int64_t count;
  int64_t vectors;  // of channels of floats
  LinePrefetcher* prefetch;
  int64_t lines;  // as above
  float* probs;   // [key, row]; with room for whole groups of four keys
  float* out;     // [vector of channels, row, lane]
};

// By the number of rows, less one; null: floats.
struct ByteKernels {
  void (*dot[4])(const ByteQkArgs& work);
  void (*add[4])(const BytePvArgs& work);
  int64_t min_rows;      // of a tile that gains by them
  int64_t channel_unit;  // of keys, whose channels are a multiple of it
  bool digits_in_twos;   // as ByteQuery says
  // Whether each micro-tile prefetches as many lines as it is told, and packing
  // does; else the first of a step prefetches as many as it reads.
  bool shares_lines;
  void (*pack_keys)(const PackArgs& work);  // null: read where they lie
  void (*pack_values)(const PackArgs& work);
};

// With the same bits: by multiplications of integers, by instructions, on
// matrix registers, by instructions two rows by two rows.
extern const ByteKernels kByteProducts;
extern const ByteKernels kByteProductsAtOnce;
extern const ByteKernels kByteProductsOnMatrices;
#if FLASHACL_HAS_BYTE_TWO_BY_TWO
extern const ByteKernels kByteProductsTwoByTwo;
#endif

// Null: floats.
inline const ByteKernels* ByteKernelsOf(ByteDots dots) {
  switch (dots) {
    case ByteDots::kMultiplyAdds:
      return &kByteProducts;
    case ByteDots::kInstruction:
      return &kByteProductsAtOnce;
    case ByteDots::kMatrices:
      return &kByteProductsOnMatrices;
#if FLASHACL_HAS_BYTE_TWO_BY_TWO
    case ByteDots::kTwoByTwo:
      return &kByteProductsTwoByTwo;
#endif
    default:
      return nullptr;
  }
}

// Rows of queries become digits: of a micro-tile of `rows` rows.
class ByteQueryRows {
 public:
  ByteQueryRows(int32_t* words, int rows, int64_t channels, bool in_twos)
      : query_(words), rows_(rows), channels_(channels), in_twos_(in_twos) {
    std::fill_n(words, ByteQueryWords(channels), 0);
  }

  // Row `r`, of which `row` has every vector, those of the micro-tile's other
  // rows in between. Returns its unit, of which each number errs by half at
  // most; infinity, and stores nothing, where its greatest number is so large
  // or so small that units or products of them leave fp32.
  float Store(int r, const float* HWY_RESTRICT row) const {
    const float greatest = Greatest(row);
    if (greatest != 0 && !(greatest >= 0x1p-90f && greatest <= 0x1p90f)) {
      return std::numeric_limits<float>::infinity();
    }
    // The digits after the first may add one to it, and it is at most 127.
    int shift = greatest == 0 ? 0 : 22 - std::ilogb(greatest);
    if (std::ldexp(greatest, shift) > 127.0f * 65536.0f) --shift;
    StoreDigits(r, row, std::ldexp(1.0f, shift));
    // Zeros err by nothing.
    return query_.units[r] = greatest == 0 ? 0.0f : std::ldexp(1.0f, -shift);
  }

 private:
  // Infinity where a number is none.
  float Greatest(const float* HWY_RESTRICT row) const {
    Vector greatest = hn::Zero(kF);
    Vector zeros = hn::Zero(kF);
    for (int64_t d = 0; d < channels_; d += Lanes()) {
      const Vector x = hn::Load(kF, row + d * rows_);
      greatest = hn::Max(greatest, hn::Abs(x));
      zeros = hn::MulAdd(x, hn::Zero(kF), zeros);
    }
    if (!hn::AllTrue(kF, hn::Eq(zeros, hn::Zero(kF)))) {
      return std::numeric_limits<float>::infinity();
    }
    return hn::GetLane(hn::MaxOfLanes(kF, greatest));
  }

  // Of four channels of a row's digit.
  int64_t Place(int64_t four, int digit, int r) const {
    if (!in_twos_) return four * ByteQuery::kGroup + digit * 4 + r;
    const int column = digit * rows_ + r;
    return four / 2 * 2 * ByteQuery::kGroup + column * 2 + four % 2;
  }

  void StoreDigits(int r, const float* HWY_RESTRICT row, float scale) const {
    const hn::Rebind<int8_t, Floats> bytes;
    VectorOf<Words> sums[kQueryDigits] = {hn::Zero(kW), hn::Zero(kW),
                                          hn::Zero(kW)};
    for (int64_t d = 0; d < channels_; d += Lanes()) {
      auto left = hn::NearestInt(
          hn::Mul(hn::Load(kF, row + d * rows_), hn::Set(kF, scale)));
      for (int t = kQueryDigits - 1; t >= 0; --t) {
        const auto digit = hn::ShiftRight<24>(hn::ShiftLeft<24>(left));
        left = hn::ShiftRight<8>(hn::Sub(left, digit));
        sums[t] = hn::Add(sums[t], digit);
        HWY_ALIGN int8_t lanes[Lanes()];
        hn::Store(hn::DemoteTo(bytes, digit), bytes, lanes);
        for (int64_t n = 0; n < Lanes(); n += 4) {
          std::memcpy(query_.digits + Place((d + n) / 4, t, r), lanes + n, 4);
        }
      }
    }
    for (int t = 0; t < kQueryDigits; ++t) {
      query_.starts[r * kQueryDigits + t] =
          -128 * hn::GetLane(hn::SumOfLanes(kW, sums[t]));
    }
  }

  const ByteQuery query_;
  const int rows_;
  const int64_t channels_;
  const bool in_twos_;
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_BYTE_ARGS_INL_H_
