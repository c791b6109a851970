// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists, keys and caches.
#include "cpu/topk/topk_backward_workspace.h"

#include <algorithm>
#include <utility>

#include "cpu/sizes.h"
#include "cpu/topk/index_lists.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

// Rows that a block of keys may read behind the last.
constexpr int64_t kRowsBehind = 16;

bool WantsKeys(const AttentionProblem& problem) {
  return problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
}

bool WantsValues(const AttentionProblem& problem) {
  return problem.has(Slot::kGradValue) && !problem.kv.value_is_key;
}

// Floats of the queries, or gradients of outputs, of one position by blocks.
int64_t BlockFloats(const AttentionProblem& problem, int64_t channels) {
  return RoundUp(channels, kMaxPanelRows) * problem.group();
}

int64_t SavedFloats(const AttentionProblem& problem,
                    const TopKBackwardTiling& cut) {
  return 2 * cut.listed_keys * cut.head_stride +
         BlockFloats(problem, problem.score_dim()) +
         BlockFloats(problem, problem.v_dim);
}

void CutPositions(const AttentionProblem& problem, TopKBackwardTiling& cut) {
  int64_t positions = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    positions += sequence.rows() * problem.kv_heads;
  }
  const int64_t fitting =
      kSavedPdsBytes / (4 * std::max<int64_t>(SavedFloats(problem, cut), 1));
  cut.positions = std::clamp<int64_t>(
      fitting, kMinChunk, std::clamp<int64_t>(positions, 1, kMaxChunk));
}

void CutRows(const AttentionProblem& problem, TopKBackwardTiling& cut) {
  int64_t longest = 1, all = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    longest = std::max(longest, sequence.columns());
    all += sequence.columns() * problem.kv_heads;
  }
  const int64_t channels = problem.score_dim();
  const int64_t value_channels = WantsValues(problem) ? problem.v_dim : 0;
  // Rows of a kv block of which a position lists kKeysPerKvBlock.
  const int64_t sparsity =
      CeilDiv(longest, std::max<int64_t>(cut.listed_keys, 1));
  cut.kv_block_rows =
      std::min(kKeysPerKvBlock * sparsity, RoundUp(longest, 16));
  cut.kv_blocks = CeilDiv(longest, cut.kv_block_rows);
  const int64_t most =
      RoundUp(std::max(channels, value_channels), kMaxPanelRows);
  cut.d_block_channels = std::clamp(
      kDBlockBytes / (4 * cut.kv_block_rows) / kMaxPanelRows * kMaxPanelRows,
      kMaxPanelRows, std::max(most, kMaxPanelRows));
  if (WantsKeys(problem)) {
    cut.key_d_blocks = CeilDiv(channels, cut.d_block_channels);
  }
  cut.value_d_blocks = CeilDiv(value_channels, cut.d_block_channels);
  const int64_t row_bytes =
      4 * std::max<int64_t>(cut.d_blocks() * cut.d_block_channels, 1);
  cut.rows =
      std::clamp(all, longest, std::max(longest, kKvGradBytes / row_bytes));
}

}  // namespace

TopKBackwardTiling TopKBackwardTilingOf(const AttentionProblem& problem,
                                        const DeviceInfo& device) {
  TopKBackwardTiling cut;
  int64_t row_floats = RowStride(problem.score_dim());
  if (!problem.kv.value_is_key) row_floats += RowStride(problem.v_dim);
  const double fitting = kTopKCacheShare *
                         static_cast<double>(device.l2_bytes) /
                         static_cast<double>(4 * row_floats);
  cut.step =
      std::clamp(static_cast<int64_t>(fitting) / kColumnUnit * kColumnUnit,
                 kColumnUnit, kMaxColumns);
  const int64_t listed_keys = std::max<int64_t>(MaxListedKeys(problem), 1);
  cut.num_splits = CeilDiv(listed_keys, kMaxStageKeys);
  cut.listed_keys = CeilDiv(listed_keys, cut.num_splits);
  cut.heads = RoundUp(problem.group(), kMaxPanelRows);
  cut.head_stride = RoundUp(problem.group(), kMaxLanes);
  CutPositions(problem, cut);
  CutRows(problem, cut);
  return cut;
}

