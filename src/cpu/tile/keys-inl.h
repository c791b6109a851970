// SPDX-License-Identifier: Apache-2.0
// The keys and values of a tile's steps as rows, of floats, or of pairs where
// these pay.
//
// They are loaded once per step for all panels: keys as rows of channels with
// their ropes after the rest, values packed by blocks of channels
// (PackedValues). The loop over keys is outer, of dense values that over blocks
// within four keys; channels lie in lanes. No later loop knows element types or
// quantisation parameters; whether every value is finite is found on the way.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_KEYS_INL_H_
#undef FLASHACL_CPU_TILE_KEYS_INL_H_
#else
#define FLASHACL_CPU_TILE_KEYS_INL_H_
#endif

#include "cpu/tile/integers-inl.h"
#include "cpu/tile/key_addresses-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrices-inl.h"
#include "cpu/tile/pack_values-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/terms-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

using Patterns = VectorOf<Words>;

// What a step's keys turned out to be.
struct LoadedKeys {
  PackedValues values{};         // where they are
  bool pairs_of_keys = false;    // two keys to a word
  bool by_channel = false;       // [channel, key] (matrix_values-inl.h)
  ptrdiff_t channel_stride = 0;  // words from channel to channel
  int terms = 1;                 // of values by channel
  StepQuantParams key_quant{}, value_quant{};
  bool absent = false;          // some key does not exist
  bool finite = true;           // every value is
  bool large = false;           // some value is so large that sums may overflow
  bool subnormal_keys = false;  // some row was loaded as pairs, and is,
                                // or as two terms, and is not finite,
                                // or of integers, whose scale cannot wait
  bool tiny = false;  // some value in pairs is below 2^-100, but not 0
  // Bit j: key j of the step exists.
  std::array<uint32_t, kMaxStepKeys / 32 + 2> exists{};
  mutable std::array<uint32_t, kMaxStepKeys / 32 + 2> shifted{};

  // The same bits from key `first` on; null if all exist.
  const uint32_t* ExistsFrom(int64_t first) const {
    if (!absent) return nullptr;
    const size_t word = static_cast<size_t>(first / 32);
    const int bit = static_cast<int>(first % 32);
    for (size_t n = word; n + 1 < exists.size(); ++n) {
      const uint64_t both = exists[n] | uint64_t{exists[n + 1]} << 32;
      shifted[n - word] = static_cast<uint32_t>(both >> bit);
    }
    return shifted.data();
  }
};

// A row that comes kPrefetchRows after row `j` will be needed.
HWY_INLINE void PrefetchLater(const RowSource& source,
                              const std::byte* const* at, int64_t j,
                              int64_t count) {
  const int64_t later = j + kPrefetchRows;
  if (later < count && at[later] != nullptr &&
      source.format.channel_block == 0) {
    PrefetchRow(at[later], source.format.BytesOf(source.channels));
  }
}

// Row `j` of a step as floats; 0 if it does not exist. Prefetches a later
// one.
inline void LoadOne(const RowSource& source, const std::byte* const* at,
                    int64_t j, int64_t count, float* HWY_RESTRICT to) {
  PrefetchLater(source, at, j, count);
  if (at[j] == nullptr) {
    std::fill(to, to + source.channels, 0.0f);
    return;
  }
  LoadChannels(source.format, at[j], source.channels, to);
  if (source.quant.scale != nullptr) {
    Dequantise(source.quant.scale, source.quant.offset, source.channels, to);
  }
}

// Key `j` of a step as floats, its rope after the rest.
inline void LoadKey(const KvRows& rows, const KeyAddresses& at, int64_t j,
                    float* HWY_RESTRICT to) {
  const int64_t count = at.step.size();
  LoadOne(rows.key, at.key, j, count, to);
  if (rows.rope.base == nullptr) return;
  LoadOne(rows.rope, at.rope, j, count, to + rows.key.channels);
}

