// SPDX-License-Identifier: Apache-2.0
// Where the rows of a step of keys are, and their prefetches.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/kv_rows.h"
#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_KEY_ADDRESSES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_KEY_ADDRESSES_INL_H_
#undef FLASHACL_CPU_TILE_KEY_ADDRESSES_INL_H_
#else
#define FLASHACL_CPU_TILE_KEY_ADDRESSES_INL_H_
#endif

#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Addresses of the rows of one step.
struct KeyAddresses {
  Range step;
  bool absent = false;  // some key does not exist
  const std::byte* key[kMaxStepKeys];
  const std::byte* rope[kMaxStepKeys];
  const std::byte* value[kMaxStepKeys];

  void Locate(const KvRows& rows, Range cols) {
    step = cols;
    absent = rows.Locate(cols, key, rope, value);
  }
};

// Rows of which every block of channels lies side by side go as one.
inline void PrefetchBlocks(const RowSource& source,
                           const std::byte* const* address, Range rows,
                           PrefetchQueue& prefetch) {
  const ElementFormat& format = source.format;
  for (int64_t first = rows.first; first < rows.last;) {
    int64_t last = first + 1;
    while (last < rows.last &&
           address[last] == address[last - 1] + source.row_bytes) {
      ++last;
    }
    const std::byte* at = address[first];
    const int64_t bytes = (last - first) * source.row_bytes;
    first = last;
    if (at == nullptr) continue;
    for (int64_t d = 0; d < source.channels; d += format.channel_block) {
      prefetch.Add(at, bytes);
      at += format.block_bytes;
    }
  }
}

// Share `n` of `count` of a step's rows will be needed.
inline void PrefetchKeys(const KvRows& rows, const KeyAddresses& at, int64_t n,
                         int64_t count, PrefetchQueue& prefetch) {
  const auto add = [&](const RowSource& source,
                       const std::byte* const* address) {
    if (source.base == nullptr) return;
    const int64_t bytes = source.format.BytesOf(source.channels);
    const int64_t first = n * at.step.size() / count;
    const int64_t last = (n + 1) * at.step.size() / count;
    if (source.format.channel_block != 0) {
      PrefetchBlocks(source, address, {first, last}, prefetch);
      return;
    }
    prefetch.Add(last - first, bytes,
                 [&](int64_t j) { return address[first + j]; });
  };
  add(rows.key, at.key);
  add(rows.rope, at.rope);
  // Values that are keys are there with them.
  if (rows.value.base != rows.key.base) add(rows.value, at.value);
}

// The queries of some rows will be needed.
inline void PrefetchQueries(const ScoreParams& params, const QueryRow* rows,
                            int64_t count, PrefetchQueue& prefetch) {
  prefetch.Add(count, params.qk_dim * params.query.element_bytes,
               [&](int64_t r) { return rows[r].query; });
  prefetch.Add(count, params.rope_dim * params.query_rope.element_bytes,
               [&](int64_t r) { return rows[r].query_rope; });
}

// Those of the panel that begins with row `first`.
inline void PrefetchQueries(const ScoreTile& tile, int64_t first,
                            PrefetchQueue& prefetch) {
  PrefetchQueries(*tile.params, tile.scratch.query_rows + first,
                  std::min<int64_t>(Width(), tile.rows - first), prefetch);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_KEY_ADDRESSES_INL_H_
