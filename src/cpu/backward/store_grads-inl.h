// SPDX-License-Identifier: Apache-2.0
// Finished gradients, scaled, where the caller wants them.
//
// A block of sums that is complete is stored at once, out of the first cache;
// past the caches (tile/store_rows-inl.h), its lines go to memory while the
// next block is computed. Sums that several steps or blocks of rows add to are
// in scratch memory meanwhile, and are stored with the last of them, or a tile
// at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_kernel.h"

#if defined(FLASHACL_CPU_BACKWARD_STORE_GRADS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_BACKWARD_STORE_GRADS_INL_H_
#undef FLASHACL_CPU_BACKWARD_STORE_GRADS_INL_H_
#else
#define FLASHACL_CPU_BACKWARD_STORE_GRADS_INL_H_
#endif

#include "cpu/backward/matrix_grads-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/store_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Where the gradients of rows of sums go, times `scale`: to one tensor, or
// those of `first_channels` to one and the rest to another.
struct GradTensors {
  const TensorRows* first;
  int64_t first_channels;
  const TensorRows* rest;  // may be null
  int64_t channels;
  float scale;
};

// Stores channels `of` the sums of some rows, the first of which is at `sums`,
// to the rows at(tensor, n).
template <typename At>
HWY_INLINE void StoreSums(const GradTensors& to, const ChannelRows& sums,
                          int64_t count, Range of, bool streams, At at) {
  const auto part = [&](const TensorRows* tensor, Range own) HWY_ATTR {
    const Range both{std::max(own.first, of.first),
                     std::min(own.last, of.last)};
    if (tensor == nullptr || tensor->base == nullptr || both.empty()) return;
    const FloatRows rows{{sums.at + both.first - of.first, sums.stride},
                         count,
                         {both.first - own.first, both.last - own.first},
                         to.scale,
                         streams};
    StoreScaledRows(tensor->format, rows,
                    [&](int64_t n) HWY_ATTR { return at(*tensor, n); });
  };
  part(to.first, {0, to.first_channels});
  part(to.rest, {to.first_channels, to.channels});
}

// Whether a panel of channels is a number of lines, as far as it matters: what
// goes past the caches does so line by line.
inline bool PartsAreLines(const BackwardTile& tile, const TensorRows& rows) {
  const int64_t bytes = Width() * rows.format.element_bytes;
  return !tile.streams || bytes % kLineBytes == 0;
}

template <int kRows>
HWY_INLINE void ClearSums(float* HWY_RESTRICT sums, ptrdiff_t stride) {
  Sums<kRows> none;
  none.Clear();
  none.Store(sums, stride);
}

inline GradTensors GradKeyTensors(const BackwardTile& tile) {
  const ScoreParams& params = *tile.params;
  return {&tile.grad_key, params.qk_dim, &tile.grad_key_rope,
          params.score_dim(), params.scale};
}

inline GradTensors GradValueTensors(const BackwardTile& tile) {
  const int64_t channels = tile.params->v_dim;
  return {&tile.grad_value, channels, nullptr, channels, 1.0f};
}

inline GradTensors GradQueryTensors(const BackwardTile& tile) {
  const ScoreParams& params = *tile.params;
  return {&tile.grad_rows.grad_query, params.qk_dim,
          &tile.grad_rows.grad_query_rope, params.score_dim(), params.scale};
}

// Of `count` keys from `key` on.
HWY_NOINLINE inline void StoreKeySums(const BackwardTile& tile,
                                      const GradTensors& to,
                                      const ChannelRows& sums, int64_t key,
                                      int64_t count, Range channels) {
  StoreSums(to, sums, count, channels, tile.streams,
            [&](const TensorRows& tensor, int64_t n)
                HWY_ATTR { return tensor.At(key + n, tile.kv_head); });
}

// Of `count` rows of the tile from `row` on.
HWY_NOINLINE inline void StoreQuerySums(const BackwardTile& tile,
                                        const ChannelRows& sums, int64_t row,
                                        int64_t count, Range channels) {
  const QueryRow* const rows = tile.scratch.query_rows + row;
  StoreSums(GradQueryTensors(tile), sums, count, channels, tile.streams,
            [&](const TensorRows& tensor, int64_t n)
                HWY_ATTR { return tensor.At(rows[n].position, rows[n].head); });
}

// Finished sums of the keys `cols`; they are used up.
inline void StoreDkv(const BackwardTile& tile, Range cols, const KvSums& sums) {
  const ScoreParams& params = *tile.params;
  const int64_t count = cols.size();
  const int64_t key_stride = tile.scratch.key_stride;
  const int64_t value_stride = tile.backward.value_stride;
  if (tile.wanted.key) {
    GradTensors to = GradKeyTensors(tile);
    if (tile.value_is_key) {
      for (int64_t j = 0; j < count; ++j) {
        float* const key = sums.keys + j * key_stride;
        const float* const value = sums.values + j * value_stride;
        for (int64_t d = 0; d < params.score_dim(); ++d) key[d] *= params.scale;
        for (int64_t d = 0; d < params.v_dim; ++d) key[d] += value[d];
      }
      to.scale = 1.0f;
    }
    StoreKeySums(tile, to, {sums.keys, key_stride}, cols.first, count,
                 {0, params.score_dim()});
  }
  if (tile.wanted.value) {
    StoreKeySums(tile, GradValueTensors(tile), {sums.values, value_stride},
                 cols.first, count, {0, params.v_dim});
  }
}

// Whether dq are stored block by block, each complete with its block.
inline bool StoresDqAtOnce(const BackwardTile& tile) {
  return tile.one_step && tile.dots != PairDots::kMatrices &&
         PartsAreLines(tile, tile.grad_rows.grad_query);
}

// The gradients of all queries of a tile, which has seen all its keys.
inline void StoreDq(const BackwardTile& tile) {
  if (!tile.wanted.query || StoresDqAtOnce(tile)) return;
  const Range channels{0, tile.params->score_dim()};
  if (tile.dots != PairDots::kMatrices) {
    return StoreQuerySums(tile,
                          {tile.backward.grad_query, tile.scratch.key_stride},
                          0, tile.rows, channels);
  }
  for (int64_t first = 0; first < tile.rows; first += Width()) {
    const int64_t count = std::min<int64_t>(Width(), tile.rows - first);
    StoreQuerySums(tile, DqRowsOfPanel(tile, first), first, count, channels);
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_BACKWARD_STORE_GRADS_INL_H_