// The first `channels` of row `j` of a step as pairs; 0 if it does not exist.
// Prefetches a later one.
inline void LoadOnePairs(const RowSource& source, const std::byte* const* at,
                         int64_t j, int64_t count, int64_t channels,
                         float* HWY_RESTRICT to,
                         LeastOfPairs<Floats>& subnormals) {
  PrefetchLater(source, at, j, count);
  if (at[j] == nullptr) {
    std::fill(to, to + channels / 2, 0.0f);
    return;
  }
  LoadPairs(source.format, at[j], channels, to, subnormals);
}

// Key `j` of a step as pairs, its rope after the rest.
inline void LoadKeyPairs(const KvRows& rows, const KeyAddresses& at, int64_t j,
                         float* HWY_RESTRICT to,
                         LeastOfPairs<Floats>& subnormals) {
  const int64_t count = at.step.size();
  const int64_t channels = rows.key.channels;
  LoadOnePairs(rows.key, at.key, j, count, channels, to, subnormals);
  if (rows.rope.base == nullptr) return;
  LoadOnePairs(rows.rope, at.rope, j, count, rows.rope.channels,
               to + channels / 2, subnormals);
}

// The same of fp16, as two terms; 0 if it does not exist.
inline void LoadKeyTerms(const KvRows& rows, const KeyAddresses& at, int64_t j,
                         float* HWY_RESTRICT to, NonFinite& non_finite) {
  const int64_t channels = rows.key.channels;
  const int64_t rope = rows.rope.base == nullptr ? 0 : rows.rope.channels;
  const int64_t count = at.step.size();
  PrefetchLater(rows.key, at.key, j, count);
  if (at.key[j] == nullptr) {
    std::fill_n(to, channels + rope, 0.0f);
    return;
  }
  LoadTerms(at.key[j], channels, (channels + rope) / 2, to, non_finite);
  if (rope == 0) return;
  PrefetchLater(rows.rope, at.rope, j, count);
  LoadTerms(at.rope[j], rope, (channels + rope) / 2, to + channels / 2,
            non_finite);
}

// The same of integers without their scales, whose ropes are pairs.
inline void LoadKeyIntegers(const KvRows& rows, const KeyAddresses& at,
                            int64_t j, float* HWY_RESTRICT to,
                            LeastOfPairs<Floats>& subnormals) {
  const int64_t count = at.step.size();
  const int64_t channels = rows.key.channels;
  PrefetchLater(rows.key, at.key, j, count);
  LoadIntegers(rows.key.format, at.key[j], channels, to);
  if (rows.rope.base == nullptr) return;
  LoadOnePairs(rows.rope, at.rope, j, count, rows.rope.channels,
               to + channels / 2, subnormals);
  ClearAfterPairs(channels + rows.rope.channels, 1, to);
}

// The same where values come later: of terms, and of integers; else false.
inline bool LoadKeyAlone(const ScoreTile& tile, const KeyAddresses& at,
                         int64_t j, float* HWY_RESTRICT to,
                         LeastOfPairs<Floats>& subnormals,
                         NonFinite& non_finite) {
  if (tile.terms == 2) {
    LoadKeyTerms(tile.keys, at, j, to, non_finite);
  } else if (tile.integers) {
    LoadKeyIntegers(tile.keys, at, j, to, subnormals);
  }
  return tile.terms == 2 || tile.integers;
}

// The greatest pattern of a row's numbers without their signs, raised to what
// it was before: infinities and NaNs are above all others.
HWY_INLINE Patterns GreatestPattern(const float* HWY_RESTRICT row,
                                    int64_t channels, Patterns greatest) {
  int64_t d = 0;
  for (; d + Lanes() <= channels; d += Lanes()) {
    const auto bits = hn::BitCast(kW, hn::Abs(hn::LoadU(kF, row + d)));
    greatest = hn::Max(bits, greatest);
  }
  for (; d < channels; ++d) {
    const auto bits = hn::BitCast(kW, hn::Abs(hn::Set(kF, row[d])));
    greatest = hn::Max(bits, greatest);
  }
  return greatest;
}

