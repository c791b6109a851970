// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists, keys and caches.
#include "cpu/topk/topk_backward_workspace.h"

#include <algorithm>

#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kWidestPanel = 32;  // lanes, on any instruction set
constexpr int64_t kWidestVector = 16;
constexpr int64_t kLine = 16;  // floats of a cache line
// Rows that a block of keys may read behind the last.
constexpr int64_t kRowsBehind = 16;

int64_t QueryChannels(const AttentionProblem& problem) {
  return problem.qk_dim + problem.rope_dim;
}

bool WantsKeys(const AttentionProblem& problem) {
  return problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
}

bool WantsValues(const AttentionProblem& problem) {
  return problem.has(Slot::kGradValue) && !problem.kv.value_is_key;
}

// Floats of the queries, or gradients of outputs, of one position by blocks.
int64_t BlockFloats(const AttentionProblem& problem, int64_t channels) {
  return RoundUp(channels, kWidestPanel) * problem.group();
}

int64_t SavedFloats(const AttentionProblem& problem,
                    const TopKBackwardTiling& cut) {
  return 2 * cut.listed_keys * cut.head_stride +
         BlockFloats(problem, QueryChannels(problem)) +
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
  const int64_t channels = QueryChannels(problem);
  const int64_t value_channels = WantsValues(problem) ? problem.v_dim : 0;
  // Rows of a kv block of which a position lists kKeysPerKvBlock.
  const int64_t sparsity =
      CeilDiv(longest, std::max<int64_t>(cut.listed_keys, 1));
  cut.kv_block_rows =
      std::min(kKeysPerKvBlock * sparsity, RoundUp(longest, 16));
  cut.kv_blocks = CeilDiv(longest, cut.kv_block_rows);
  const int64_t most =
      RoundUp(std::max(channels, value_channels), kWidestPanel);
  cut.d_block_channels = std::clamp(
      kDBlockBytes / (4 * cut.kv_block_rows) / kWidestPanel * kWidestPanel,
      kWidestPanel, std::max(most, kWidestPanel));
  if (WantsKeys(problem)) {
    cut.key_d_blocks = CeilDiv(channels, cut.d_block_channels);
  }
  cut.value_d_blocks = CeilDiv(value_channels, cut.d_block_channels);
  const int64_t row_bytes =
      4 * std::max<int64_t>(cut.d_blocks() * cut.d_block_channels, 1);
  cut.rows =
      std::clamp(all, longest, std::max(longest, kKvGradBytes / row_bytes));
}

// Slices lie an odd number of cache lines apart: otherwise the same row of all
// of them would fall into one set of a cache.
int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, kLine) | 1) * kLine;
}

}  // namespace

TopKBackwardTiling TopKBackwardTilingOf(const AttentionProblem& problem,
                                        const DeviceInfo& device) {
  TopKBackwardTiling cut;
  int64_t row_floats = RowStride(QueryChannels(problem));
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
  cut.heads = RoundUp(problem.group(), kWidestPanel);
  cut.head_stride = RoundUp(problem.group(), kWidestVector);
  CutPositions(problem, cut);
  CutRows(problem, cut);
  return cut;
}

