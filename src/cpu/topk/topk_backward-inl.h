// SPDX-License-Identifier: Apache-2.0
// Gradients over listed keys, in two phases. The first has heads in lanes, as
// the forward direction does, and finds for one position
//   p = exp(scale s - max) / sum,  ds = p (dp - delta),  dq = scale sum ds k
// The second has channels in lanes and adds scale ds q and p do, summed over
// the heads, to the rows of the listed keys.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_backward_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/topk/gather-inl.h"
#include "cpu/topk/topk_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// A head's row as a column of every block of channels.
inline void RowToBlocks(const float* HWY_RESTRICT row, int64_t channels,
                        int64_t heads, float* HWY_RESTRICT block) {
  for (int64_t d = 0; d < channels; d += Width()) {
    PanelPair{hn::LoadU(kF, row + d), hn::LoadU(kF, row + d + Lanes())}.Store(
        block);
    block += heads * Width();
  }
}

// Operands of four heads from `first` on, of which lanes without a head repeat
// the last.
inline void LoadFourHeads(const TopKBackwardDqItem& item, int64_t first) {
  const TopKBackwardParams& shape = *item.shape;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t channels = shape.channels();
  const int64_t stride = scratch.staging_stride;
  const FourRows queries{scratch.staging, stride};
  const FourRows grads{scratch.staging + 4 * stride, stride};
  std::fill_n(scratch.staging, 8 * stride, 0.0f);
  const auto lane_of = [&](int64_t r) -> const TopKQueryRow& {
    return scratch.query_rows[std::min(first + r, shape.heads - 1)];
  };
  // Outputs are needed for delta alone; the queries' place is still free.
  for (int64_t r = 0; r < 4; ++r) {
    LoadRow(shape.out, lane_of(r).out, shape.v_dim, queries.first + r * stride);
    LoadRow(shape.grad_out, lane_of(r).grad_out, shape.v_dim,
            grads.first + r * stride);
  }
  DotsOfFour(queries, grads, shape.v_dim,
             scratch.rows + 2 * shape.lanes + first);
  for (int64_t r = 0; r < 4; ++r) {
    const TopKQueryRow& lane = lane_of(r);
    float* const query = queries.first + r * stride;
    std::fill_n(query, shape.v_dim, 0.0f);
    LoadRow(shape.query, lane.query, shape.qk_dim, query);
    if (shape.rope_dim > 0) {
      LoadRow(shape.query_rope, lane.query_rope, shape.rope_dim,
              query + shape.qk_dim);
    }
    scratch.rows[first + r] = lane.max;
    scratch.rows[shape.lanes + first + r] =
        lane.sum == 0 ? 0.0f : 1.0f / lane.sum;
    const int64_t head = first + r;
    if (head >= shape.heads || !shape.wants_keys) continue;
    RowToBlocks(query, channels, shape.heads,
                item.saved.query + head * Width());
    RowToBlocks(grads.first + r * stride, shape.v_dim, shape.heads,
                item.saved.grad_out + head * Width());
  }
  const int64_t panel = first / Width() * Width();
  const int64_t lane = first - panel;
  RowsToPanel(queries, channels, scratch.query + panel * channels + lane);
  RowsToPanel(grads, shape.v_dim,
              scratch.grad_out + panel * shape.v_dim + lane);
}

// All products of one panel with the keys of one step, which are listed keys
// `listed keys` of the list.
inline void DifferentiatePanel(const TopKBackwardDqItem& item,
                               Range listed_keys, int64_t panel,
                               PrefetchQueue& prefetch) {
  const TopKBackwardParams& shape = *item.shape;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t channels = shape.channels();
  const int64_t first = panel * Width();
  const int64_t count = listed_keys.size();
  RowProducts({scratch.keys, scratch.key_stride, count},
              scratch.query + first * channels, channels, scratch.scores,
              prefetch);
  RowProducts({scratch.values, scratch.value_stride, count},
              scratch.grad_out + first * shape.v_dim, shape.v_dim,
              scratch.grads, prefetch);
  const float* const rows = scratch.rows + first;
  const int64_t at = listed_keys.first * shape.head_stride + first;
  const GradRows to{shape.wants_keys ? item.saved.probs + at : nullptr,
                    shape.wants_keys ? item.saved.grad_scores + at : nullptr,
                    shape.head_stride, shape.head_stride - first};
  GradScores({rows, rows + shape.lanes, rows + 2 * shape.lanes}, shape.scale,
             count, to, scratch.scores, scratch.grads);
  if (!shape.wants_query) return;
  float* const grad_query = item.grad_query + first * BlockEnd(channels);
  ForBlocks(channels, [&](int64_t d, auto size) HWY_ATTR {
    prefetch.Issue();
    AddToQuery<size()>(scratch.keys + d, scratch.key_stride, scratch.grads,
                       count, grad_query + d * Width());
  });
}

