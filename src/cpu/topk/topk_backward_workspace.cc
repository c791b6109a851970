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

int64_t RecordFloats(const AttentionProblem& problem, const GradCut& cut) {
  return 2 * cut.entries * cut.head_stride +
         BlockFloats(problem, QueryChannels(problem)) +
         BlockFloats(problem, problem.v_dim);
}

void CutPositions(const AttentionProblem& problem, GradCut& cut) {
  int64_t positions = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    positions += sequence.rows() * problem.kv_heads;
  }
  const int64_t fitting =
      kRecordBytes / (4 * std::max<int64_t>(RecordFloats(problem, cut), 1));
  cut.positions = std::clamp<int64_t>(
      fitting, kLeastChunk, std::clamp<int64_t>(positions, 1, kMostChunk));
}

void CutRows(const AttentionProblem& problem, GradCut& cut) {
  int64_t longest = 1, all = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    longest = std::max(longest, sequence.columns());
    all += sequence.columns() * problem.kv_heads;
  }
  const int64_t channels = QueryChannels(problem);
  const int64_t value_channels = WantsValues(problem) ? problem.v_dim : 0;
  // Rows of a bucket of which a position lists kBucketEntries.
  const int64_t sparsity = CeilDiv(longest, std::max<int64_t>(cut.entries, 1));
  cut.bucket_rows = std::min(kBucketEntries * sparsity, RoundUp(longest, 16));
  cut.buckets = CeilDiv(longest, cut.bucket_rows);
  const int64_t most =
      RoundUp(std::max(channels, value_channels), kWidestPanel);
  cut.slice_channels = std::clamp(
      kSliceBytes / (4 * cut.bucket_rows) / kWidestPanel * kWidestPanel,
      kWidestPanel, std::max(most, kWidestPanel));
  if (WantsKeys(problem)) {
    cut.key_slices = CeilDiv(channels, cut.slice_channels);
  }
  cut.value_slices = CeilDiv(value_channels, cut.slice_channels);
  const int64_t row_bytes =
      4 * std::max<int64_t>(cut.slices() * cut.slice_channels, 1);
  cut.rows = std::clamp(all, longest, std::max(longest, kSumBytes / row_bytes));
}

// Slices lie an odd number of cache lines apart: otherwise the same row of all
// of them would fall into one set of a cache.
int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, kLine) | 1) * kLine;
}

}  // namespace

GradCut CutGradients(const AttentionProblem& problem,
                     const DeviceInfo& device) {
  GradCut cut;
  int64_t row_floats = RowStride(QueryChannels(problem));
  if (!problem.kv.value_is_key) row_floats += RowStride(problem.v_dim);
  const double fitting = kGatheredShare * static_cast<double>(device.l2_bytes) /
                         static_cast<double>(4 * row_floats);
  cut.step =
      std::clamp(static_cast<int64_t>(fitting) / kColumnUnit * kColumnUnit,
                 kColumnUnit, kMostColumns);
  const int64_t entries = std::max<int64_t>(MostListed(problem), 1);
  cut.parts = CeilDiv(entries, kMostRecordEntries);
  cut.entries = CeilDiv(entries, cut.parts);
  cut.heads = RoundUp(problem.group(), kWidestPanel);
  cut.head_stride = RoundUp(problem.group(), kWidestVector);
  CutPositions(problem, cut);
  CutRows(problem, cut);
  return cut;
}

GradPlace GradLayout(const AttentionProblem& problem, const GradCut& cut,
                     int64_t slots, WorkspaceLayout& layout) {
  const int64_t channels = QueryChannels(problem);
  const int64_t columns = cut.step + kColumnUnit;
  GradPlace place;
  place.cut = cut;
  place.slots = slots;
  place.key_stride = RowStride(std::max(channels, problem.v_dim));
  place.value_stride = problem.kv.value_is_key ? 0 : RowStride(problem.v_dim);
  place.stage_stride =
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
  place.stage = floats("rows between layouts", slots, 8 * place.stage_stride);
  place.unsorted =
      layout.Reserve<int64_t>("columns as listed", slots * cut.entries);
  place.lanes = layout.Reserve<GradLane>("rows", slots * problem.group());

  const int64_t records = 2 * cut.positions;
  const int64_t weights = (cut.entries + kRowsBehind) * cut.head_stride;
  place.weights = floats("records: weights", records, weights);
  place.grad_scores = floats("records: gradients of scores", records, weights);
  place.query_blocks =
      floats("records: queries", records, BlockFloats(problem, channels));
  place.grad_out_blocks = floats("records: gradients of outputs", records,
                                 BlockFloats(problem, problem.v_dim));
  place.columns =
      layout.Reserve<int64_t>("records: columns", records * cut.entries);
  place.bucket_ends =
      layout.Reserve<int64_t>("records: buckets", records * cut.buckets);
  place.grad_queries = floats("gradients of queries", cut.positions,
                              heads * (RoundUp(channels, 4) + 8) + behind);
  place.sums = layout.Reserve<float>(
      "gradients of keys",
      cut.slices() * OddLines(cut.rows * cut.slice_channels));
  return place;
}

GradScratch GradPlace::Scratch(std::byte* workspace, int64_t slot) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / slots;
    return region.In(workspace).data() + slot * size;
  };
  GradScratch scratch;
  scratch.query = own(query);
  scratch.grad_out = own(grad_out);
  scratch.rows = own(statistics);
  scratch.keys = own(keys);
  const bool shared = value_stride == 0;
  scratch.values = shared ? scratch.keys : own(values);
  scratch.scores = own(scores);
  scratch.grads = own(grads);
  scratch.stage = own(stage);
  scratch.columns = own(unsorted);
  scratch.lanes = own(lanes);
  scratch.key_stride = key_stride;
  scratch.value_stride = shared ? key_stride : value_stride;
  scratch.stage_stride = stage_stride;
  return scratch;
}

GradRecord GradPlace::Record(std::byte* workspace, int64_t number) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / (2 * cut.positions);
    return region.In(workspace).data() + number * size;
  };
  return {.columns = own(columns),
          .weights = own(weights),
          .grad_scores = own(grad_scores),
          .query = own(query_blocks),
          .grad_out = own(grad_out_blocks)};
}

int64_t* GradPlace::BucketEnds(std::byte* workspace, int64_t number) const {
  return bucket_ends.In(workspace).data() + number * cut.buckets;
}

float* GradPlace::GradQuery(std::byte* workspace, int64_t position) const {
  return grad_queries.In(workspace).data() +
         position * (grad_queries.count / cut.positions);
}

float* GradPlace::Sums(std::byte* workspace, int64_t slice) const {
  return sums.In(workspace).data() + slice * (sums.count / cut.slices());
}

}  // namespace flashacl::cpu
