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

// Loads `count` rows; rows that do not exist become 0.
inline void LoadRows(const RowSource& source, const std::byte* const* at,
                     int64_t count, float* HWY_RESTRICT to, int64_t stride) {
  const int64_t bytes = source.channels * source.format.element_bytes;
  for (int64_t j = 0; j < count; ++j) {
    const int64_t ahead = j + kPrefetchRows;
    if (ahead < count && at[ahead] != nullptr) PrefetchRow(at[ahead], bytes);
    float* const row = to + j * stride;
    if (at[j] == nullptr) {
      std::fill(row, row + source.channels, 0.0f);
      continue;
    }
    LoadRow(source.format, at[j], source.channels, row);
    if (source.codec.scale != nullptr) {
      Dequantise(source.codec.scale, source.codec.offset, source.channels, row);
    }
  }
}

// Whether all numbers are: neither infinite nor NaN.
inline bool AllFinite(const float* HWY_RESTRICT from, int64_t rows,
                      int64_t channels, int64_t stride) {
  // x * 0 is 0 for finite x alone, and NaN stays in a sum.
  Vector sum0 = hn::Zero(kF), sum1 = sum0;
  const Vector zero = hn::Zero(kF);
  float rest = 0;
  for (int64_t j = 0; j < rows; ++j) {
    const float* const row = from + j * stride;
    int64_t d = 0;
    for (; d + Width() <= channels; d += Width()) {
      sum0 = hn::MulAdd(hn::LoadU(kF, row + d), zero, sum0);
      sum1 = hn::MulAdd(hn::LoadU(kF, row + d + Lanes()), zero, sum1);
    }
    for (; d < channels; ++d) rest += row[d] * 0.0f;
  }
  const Vector sum = hn::Add(sum0, sum1);
  return hn::AllTrue(kF, hn::Eq(sum, zero)) && rest == 0.0f;
}

// The keys and values of one step as rows of floats.
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
  LoadRows(rows.key, at.key, count, scratch.keys, scratch.key_stride);
  if (rows.rope.base != nullptr) {
    LoadRows(rows.rope, at.rope, count, scratch.keys + rows.key.channels,
             scratch.key_stride);
  }
  if (scratch.values != scratch.keys) {
    LoadRows(rows.value, at.value, count, scratch.values, scratch.value_stride);
  }
  loaded.finite =
      AllFinite(scratch.values, count, tile.shape->v_dim, scratch.value_stride);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_KEYS_INL_H_