// The gradients of a position's queries, from panels to their place.
inline void StoreGradQueries(const TopKBackwardDqItem& item) {
  const TopKBackwardParams& shape = *item.shape;
  const TopKBackwardScratch& scratch = item.scratch;
  const int64_t channels = shape.channels();
  const FourRows staging{scratch.staging, scratch.staging_stride};
  for (int64_t first = 0; first < shape.heads; first += 4) {
    const int64_t panel = first / Width() * Width();
    PanelToRows(
        item.grad_query + panel * BlockEnd(channels) + (first - panel),
        channels, [](Quads&) {},
        [&](int64_t k, const Quads& quads)
            HWY_ATTR { staging.Store(quads, k); });
    const int64_t last = std::min(first + 4, shape.heads);
    for (int64_t head = first; head < last; ++head) {
      const float* const row =
          scratch.staging + (head - first) * scratch.staging_stride;
      const TopKQueryRow& lane = scratch.query_rows[head];
      if (lane.grad_query != nullptr) {
        StoreVectors(shape.grad_query, row, shape.qk_dim, lane.grad_query);
      }
      if (lane.grad_query_rope != nullptr) {
        StoreVectors(shape.grad_query_rope, row + shape.qk_dim, shape.rope_dim,
                     lane.grad_query_rope);
      }
    }
  }
}

// The first phase: the saved pds of a position, and the gradient of its
// queries.
inline void DifferentiatePosition(const TopKBackwardDqItem& item) {
  const TopKBackwardParams& shape = *item.shape;
  const TopKBackwardScratch& scratch = item.scratch;
  const ListedKeys keys{&item.keys, item.saved.columns, item.count, shape.step};
  const KvBuffers buffers{scratch.keys, scratch.key_stride, scratch.values,
                          scratch.value_stride};
  const int64_t panels = (shape.heads + Width() - 1) / Width();
  // Of a panel and a whole step.
  const int64_t blocks = BlocksOf(shape.step, shape.channels(), 0) +
                         BlocksOf(shape.step, shape.v_dim, shape.channels());
  KeyAddresses at[2];
  PrefetchQueue prefetch;
  keys.Locate(0, at[0]);
  for (int64_t head = 0; head < panels * Width(); head += 4) {
    LoadFourHeads(item, head);
  }
  if (item.starts && shape.wants_query) {
    std::fill_n(item.grad_query, panels * Width() * BlockEnd(shape.channels()),
                0.0f);
  }
  for (int n = 0; !at[n].step.empty(); n ^= 1) {
    keys.Load(at[n], buffers);
    keys.Locate(at[n].step.last, at[n ^ 1]);
    keys.Expect(at[n ^ 1], panels * blocks, prefetch);
    for (int64_t p = 0; p < panels; ++p) {
      DifferentiatePanel(item, at[n].step, p, prefetch);
    }
  }
  if (item.ends && shape.wants_query) StoreGradQueries(item);
}

// The second phase: sums of a d block += what a position's columns add. A key
// that is listed twice gets both, one after the other.
//
// Some keys take all channels of the d block before the next keys do, if the
// rows of all heads stay in a first cache meanwhile: weights are then read
// once, and addresses found once. Otherwise one block of channels goes over all
// keys.
inline void AddKeyGradients(const DkvArgs& item) {
  const int64_t operands =
      item.query != nullptr && item.value_channels > 0 ? 2 : 1;
  const int64_t blocks = CeilDiv(item.channels, int64_t{Width()});
  const int64_t bytes = 4 * operands * item.heads * Width();
  const int64_t at_once =
      std::clamp<int64_t>(kDBlockOperandBytes / bytes, 1, blocks);
  for (int64_t n = 0; n < blocks; n += at_once) {
    const Range some{n, std::min(n + at_once, blocks)};
    ForBlocks(item.count, [&](int64_t j, auto size)
                              HWY_ATTR { AddToKeys<size()>(item, j, some); });
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_BACKWARD_INL_H_