TopKBackwardWorkspace ReserveTopKBackward(const AttentionProblem& problem,
                                          const TopKBackwardTiling& tiling,
                                          int64_t workers,
                                          WorkspaceLayout& layout) {
  const int64_t channels = problem.score_dim();
  const int64_t columns = tiling.step + kColumnUnit;
  const int64_t heads = tiling.heads;
  TopKBackwardScratch sizes{};
  sizes.key_stride = RowStride(std::max(channels, problem.v_dim));
  sizes.value_stride = problem.kv.value_is_key ? 0 : RowStride(problem.v_dim);
  sizes.staging_stride =
      RowStride(std::max(channels, problem.v_dim) + kMaxPanelRows);
  TopKBackwardWorkspace workspace;
  using S = TopKBackwardScratch;
  ScratchLayout<S> scratch(sizes, workers);
  scratch.Add("queries", {&S::query}, heads * channels + kPanelOverrun, layout);
  scratch.Add("gradients of outputs", {&S::grad_out},
              heads * problem.v_dim + kPanelOverrun, layout);
  scratch.Add("row statistics", {&S::rows}, 3 * heads, layout);
  scratch.Add("keys", {&S::keys}, columns * sizes.key_stride, layout);
  scratch.Add("values", {&S::values}, columns * sizes.value_stride, layout);
  scratch.Add("scores", {&S::scores}, columns * kMaxPanelRows, layout);
  scratch.Add("gradients of scores", {&S::grads}, columns * kMaxPanelRows,
              layout);
  scratch.Add("rows between layouts", {&S::staging}, 8 * sizes.staging_stride,
              layout);
  scratch.Add("columns as listed", {&S::columns}, tiling.listed_keys, layout);
  scratch.Add("rows", {&S::query_rows}, problem.group(), layout);

  const int64_t probs = (tiling.listed_keys + kRowsBehind) * tiling.head_stride;
  using P = SavedPds;
  ScratchLayout<P> saved({}, 2 * tiling.positions);
  saved.Add("saved: probs", {&P::probs}, probs, layout);
  saved.Add("saved: gradients of scores", {&P::grad_scores}, probs, layout);
  saved.Add("saved: queries", {&P::query}, BlockFloats(problem, channels),
            layout);
  saved.Add("saved: gradients of outputs", {&P::grad_out},
            BlockFloats(problem, problem.v_dim), layout);
  saved.Add("saved: columns", {&P::columns}, tiling.listed_keys, layout);
  saved.Add("saved: kv blocks", {&P::kv_block_ends}, tiling.kv_blocks, layout);
  workspace.scratch = std::move(scratch);
  workspace.saved = std::move(saved);
  workspace.positions = tiling.positions;
  workspace.d_blocks = tiling.d_blocks();
  const int64_t grad_query = heads * BlocksRoom(channels) + kPanelOverrun;
  workspace.grad_queries = layout.Reserve<float>(
      "gradients of queries",
      tiling.positions * RoundUp(grad_query, kLineFloats));
  workspace.sums = layout.Reserve<float>(
      "gradients of keys",
      tiling.d_blocks() * OddLines(tiling.rows * tiling.d_block_channels));
  return workspace;
}

float* TopKBackwardWorkspace::GradQuery(std::byte* memory,
                                        int64_t position) const {
  return grad_queries.In(memory).data() +
         position * (grad_queries.count / positions);
}

float* TopKBackwardWorkspace::Sums(std::byte* memory, int64_t d_block) const {
  return sums.In(memory).data() + d_block * (sums.count / d_blocks);
}

}  // namespace flashacl::cpu