HWY_INLINE bool IsFinite(const Patterns& greatest) {
  return hn::AllTrue(kW, hn::Lt(greatest, hn::Set(kW, 0x7F800000)));
}

inline bool AllFinite(const float* HWY_RESTRICT row, int64_t channels) {
  return IsFinite(GreatestPattern(row, channels, hn::Zero(kW)));
}

// Whether some number is 2^64 or more: no sequence has so many keys that their
// probs times less than that overflow.
HWY_INLINE bool IsLarge(const Patterns& greatest) {
  return !hn::AllTrue(kW, hn::Lt(greatest, hn::Set(kW, 0x5F800000)));
}

// Which keys of a step exist.
inline void NoteAbsent(const KeyAddresses& at, LoadedKeys& loaded) {
  loaded.absent = at.absent;
  if (!at.absent) return;
  loaded.exists.fill(0);
  for (int64_t j = 0; j < at.step.size(); ++j) {
    loaded.exists[static_cast<size_t>(j / 32)] |= uint32_t{at.key[j] != nullptr}
                                                  << (j % 32);
  }
}

// Whether rows are numbers as they lie, side by side, that become floats and
// nothing else, whole vectors of them.
inline bool IsDense(const RowSource& source, int64_t channels) {
  const ElementFormat& format = source.format;
  const DType dtype = format.dtype;
  return format.step == 1 && format.channel_block == 0 && channels >= Lanes() &&
         source.quant.scale == nullptr && !source.scaled_by_row() &&
         (dtype == DType::kF32 || dtype == DType::kF16 ||
          dtype == DType::kBf16);
}

// Whether values are packed from where they lie, as floats.
inline bool PacksInPlace(const ScoreTile& tile, const LoadedKeys& loaded) {
  return tile.dots == PairDots::kNone && !loaded.pairs_of_keys &&
         IsDense(tile.keys.values(), tile.params->v_dim);
}

// Whether all rows of a step are there and dense, and floats are wanted.
inline bool StepIsDense(const ScoreTile& tile, const LoadedKeys& loaded) {
  const KvRows& rows = tile.keys;
  return PacksInPlace(tile, loaded) && !loaded.absent &&
         IsDense(rows.key, rows.key.channels) &&
         (rows.rope.base == nullptr || IsDense(rows.rope, rows.rope.channels));
}

inline void PrefetchLater(const RowSource& source, const std::byte* const* at,
                          Range some, int64_t count) {
  for (int64_t j = some.first; j < some.last; ++j) {
    PrefetchLater(source, at, j, count);
  }
}

// Rows `some` of a step of `count` as floats. Prefetches later ones.
inline void LoadDense(const RowSource& source, const std::byte* const* at,
                      Range some, int64_t count, float* to, ptrdiff_t stride) {
  PrefetchLater(source, at, some, count);
  WithVectorType(source.format.dtype, [&](auto type) HWY_ATTR {
    LoadDenseRows<type()>(at, some, source.channels, to, stride);
  });
}

// Values `some` of a step from where they lie; returns their greatest pattern.
// Prefetches later ones.
inline int32_t PackInPlace(const ScoreTile& tile, const KeyAddresses& at,
                           Range some, const PackedValues& values) {
  const KvRows& rows = tile.keys;
  const bool shared = rows.value.base == nullptr;  // values are keys
  if (!shared) PrefetchLater(rows.value, at.value, some, at.step.size());
  int32_t greatest = 0;
  WithVectorType(rows.values().format.dtype, [&](auto type) HWY_ATTR {
    greatest = PackRows<type()>(shared ? at.key : at.value, some,
                                tile.params->v_dim, values);
  });
  return greatest;
}

