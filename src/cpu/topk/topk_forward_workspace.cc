// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists and caches.
#include "cpu/topk/topk_forward_workspace.h"

#include <algorithm>
#include <utility>

#include "cpu/sizes.h"
#include "cpu/topk/index_lists.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

// Items with whole lists, at most.
int64_t MaxItems(const AttentionProblem& problem, int64_t rows) {
  int64_t positions = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    positions += sequence.rows();
  }
  return positions * problem.kv_heads * CeilDiv(problem.group(), rows);
}

}  // namespace

TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device) {
  TileShape shape;
  shape.row_unit = 1;
  shape.rows = std::min(problem.group(), kMaxTopKRows);
  int64_t row_floats = RowStride(problem.score_dim());
  if (!problem.kv.value_is_key) row_floats += RowStride(problem.v_dim);
  const double fitting = kTopKCacheShare *
                         static_cast<double>(device.l2_bytes) /
                         static_cast<double>(4 * row_floats);
  shape.cols =
      std::clamp(static_cast<int64_t>(fitting) / kColumnUnit * kColumnUnit,
                 kColumnUnit, kMaxColumns);
  const int64_t listed_keys = MaxListedKeys(problem);
  const int64_t items = std::max<int64_t>(MaxItems(problem, shape.rows), 1);
  const int64_t num_splits = std::clamp<int64_t>(
      listed_keys / kMinTopKSplitKeys, 1, CeilDiv(kMinTopKItems, items));
  shape.split_keys = std::max<int64_t>(CeilDiv(listed_keys, num_splits), 1);
  shape.split_rows = shape.rows;
  return shape;
}

TopKForwardWorkspace ReserveTopKForward(const AttentionProblem& problem,
                                        const TileShape& shape, int64_t workers,
                                        WorkspaceLayout& layout) {
  const int64_t channels = problem.score_dim();
  const int64_t rows = RoundUp(shape.rows, kMaxPanelRows);
  const int64_t columns = shape.cols + kColumnUnit;
  const int64_t outs = BlocksRoom(problem.v_dim);
  ScoreScratch sizes{};
  sizes.key_stride = RowStride(std::max(channels, problem.v_dim));
  sizes.staging_stride =
      RowStride(std::max(channels, problem.v_dim) + kMaxPanelRows);
  TopKForwardScratch list_sizes{};
  list_sizes.value_stride =
      problem.kv.value_is_key ? 0 : RowStride(problem.v_dim);
  using S = ScoreScratch;
  using F = ForwardScratch;
  using L = TopKForwardScratch;
  ScratchLayout<S> score(sizes, workers);
  ScratchLayout<F> forward({}, workers);
  ScratchLayout<L> lists(list_sizes, workers);
  score.Add("queries", {&S::query}, rows * channels + kPanelOverrun, layout);
  forward.Add("outputs", {&F::out}, rows * outs + kPanelOverrun, layout);
  forward.Add("row max and row sum", {&F::max, &F::sum}, rows, layout);
  score.Add("keys", {&S::keys}, columns * sizes.key_stride, layout);
  lists.Add("values", {&L::values}, columns * list_sizes.value_stride, layout);
  forward.Add("scores", {&F::scores}, columns * kMaxPanelRows, layout);
  score.Add("rows between layouts", {&S::staging}, 4 * sizes.staging_stride,
            layout);
  forward.Add("channel factors", {&F::quant}, 2 * (channels + problem.v_dim),
              layout);
  score.Add("rows", {&S::query_rows}, rows, layout);
  lists.Add("columns", {&L::columns}, shape.split_keys, layout);
  const int64_t num_splits = CeilDiv(MaxListedKeys(problem), shape.split_keys);
  const int64_t split_rows =
      num_splits > 1 ? MaxItems(problem, shape.rows) * num_splits * shape.rows
                     : 0;
  const Region<float> splits =
      layout.Reserve<float>("splits", split_rows * (problem.v_dim + 2));
  return {std::move(score), std::move(forward), std::move(lists), splits};
}

TopKTile TopKForwardWorkspace::Tile(std::byte* memory, int64_t worker) const {
  TopKTile topk;
  topk.tile.scratch = score.At(memory, worker);
  topk.tile.forward = forward.At(memory, worker);
  topk.scratch = lists.At(memory, worker);
  if (topk.scratch.value_stride == 0) topk.UseKeysAsValues();
  return topk;
}

}  // namespace flashacl::cpu
