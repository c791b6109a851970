// SPDX-License-Identifier: Apache-2.0
// What the products for few rows take (gemv-inl.h), and their tables, one per
// type of elements. Each is compiled in a source of its own, as all of them
// take minutes where sanitizers look at them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_ARGS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_ARGS_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_ARGS_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_ARGS_INL_H_
#endif

#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Channels may lie in pieces of so many bytes, as in CANN's caches of blocks.
// Products read them there if each of a row is followed by another one.
inline constexpr int64_t kPieceBytes = 32;

constexpr bool HasPieces(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kI8;
}

// One micro-tile of a product.
struct QkTile {
  int rows;
  int64_t key_shift;  // bytes from where `keys` says to its keys
  int64_t rope_shift;
  const float* query;   // [vector of channels, row, lane]
  const float* offset;  // [row], four of them
  float* scores;        // [key, row]
  // Of integers, else null. [row], four of them: what multiplies their sums,
  // and where these start in twos, whose even channels are 128 more.
  const float* units = nullptr;
  const int32_t* starts = nullptr;
};
struct PvTile {
  int rows;
  int64_t shift;  // bytes from where `values` says to its values
  float* probs;   // [key, row]
  float* out;     // [vector of channels, row, lane]
};

// The micro-tiles of a call, [head, micro-tile], all but the last of each head
// of four rows. All go through some keys before the first goes on.
template <typename Tile>
struct TilesOf {
  const Tile* tiles;
  int64_t heads;
  int64_t of_head;         // micro-tiles
  int64_t keys_at_a_time;  // at least 1
};

// Some keys of a call, `j` and those after it, all of which a head goes through
// before the next.
template <typename Tile>
HWY_INLINE Range KeysFrom(int64_t j, const TilesOf<Tile>& all, int64_t count) {
  return {j, std::min(j + all.keys_at_a_time, count)};
}

// The micro-tiles of a head, or twos of them, so many, take turns: each
// prefetches with one of so many parts of its work. So prefetches are even in
// time; a processor may drop what comes faster than memory answers
// (docs/notes/0064).
class PrefetchTurns {
 public:
  static constexpr int64_t kNone = int64_t{1} << 32;  // as `first`

  PrefetchTurns(int64_t of, int64_t first) : of_(of), left_(first + 1) {}

  // Whether the next part does.
  HWY_INLINE bool Next() {
    if (--left_ > 0) return false;
    left_ = of_;
    return true;
  }

 private:
  int64_t of_, left_;
};

// Of number `n` of so many of a head. The first does it alone where few keys
// are taken at a time, whose parts would be too few to share; and where
// registers are few, as rows then take different numbers of lines, which
// sections do not allow.
template <typename Tile>
HWY_INLINE PrefetchTurns TurnsOf(const TilesOf<Tile>& all, int64_t of,
                                 int64_t n, int registers = kVectorRegisters) {
  if (registers == 32 && all.keys_at_a_time >= kDecodeKeys) return {of, n};
  return {1, n == 0 ? 0 : PrefetchTurns::kNone};
}

// Heads' micro-tiles, two at a time, which take turns prefetching: calls
// one[rows - 1] for a tile of so many rows that is alone, or two[rows - 1] for
// two, by the rows of the second.
template <class Args, typename Tile>
HWY_INLINE void ForTwos(const Args& work, const Tile (&one)[4],
                        const Tile (&two)[4]) {
  const int64_t count = work.all.of_head, turns = CeilDiv(count, 2);
  for (int64_t j = 0; j < work.count; j += work.all.keys_at_a_time) {
    const Range which = KeysFrom(j, work.all, work.count);
    const auto* tiles = work.all.tiles;
    for (int64_t head = 0; head < work.all.heads; ++head, tiles += count) {
      for (int64_t n = 0; n < count; n += 2) {
        const Tile compute =
            n + 1 < count ? two[tiles[n + 1].rows - 1] : one[tiles[n].rows - 1];
        compute(work, tiles + n, which, TurnsOf(work.all, turns, n / 2));
      }
    }
  }
}