TopKBackwardWorkspace TopKBackwardLayout(const AttentionProblem& problem,
                                         const TopKBackwardTiling& cut,
                                         int64_t slots,
                                         WorkspaceLayout& layout) {
  const int64_t channels = QueryChannels(problem);
  const int64_t columns = cut.step + kColumnUnit;
  TopKBackwardWorkspace place;
  place.cut = cut;
  place.slots = slots;
  place.key_stride = RowStride(std::max(channels, problem.v_dim));
  place.value_stride = problem.kv.value_is_key ? 0 : RowStride(problem.v_dim);
  place.staging_stride =
      RowStride(std::max(channels, problem.v_dim) + kWidestPanel);
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t behind = 4 * kWidestPanel;
  const auto floats = [&](std::string_view name, int64_t times, int64_t count) {
    return layout.Reserve<float>(name, times * RoundUp(count, kLine));
  };
  const int64_t heads = cut.heads;
  place.query = floats("queries", slots, heads * channels + behind);
  place.grad_out =
      floats("gradients of outputs", slots, heads * problem.v_dim + behind);
  place.statistics = floats("row statistics", slots, 3 * heads);
  place.keys = floats("keys", slots, columns * place.key_stride);
  place.values = floats("values", slots, columns * place.value_stride);
  place.scores = floats("scores", slots, columns * kWidestPanel);
  place.grads = floats("gradients of scores", slots, columns * kWidestPanel);
  place.staging =
      floats("rows between layouts", slots, 8 * place.staging_stride);
  place.unsorted =
      layout.Reserve<int64_t>("columns as listed", slots * cut.listed_keys);
  place.lanes = layout.Reserve<TopKQueryRow>("rows", slots * problem.group());

  const int64_t saved_count = 2 * cut.positions;
  const int64_t probs = (cut.listed_keys + kRowsBehind) * cut.head_stride;
  place.probs = floats("records: weights", saved_count, probs);
  place.grad_scores =
      floats("records: gradients of scores", saved_count, probs);
  place.query_blocks =
      floats("records: queries", saved_count, BlockFloats(problem, channels));
  place.grad_out_blocks = floats("records: gradients of outputs", saved_count,
                                 BlockFloats(problem, problem.v_dim));
  place.columns = layout.Reserve<int64_t>("records: columns",
                                          saved_count * cut.listed_keys);
  place.kv_block_ends =
      layout.Reserve<int64_t>("records: buckets", saved_count * cut.kv_blocks);
  place.grad_queries = floats("gradients of queries", cut.positions,
                              heads * (RoundUp(channels, 4) + 8) + behind);
  place.sums = layout.Reserve<float>(
      "gradients of keys",
      cut.d_blocks() * OddLines(cut.rows * cut.d_block_channels));
  return place;
}

TopKBackwardScratch TopKBackwardWorkspace::Scratch(std::byte* workspace,
                                                   int64_t slot) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / slots;
    return region.In(workspace).data() + slot * size;
  };
  TopKBackwardScratch scratch;
  scratch.query = own(query);
  scratch.grad_out = own(grad_out);
  scratch.rows = own(statistics);
  scratch.keys = own(keys);
  const bool shared = value_stride == 0;
  scratch.values = shared ? scratch.keys : own(values);
  scratch.scores = own(scores);
  scratch.grads = own(grads);
  scratch.staging = own(staging);
  scratch.columns = own(unsorted);
  scratch.lanes = own(lanes);
  scratch.key_stride = key_stride;
  scratch.value_stride = shared ? key_stride : value_stride;
  scratch.staging_stride = staging_stride;
  return scratch;
}

SavedPds TopKBackwardWorkspace::Saved(std::byte* workspace,
                                      int64_t number) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / (2 * cut.positions);
    return region.In(workspace).data() + number * size;
  };
  return {.columns = own(columns),
          .probs = own(probs),
          .grad_scores = own(grad_scores),
          .query = own(query_blocks),
          .grad_out = own(grad_out_blocks)};
}

int64_t* TopKBackwardWorkspace::KvBlockEnds(std::byte* workspace,
                                            int64_t number) const {
  return kv_block_ends.In(workspace).data() + number * cut.kv_blocks;
}

float* TopKBackwardWorkspace::GradQuery(std::byte* workspace,
                                        int64_t position) const {
  return grad_queries.In(workspace).data() +
         position * (grad_queries.count / cut.positions);
}

float* TopKBackwardWorkspace::Sums(std::byte* workspace,
                                   int64_t d_block) const {
  return sums.In(workspace).data() + d_block * (sums.count / cut.d_blocks());
}

}  // namespace flashacl::cpu
