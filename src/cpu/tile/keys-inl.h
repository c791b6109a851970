// SPDX-License-Identifier: Apache-2.0
// The operands of a tile as floats: queries as panels, keys and values as rows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/forward_tile.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_KEYS_INL_H_
#undef FLASHACL_CPU_TILE_KEYS_INL_H_
#else
#define FLASHACL_CPU_TILE_KEYS_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// All queries of the tile as panels; lanes without a row get the last row's.
inline void LoadQueries(const ForwardTile& tile) {
  const ForwardShape& shape = *tile.shape;
  const ForwardScratch& scratch = tile.scratch;
  const int64_t channels = shape.qk_dim + shape.rope_dim;
  const int64_t stride = scratch.stage_stride;
  const int64_t bytes = shape.qk_dim * shape.query.element_bytes;
  for (int64_t first = 0; first < tile.rows; first += Width()) {
    for (int64_t lane = 0; lane < Width(); lane += 4) {
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t ahead = first + lane + r + kPrefetchRows;
        if (ahead < tile.rows) PrefetchRow(scratch.lanes[ahead].query, bytes);

        const Lane& row =
            scratch.lanes[std::min(first + lane + r, tile.rows - 1)];
        float* const to = scratch.stage + r * stride;
        LoadRow(shape.query, row.query, shape.qk_dim, to);
        if (shape.rope_dim > 0) {
          LoadRow(shape.query_rope, row.query_rope, shape.rope_dim,
                  to + shape.qk_dim);
        }
      }
      // The last block of four channels may pass the panel's end by three;
      // the next panel overwrites them, and behind the last is room.
      RowsToPanel({scratch.stage, stride}, channels,
                  scratch.query + first * channels + lane);
    }
  }
}

// Addresses of the rows of one step.
struct KeyAddresses {
  Range step;
  bool absent = false;  // some key does not exist
  const std::byte* key[kMostColumns];
  const std::byte* rope[kMostColumns];
  const std::byte* value[kMostColumns];

  void Locate(const KeyRows& rows, Range cols) {
    step = cols;
    absent = rows.Locate(cols, key, rope, value);
  }
};

// Asks for share `n` of `count` of a step's rows.
inline void PrefetchKeys(const KeyRows& rows, const KeyAddresses& at, int64_t n,
                         int64_t count) {
  const Range share{n * at.step.size() / count,
                    (n + 1) * at.step.size() / count};
  const int64_t key_bytes = rows.key.channels * rows.key.format.element_bytes;
  const int64_t value_bytes =
      rows.value.channels * rows.value.format.element_bytes;
  for (int64_t j = share.first; j < share.last; ++j) {
    if (at.key[j] != nullptr) PrefetchRow(at.key[j], key_bytes);
    if (at.value[j] != nullptr) PrefetchRow(at.value[j], value_bytes);
  }
}

// Asks for share `n` of `count` of a tile's queries.
inline void PrefetchQueries(const ForwardTile& tile, int64_t n, int64_t count) {
  const int64_t bytes = tile.shape->qk_dim * tile.shape->query.element_bytes;
  const int64_t last = (n + 1) * tile.rows / count;
  for (int64_t r = n * tile.rows / count; r < last; ++r) {
    PrefetchRow(tile.scratch.lanes[r].query, bytes);
  }
}

// What a step's keys turned out to be.
struct LoadedKeys {
  bool absent = false;  // some key does not exist
  bool finite = true;   // every value is
  // Bit j: key j of the step exists.
  std::array<uint32_t, kMostColumns / 32 + 2> exists;
  mutable std::array<uint32_t, kMostColumns / 32 + 2> shifted;

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

// Row `j` of a step as floats; 0 if it does not exist. Asks for a later one.
inline void LoadOne(const RowSource& source, const std::byte* const* at,
                    int64_t j, int64_t count, float* HWY_RESTRICT to) {
  const int64_t ahead = j + kPrefetchRows;
  if (ahead < count && at[ahead] != nullptr) {
    PrefetchRow(at[ahead], source.channels * source.format.element_bytes);
  }
  if (at[j] == nullptr) {
    std::fill(to, to + source.channels, 0.0f);
    return;
  }
  LoadRow(source.format, at[j], source.channels, to);
  if (source.codec.scale != nullptr) {
    Dequantise(source.codec.scale, source.codec.offset, source.channels, to);
  }
}

// Whether all numbers are: neither infinite nor NaN.
inline bool AllFinite(const float* HWY_RESTRICT row, int64_t channels) {
  // x * 0 is 0 for finite x alone, and NaN stays in a sum.
  const Vector zero = hn::Zero(kF);
  Vector sum = zero;
  int64_t d = 0;
  for (; d + Lanes() <= channels; d += Lanes()) {
    sum = hn::MulAdd(hn::LoadU(kF, row + d), zero, sum);
  }
  float rest = 0;
  for (; d < channels; ++d) rest += row[d] * 0.0f;
  return hn::AllTrue(kF, hn::Eq(sum, zero)) && rest == 0.0f;
}

// Values by blocks of channels, [block][key][channel of the block]: what a
// block's sums need next is what lies next. The block that begins at channel d
// starts at d * value_keys.
inline void PackValues(const ForwardTile& tile, const float* HWY_RESTRICT row,
                       int64_t j) {
  const ForwardScratch& scratch = tile.scratch;
  ForBlocks(tile.shape->v_dim, [&](int64_t d, auto size) HWY_ATTR {
    float* const to = scratch.values + d * scratch.value_keys + j * size();
    // Whole vectors: what passes the end is overwritten by the next key, and
    // behind the last key of a block is room.
    for (ptrdiff_t c = 0; c < size(); c += Lanes()) {
      hn::StoreU(hn::LoadU(kF, row + d + c), kF, to + c);
    }
  });
}

// The keys of one step as rows of floats, the values by blocks of channels.
inline void LoadKeys(const ForwardTile& tile, const KeyAddresses& at,
                     LoadedKeys& loaded) {
  const ForwardScratch& scratch = tile.scratch;
  const KeyRows& rows = tile.keys;
  const int64_t count = at.step.size();
  loaded.absent = at.absent;
  if (loaded.absent) {
    loaded.exists.fill(0);
    for (int64_t j = 0; j < count; ++j) {
      loaded.exists[static_cast<size_t>(j / 32)] |=
          uint32_t{at.key[j] != nullptr} << (j % 32);
    }
  }
  const bool shared = rows.value.base == nullptr;  // values are keys
  loaded.finite = true;
  for (int64_t j = 0; j < count; ++j) {
    float* const key = scratch.keys + j * scratch.key_stride;
    LoadOne(rows.key, at.key, j, count, key);
    if (rows.rope.base != nullptr) {
      LoadOne(rows.rope, at.rope, j, count, key + rows.key.channels);
    }
    float* const value = shared ? key : scratch.stage;
    if (!shared) LoadOne(rows.value, at.value, j, count, value);
    loaded.finite &= AllFinite(value, tile.shape->v_dim);
    PackValues(tile, value, j);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_KEYS_INL_H_
