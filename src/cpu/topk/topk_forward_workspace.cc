// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists and caches.
#include "cpu/topk/topk_forward_workspace.h"

#include <algorithm>

#include "cpu/share_tuning.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/tile_costs.h"
#include "cpu/topk/index_lists.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

// Items with whole lists, at most.
int64_t MaxItems(const AttentionProblem& problem, int64_t rows) {
  return problem.lengths.all_rows() * problem.kv_heads *
         CeilDiv(problem.group(), rows);
}

// Fewer heads of each item where workers share these more evenly, at the price
// of gathering their keys again. No bit of a row depends on the others.
int64_t SharedHeads(const AttentionProblem& problem, const TileShape& shape,
                    int64_t workers) {
  const TileCosts costs(problem);
  const int64_t listed_keys = MaxListedKeys(problem);
  const auto keys =
      static_cast<double>(std::min(listed_keys, shape.split_keys));
  const int64_t splits = CeilDiv(listed_keys, shape.split_keys);
  const auto elapsed = [&](int64_t heads) {
    const int64_t items = MaxItems(problem, heads) * splits;
    const auto rows = static_cast<double>(heads);
    return static_cast<double>(CeilDiv(items, workers)) *
           costs.Of(rows * keys, keys, rows);
  };
  int64_t best = shape.rows;
  for (int64_t heads = shape.rows; heads >= kMaxPanelRows; heads /= 2) {
    if (elapsed(heads) < elapsed(best)) best = heads;
    if (heads % (2 * kMaxPanelRows) != 0) break;
  }
  return best;
}

// The keys of one step on matrix registers.
int64_t MatrixStepKeys(const AttentionProblem& problem,
                       const DeviceInfo& device) {
  const int64_t pair_bytes = 2 * MatrixTerms(problem);
  return CountThatFits(kTopKCacheShare * static_cast<double>(device.l2_bytes),
                       pair_bytes * (problem.score_dim() + problem.v_dim),
                       kMaxMatrixColumns, kMatrixColumnUnit);
}

}  // namespace

int64_t TopKStepKeys(const AttentionProblem& problem,
                     const DeviceInfo& device) {
  int64_t row_floats = RowStride(problem.score_dim());
  if (!problem.kv.value_is_key) row_floats += RowStride(problem.v_dim);
  return CountThatFits(kTopKCacheShare * static_cast<double>(device.l2_bytes),
                       4 * row_floats, kMaxColumns, kColumnUnit);
}

int64_t TopKKeyStride(const AttentionProblem& problem) {
  return RowStride(std::max(problem.score_dim(), problem.v_dim));
}

int64_t TopKStagingStride(const AttentionProblem& problem) {
  return RowStride(std::max(problem.score_dim(), problem.v_dim) +
                   kMaxPanelRows);
}

ScratchLayout<ScoreScratch> ReserveTopKScores(const AttentionProblem& problem,
                                              int64_t rows, int64_t step_keys,
                                              int64_t workers,
                                              WorkspaceLayout& layout) {
  ScoreScratch sizes{};
  sizes.key_stride = TopKKeyStride(problem);
  sizes.staging_stride = TopKStagingStride(problem);
  return ReserveScores(problem, sizes, rows, step_keys, workers, layout);
}

TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device, bool matrices) {
  TileShape shape;
  shape.row_unit = 1;
  shape.rows = std::min(problem.group(), kMaxTopKRows);
  shape.cols = matrices ? MatrixStepKeys(problem, device)
                        : TopKStepKeys(problem, device);
  const int64_t listed_keys = MaxListedKeys(problem);
  const int64_t items = std::max<int64_t>(MaxItems(problem, shape.rows), 1);
  int64_t num_splits = std::clamp<int64_t>(listed_keys / kMinTopKSplitKeys, 1,
                                           CeilDiv(kMinTopKItems, items));
  if (items * shape.rows <= kManyTopKRows) {
    num_splits = std::max(num_splits,
                          std::min(listed_keys / kTopKSplitKeys, kTopKSplits));
  }
  shape.split_keys = std::max<int64_t>(CeilDiv(listed_keys, num_splits), 1);
  shape.rows = SharedHeads(problem, shape, device.workers);
  shape.split_rows = shape.rows;
  return shape;
}

TileShape TopKDecodeShape(const AttentionProblem& problem,
                          const DeviceInfo& device) {
  TileShape shape = TopKTileShape(problem, device);
  // All heads, whoever shares the work: what a tile of few rows multiplies by
  // depends on all of them.
  shape.rows = shape.split_rows = problem.group();
  shape.cols = kDecodeKeys;
  shape.split_keys = RoundUp(shape.split_keys, kDecodeKeys);
  return shape;
}

int64_t SplitsOfLists(const AttentionProblem& problem, const TileShape& shape) {
  return std::max<int64_t>(CeilDiv(MaxListedKeys(problem), shape.split_keys),
                           1);
}

Region<float> ReserveListSplits(const AttentionProblem& problem,
                                const TileShape& shape,
                                WorkspaceLayout& layout) {
  const int64_t num_splits = SplitsOfLists(problem, shape);
  if (num_splits == 1) return {};
  return ReserveSplits(
      problem, MaxItems(problem, shape.rows) * num_splits * shape.rows, layout);
}

TopKForwardWorkspace ReserveTopKForward(const AttentionProblem& problem,
                                        const TileShape& shape, int64_t workers,
                                        WorkspaceLayout& layout,
                                        bool matrices) {
  TopKForwardWorkspace workspace;
  workspace.score =
      ReserveTopKScores(problem, shape.rows, shape.cols, workers, layout);
  workspace.forward =
      ReserveOutputs(problem, shape.rows, shape.cols, workers, layout);
  using L = TopKForwardScratch;
  L sizes{};
  if (!problem.kv.value_is_key || problem[Slot::kKey].dtype == DType::kBf16) {
    sizes.value_stride = RowStride(problem.v_dim);
  }
  ScratchLayout<L>& listed = workspace.listed = {sizes, workers};
  const int64_t rows_room = (shape.cols + kColumnUnit) * sizes.value_stride;
  listed.Add("values", {&L::values},
             matrices ? MatrixValuesRoom(problem, shape.cols) : rows_room,
             layout);
  listed.Add("columns", {&L::columns}, shape.split_keys, layout);
  return workspace;
}

}  // namespace flashacl::cpu