// A step that is dense, four keys at a time: types are asked for once for
// these. Returns the greatest pattern of values. None is absent, and where
// there is a prefix there are no ropes, so every address is one.
inline int32_t LoadDenseKeys(const ScoreTile& tile, const KeyAddresses& at,
                             const PackedValues& values) {
  const KvRows& rows = tile.keys;
  const ScoreScratch& scratch = tile.scratch;
  const int64_t count = at.step.size();
  int32_t greatest = 0;
  for (int64_t j = 0; j < count; j += 4) {
    const Range four{j, std::min(j + 4, count)};
    LoadDense(rows.key, at.key, four, count, scratch.keys, scratch.key_stride);
    if (rows.rope.base != nullptr) {
      LoadDense(rows.rope, at.rope, four, count,
                scratch.keys + rows.key.channels, scratch.key_stride);
    }
    greatest = std::max(greatest, PackInPlace(tile, at, four, values));
  }
  return greatest;
}

// The keys of one step as rows of floats, the values by blocks of channels
// unless they are wanted by channel: these the caller packs.
inline void LoadKeys(const ScoreTile& tile, const KeyAddresses& at,
                     LoadedKeys& loaded) {
  // Copies: whatever is stored might otherwise change them.
  const ScoreScratch scratch = tile.scratch;
  const PackedValues values = loaded.values;
  const int64_t v_dim = tile.params->v_dim;
  const KvRows& rows = tile.keys;
  const int64_t count = at.step.size();
  NoteAbsent(at, loaded);
  const bool pairs = tile.dots != PairDots::kNone;
  const bool matrices = tile.dots == PairDots::kMatrices;
  const bool shared = rows.value.base == nullptr;  // values are keys
  StepQuantParams& key_quant = loaded.key_quant;
  StepQuantParams& value_quant = loaded.value_quant;
  key_quant.Load(rows, rows.key, at.step);
  value_quant.Load(rows, rows.values(), at.step);
  Patterns greatest = hn::Zero(kW);
  LeastOfPairs<Floats> subnormals;
  NonFinite non_finite;
  PairsOfKeys packed(scratch, v_dim, values);
  const bool in_place = PacksInPlace(tile, loaded);
  const bool dense = StepIsDense(tile, loaded);
  if (dense) greatest = hn::Set(kW, LoadDenseKeys(tile, at, values));
  for (int64_t j = dense ? count : 0; j < count; ++j) {
    float* const key = scratch.keys + j * scratch.key_stride;
    float* value = loaded.pairs_of_keys ? packed.Row(j) : scratch.staging;
    if (LoadKeyAlone(tile, at, j, key, subnormals, non_finite)) continue;
    if (pairs) {
      LoadKeyPairs(rows, at, j, key, subnormals);
      if (matrices) ClearAfterPairs(tile.params->score_dim(), 1, key);
      if (loaded.by_channel) continue;
      if (shared) LoadOne(rows.key, at.key, j, count, value);
    } else {
      LoadKey(rows, at, j, key);
      key_quant.Dequantise(j, rows.key.channels, key);
      if (shared) value = key;
    }
    if (in_place && at.key[j] != nullptr) {
      const int32_t most = PackInPlace(tile, at, {j, j + 1}, values);
      greatest = hn::Max(greatest, hn::Set(kW, most));
      continue;
    }
    if (!shared) {
      LoadOne(rows.value, at.value, j, count, value);
      value_quant.Dequantise(j, v_dim, value);
    }
    greatest = GreatestPattern(value, v_dim, greatest);
    if (loaded.pairs_of_keys) {
      packed.Pack(j, j + 1 == count);
    } else {
      PackValues(value, v_dim, j, values);
    }
  }
  loaded.subnormal_keys = subnormals.AnySubnormal() || non_finite.any() ||
                          (tile.integers && !key_quant.CanWait(count));
  if (loaded.by_channel) return;
  loaded.tiny = packed.tiny();
  loaded.finite = IsFinite(greatest);
  loaded.large = IsLarge(greatest);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_KEYS_INL_H_
