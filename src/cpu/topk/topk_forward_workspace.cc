// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists and caches.
#include "cpu/topk/topk_forward_workspace.h"

#include <algorithm>

#include "cpu/topk/index_lists.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kWidestPanel = 32;  // rows, on any instruction set
constexpr int64_t kLine = 16;         // floats of a cache line

int64_t QueryChannels(const AttentionProblem& problem) {
  return problem.qk_dim + problem.rope_dim;
}

// Items with whole lists, at most.
int64_t MaxItems(const AttentionProblem& problem, int64_t rows) {
  int64_t positions = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    positions += sequence.rows();
  }
  return positions * problem.kv_heads * CeilDiv(problem.group(), rows);
}

}  // namespace

int64_t RowStride(int64_t channels) {
  const int64_t lines = CeilDiv(channels + 8, kLine);
  return (lines | 1) * kLine;
}

TileShape TopKTileShape(const AttentionProblem& problem,
                        const DeviceInfo& device) {
  TileShape shape;
  shape.row_unit = 1;
  shape.rows = std::min(problem.group(), kMaxTopKRows);
  int64_t row_floats = RowStride(QueryChannels(problem));
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

TopKForwardWorkspace TopKForwardLayout(const Plan& plan,
                                       WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  const TileShape& shape = plan.shape;
  const int64_t channels = QueryChannels(problem);
  const int64_t rows = RoundUp(shape.rows, kWidestPanel);
  const int64_t columns = shape.cols + kColumnUnit;
  const int64_t outs = RoundUp(problem.v_dim, 4) + 8;
  TopKForwardWorkspace place;
  place.slots = plan.slots;
  place.key_stride = RowStride(std::max(channels, problem.v_dim));
  place.value_stride = problem.kv.value_is_key ? 0 : RowStride(problem.v_dim);
  place.staging_stride =
      RowStride(std::max(channels, problem.v_dim) + kWidestPanel);
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t behind = 4 * kWidestPanel;
  const auto floats = [&](std::string_view name, int64_t count) {
    return layout.Reserve<float>(name, place.slots * RoundUp(count, kLine));
  };
  place.query = floats("queries", rows * channels + behind);
  place.out = floats("outputs", rows * outs + behind);
  place.states = floats("row max and row sum", 2 * rows);
  place.keys = floats("keys", columns * place.key_stride);
  place.values = floats("values", columns * place.value_stride);
  place.scores = floats("scores", columns * kWidestPanel);
  place.staging = floats("rows between layouts", 4 * place.staging_stride);
  place.quant = floats("channel factors", 2 * (channels + problem.v_dim));
  place.lanes = layout.Reserve<QueryRow>("rows", place.slots * rows);
  place.columns =
      layout.Reserve<int64_t>("columns", place.slots * shape.split_keys);
  const int64_t num_splits = CeilDiv(MaxListedKeys(problem), shape.split_keys);
  const int64_t split_rows =
      num_splits > 1 ? MaxItems(problem, shape.rows) * num_splits * shape.rows
                     : 0;
  place.splits =
      layout.Reserve<float>("splits", split_rows * (problem.v_dim + 2));
  return place;
}

TopKTile TopKForwardWorkspace::Tile(std::byte* workspace, int64_t slot) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / slots;
    return region.In(workspace).data() + slot * size;
  };
  TopKTile topk;
  ForwardScratch& scratch = topk.tile.scratch;
  scratch.query = own(query);
  scratch.out = own(out);
  scratch.max = own(states);
  scratch.sum = scratch.max + states.count / slots / 2;
  scratch.keys = own(keys);
  scratch.scores = own(scores);
  scratch.staging = own(staging);
  scratch.quant = own(quant);
  scratch.lanes = own(lanes);
  scratch.key_stride = key_stride;
  scratch.staging_stride = staging_stride;
  const bool shared = value_stride == 0;
  topk.values = shared ? scratch.keys : own(values);
  topk.value_stride = shared ? key_stride : value_stride;
  return topk;
}

int64_t* TopKForwardWorkspace::ColumnsOf(std::byte* workspace,
                                         int64_t slot) const {
  return columns.In(workspace).data() + slot * (columns.count / slots);
}

}  // namespace flashacl::cpu
