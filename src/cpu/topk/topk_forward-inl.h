// SPDX-License-Identifier: Apache-2.0
// The forward direction over listed keys, one position at a time.
//
// Heads of the position lie in the lanes of panels, keys and channels are
// scalars, as in forward/forward-inl.h; as all heads see the same keys, nothing
// is masked. Queries are packed as panels once. Steps of listed keys are outer:
// their rows are loaded once (gather-inl.h), then each panel takes them in by
// online softmax, scores block by block of keys, outputs block by block of
// channels, or both on matrix registers, as in forward/forward-inl.h. Outputs
// stay unnormalized in scratch memory until the list ends, or go to be combined
// where the list has several splits.

#include <cstdint>

#include "cpu/topk/topk_forward_kernel.h"

#if defined(FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#undef FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#else
#define FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
#endif

#include "cpu/forward/forward-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/queries-inl.h"
#include "cpu/topk/add_listed-inl.h"
#include "cpu/topk/gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// One panel and the rows of one step, of which `loaded` has values by channel,
// if they are.
inline void AttendListedKeys(const ForwardTile& tile, const KvBuffers& rows,
                             const LoadedKeys& loaded, const ListedStep& step,
                             const OutPanel& panel, PrefetchQueue& prefetch) {
  float* const scores = tile.forward.scores;
  const int64_t count = step.size();
  const PanelPair block_max = ScoreKeys<true>(
      tile, panel, {0, count}, tile.params->scale, prefetch, step.subnormal);
  if (loaded.by_channel) {
    return AttendScored(tile, loaded, {{0, count}, true, block_max}, 0, panel,
                        prefetch);
  }
  const PanelPair rescale = panel.state.OnlineSoftmax(scores, count, block_max);
  if (panel.normalizer != nullptr) ScaleProbs(scores, count, panel.normalizer);
  ListedRows values{rows.values, rows.value_stride, rows.value_pairs};
  if (rows.value_in_place) {
    const bool apart = tile.keys.value.base != nullptr;
    values.in_place = {tile.keys.values().format.dtype,
                       apart ? step.at.value : step.at.key, tile.params->v_dim};
  }
  AddStep(values, tile.params->v_dim, panel.FillsHalf(), scores, count,
          &rescale, panel.out, prefetch);
}

inline ValuesAs ValuesOf(const ForwardTile& tile) {
  if (StayInPlace(tile, tile.keys.values())) return ValuesAs::kInPlace;
  return tile.dots != PairDots::kMatrices && ValuesArePairs(tile)
             ? ValuesAs::kPairs
             : ValuesAs::kFloats;
}

inline void AttendList(const TopKTile& topk) {
  const ForwardTile& tile = topk.tile;
  for (int64_t first = 0; first < tile.rows; first += Width()) {
    LoadQueries(tile, first);
    StartRows(tile, first);
    ClearOut(tile, OutPanelOf(tile, first));
  }
  const int64_t step_keys = tile.forward_params->step_keys;
  const ListedKeys keys{tile.keys, topk.scratch.columns, topk.count, step_keys};
  const bool matrices = tile.dots == PairDots::kMatrices;
  const KvBuffers rows(tile, topk.scratch.values, topk.scratch.value_stride,
                       ValuesOf(tile), nullptr);
  const int64_t panel_blocks =
      matrices
          ? PanelBlocks(tile)
          : DotBlocks(tile.dots, step_keys, tile.params->score_dim()) +
                tile.params->v_dim / kBig * CeilDiv(step_keys, kKeysAtOnce);
  LoadedKeys loaded = NothingLoaded(tile, {topk.scratch.values, 0});
  const auto pack_values = [&](const ListedStep& step) HWY_ATTR {
    if (loaded.by_channel) PackValuesByChannel(tile, step.at, loaded);
  };
  keys.ForSteps(rows, CeilDiv(tile.rows, Width()) * panel_blocks,
                [&](const ListedStep& step, PrefetchQueue& prefetch) HWY_ATTR {
                  pack_values(step);
                  for (int64_t first = 0; first < tile.rows; first += Width()) {
                    AttendListedKeys(tile, rows, loaded, step,
                                     OutPanelOf(tile, first), prefetch);
                  }
                });
  for (int64_t first = 0; first < tile.rows; first += Width()) {
    StorePanel(tile, first, /*keep=*/true);
    RedoOverflowed(tile, first, [&](const OutPanel& panel) {
      keys.ForSteps(
          rows, panel_blocks,
          [&](const ListedStep& step, PrefetchQueue& prefetch) HWY_ATTR {
            pack_values(step);
            AttendListedKeys(tile, rows, loaded, step, panel, prefetch);
          });
    });
  }
}

inline void AttendTopK(const TopKTile& topk) {
  const bool matrices = topk.tile.dots == PairDots::kMatrices;
  if (matrices) Matrices::Configure();
  AttendList(topk);
  if (matrices) Matrices::Release();
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_TOPK_FORWARD_INL_H_
