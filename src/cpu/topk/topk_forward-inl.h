// SPDX-License-Identifier: Apache-2.0
// The forward loop over listed keys. Rows of a tile are heads of one position,
// so they see the same keys, and nothing is masked.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_forward_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#endif

#include "cpu/forward/forward-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/topk/gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

template <int kRows>
HWY_NOINLINE void ListedOutBlock(const float* HWY_RESTRICT values,
                                 int64_t stride,
                                 const float* HWY_RESTRICT probs, int64_t count,
                                 const PanelPair& rescale,
                                 float* HWY_RESTRICT out) {
  Sums<kRows> sums;
  sums.Load(out);
  sums.Scale(rescale.low, rescale.high);
  AddColumnsApart(values, stride, probs, count, sums);
  sums.Store(out);
}

// The rows of one panel take in the `count` keys that are loaded.
inline void AttendListedKeys(const TopKTile& topk, int64_t count,
                             const OutPanel& panel, PrefetchQueue& prefetch) {
  const ForwardTile& tile = topk.tile;
  float* const scores = tile.forward.scores;
  const PanelPair block_max =
      ScoreKeys(tile, panel, {0, count}, tile.params->scale, prefetch);
  const PanelPair rescale = panel.state.OnlineSoftmax(scores, count, block_max);
  ForBlocks(tile.params->v_dim, [&](int64_t d, auto size) HWY_ATTR {
    prefetch.Issue();
    ListedOutBlock<size()>(topk.scratch.values + d, topk.scratch.value_stride,
                           scores, count, rescale, panel.out + d * Width());
  });
}

// As AttendTile. A listed row is read from memory once, for all heads; those of
// the next step are asked for while this one is computed.
inline void AttendTopK(const TopKTile& topk) {
  const ForwardTile& tile = topk.tile;
  const ScoreScratch& scratch = tile.scratch;
  const int64_t step = tile.forward_params->step_keys;
  const ListedKeys keys{&tile.keys, topk.scratch.columns, tile.cols.size(),
                        step};
  const KvBuffers buffers{scratch.keys, scratch.key_stride, topk.scratch.values,
                          topk.scratch.value_stride};
  const int64_t panels = (tile.rows + Width() - 1) / Width();
  const int64_t blocks =
      panels * BlocksOf(step, tile.params->score_dim(), tile.params->v_dim);
  KeyAddresses at[2];
  PrefetchQueue prefetch;
  keys.Locate(0, at[0]);
  for (int64_t p = 0; p < panels; ++p) {
    LoadQueries(tile, p * Width());
    StartRows(tile, p * Width());
    ClearOut(tile, OutPanelOf(tile, p * Width()));
  }
  for (int n = 0; !at[n].step.empty(); n ^= 1) {
    keys.Load(at[n], buffers);
    keys.Locate(at[n].step.last, at[n ^ 1]);
    keys.Expect(at[n ^ 1], blocks, prefetch);
    for (int64_t p = 0; p < panels; ++p) {
      AttendListedKeys(topk, at[n].step.size(), OutPanelOf(tile, p * Width()),
                       prefetch);
    }
  }
  for (int64_t p = 0; p < panels; ++p) StorePanel(tile, p * Width());
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