// What turns dot products into scores: (dot + offset) * factor, where dot is a
// sum of integers times its row's unit.
struct QkArgs {
  TilesOf<QkTile> all;
  const std::byte* const* keys;
  const std::byte* const* ropes;  // null: none
  LinePrefetcher* prefetch;       // issued meanwhile
  int64_t count;                  // of keys
  int64_t piece_step;    // bytes from piece to piece of keys; 0: whole rows
  int64_t key_channels;  // whole vectors, as are those of the rope
  int64_t rope_channels;
  float factor;
  // Of what it would prefetch it leaves about a quarter, for the softmax.
  bool leaves_lines;
};

// out += probs * values
struct PvArgs {
  TilesOf<PvTile> all;
  const std::byte* const* values;
  LinePrefetcher* prefetch;  // issued meanwhile
  int64_t piece_step;        // bytes from piece to piece; 0: whole rows
  int64_t count;
  int64_t vectors;  // of channels
};

// By the number of rows of each head's first micro-tile, less one.
struct DotKernels {
  void (*of[4])(const QkArgs& work);
};

// Both products of a type of elements.
struct GemvKernels {
  DotKernels dot;
  void (*add[4])(const PvArgs& work);
};

// Pairs of bf16 by multiply-adds, or by the instruction, which makes 0 of what
// is subnormal (PairDots). Scores are of pairs of channels, queries and keys
// alike. Outputs are of pairs of keys, of heads of more than four rows; probs
// become such pairs where they are (key_pairs-inl.h). Channels of keys, of
// ropes and of values are whole vectors of pairs.
extern const GemvKernels kGemvPairs;
extern const GemvKernels kGemvPairsAtOnce;

// Scores of fp16 channels, queries and keys alike, by instructions that
// multiply them as they are (half_dots.h), with the bits of floats. Channels as
// above.
#undef FLASHACL_HAS_HALF_DOTS
#if HWY_ARCH_ARM_A64 && !FLASHACL_SVE_BITS && HWY_TARGET != HWY_EMU128 && \
    HWY_TARGET != HWY_SCALAR
#define FLASHACL_HAS_HALF_DOTS 1
#else
#define FLASHACL_HAS_HALF_DOTS 0
#endif
extern const DotKernels kDotHalves;

// Of keys and values of 8 bits as integers of 16 beside such queries and probs
// (int16_dots.h), by multiply-adds or by the instruction. Channels are whole
// vectors of bytes, and a call of values has all keys of a step.
#undef FLASHACL_HAS_INT16_DOTS
#define FLASHACL_HAS_INT16_DOTS HWY_ARCH_X86_64
extern const GemvKernels kGemvInt16;
extern const GemvKernels kGemvInt16AtOnce;

// The same, but for scores in twos (gemv_int16_twos-inl.h), of queries whose
// channels have the order of Int16Query.
#undef FLASHACL_HAS_INT16_TWOS
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
#define FLASHACL_HAS_INT16_TWOS 1
#else
#define FLASHACL_HAS_INT16_TWOS 0
#endif
extern const GemvKernels kGemvInt16InTwos;

// Of 16 bits that become floats once for two micro-tiles
// (shared_conversions.h): bf16 as parted pairs, of any rows, channels in whole
// lines; bf16 and fp16 of any channels and of heads of more than four rows.
#undef FLASHACL_HAS_SHARED_CONVERSIONS
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
#define FLASHACL_HAS_SHARED_CONVERSIONS 1
#else
#define FLASHACL_HAS_SHARED_CONVERSIONS 0
#endif
extern const GemvKernels kGemvPartedPairs;
extern const GemvKernels kGemvBf16InTwos;
extern const GemvKernels kGemvF16InTwos;

extern const GemvKernels kGemvF32;
extern const GemvKernels kGemvF16;
extern const GemvKernels kGemvBf16;
extern const GemvKernels kGemvI8;
extern const GemvKernels kGemvI4x8;

// Null for types that are converted beforehand.
inline const GemvKernels* GemvKernelsOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return &kGemvF32;
    case DType::kF16:
      return &kGemvF16;
    case DType::kBf16:
      return &kGemvBf16;
    case DType::kI8:
      return &kGemvI8;
    case DType::kI4x8:
      return &kGemvI4x8;
    default:
      return nullptr;
  }
}

// Probs of four rows, of a single one and others that are 0.
HWY_INLINE void SpreadProbs(const float* HWY_RESTRICT probs, int64_t count,
                            float* HWY_RESTRICT four) {
  std::fill_n(four, 4 * count, 0.0f);
  for (int64_t j = 0; j < count; ++j) four[4 * j] = probs[j];
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_GEMV_ARGS_INL_H_
