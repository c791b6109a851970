// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/backward/backward_workspace.h"

#include <algorithm>

#include "cpu/backward/bias_gradient.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kWidestPanel = 32;  // rows, on any instruction set
constexpr int64_t kWidestBlock = 12;  // scalars of a product's block
constexpr int64_t kLine = 16;         // floats of a cache line

// Room for a row of channels in whole panels: an odd number of cache lines, so
// that rows spread over all sets of a cache.
int64_t StrideOf(int64_t channels) {
  const int64_t room = std::max(RoundUp(channels, kWidestPanel), kWidestPanel);
  return room + kLine;
}

int64_t QueryChannels(const AttentionProblem& problem) {
  return problem.qk_dim + problem.rope_dim;
}

struct Extents {
  int64_t all_rows = 0;      // packed, of all sequences and kv heads
  int64_t most_rows = 0;     // packed, of one sequence
  int64_t most_columns = 0;  // of a sequence with more rows than a tile
};

Extents ExtentsOf(const AttentionProblem& problem, int64_t tile_rows) {
  Extents extents;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t rows = sequence.rows() * problem.group();
    extents.all_rows += rows * problem.kv_heads;
    extents.most_rows = std::max(extents.most_rows, rows);
    if (rows > tile_rows) {
      extents.most_columns = std::max(extents.most_columns, sequence.columns());
    }
  }
  return extents;
}

// What sums may take at most.
double SumBytes(const AttentionProblem& problem, int64_t all_rows) {
  const double grad_query = 4 * static_cast<double>(all_rows) *
                            static_cast<double>(QueryChannels(problem));
  return std::clamp(4 * grad_query, kMinSumBytes, kMaxSumBytes);
}

// As many sets of sums as may be of use and are not too large.
void LayOutSums(const Plan& plan, BackwardWorkspace& place,
                WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  // Lengths that only the stream knows may cut rows in any way.
  const bool known = SequencesAreKnown(problem);
  const Extents extents = ExtentsOf(problem, known ? plan.shape.rows : 0);
  if (extents.most_columns == 0) return;
  const int64_t columns = extents.most_columns + kWidestBlock;
  const double each =
      4 * static_cast<double>(columns) *
      static_cast<double>(place.key_stride + place.value_stride);
  const auto fitting =
      static_cast<int64_t>(SumBytes(problem, extents.all_rows) / each);
  if (fitting == 0) {
    place.sweeps_twice = true;
    place.swept_steps = kSweptSteps;
    return;
  }
  place.interleaved = std::min({place.slots, kMaxInterleaved, fitting});
  const int64_t groups = problem.lengths.count() * problem.kv_heads;
  place.sums = std::min(
      {place.interleaved + place.interleaved / 2 + 1, groups, fitting});
  place.key_sums = layout.Reserve<float>(
      "sums of grad keys", place.sums * columns * place.key_stride);
  place.value_sums = layout.Reserve<float>(
      "sums of grad values", place.sums * columns * place.value_stride);
}

}  // namespace

TileShape BackwardTileShape(const AttentionProblem& problem,
                            const DeviceInfo& device) {
  const int64_t channels = QueryChannels(problem) + problem.v_dim;
  const auto fitting = [](double bytes, int64_t each, int64_t most,
                          int64_t unit) {
    const int64_t count =
        static_cast<int64_t>(bytes) / std::max<int64_t>(each, 1);
    return std::max(unit, std::min(count, most) / unit * unit);
  };
  TileShape shape;
  shape.row_unit = kRowUnit;
  shape.rows = fitting(kMaxGradRowBytes, 10 * channels, kMaxGradRows, kRowUnit);
  const Extents extents = ExtentsOf(problem, 0);
  while (shape.rows > kMinRows && extents.all_rows / shape.rows < kMinTiles) {
    shape.rows = RoundUp(shape.rows / 2, kRowUnit);
  }
  shape.rows = std::min(
      shape.rows, std::max(kRowUnit, RoundUp(extents.most_rows, kRowUnit)));
  const auto cache = static_cast<double>(device.l2_bytes);
  shape.cols = fitting(kGradColumnShare * cache, 8 * channels, kMaxGradColumns,
                       kColumnUnit);
  shape.split_keys = int64_t{1} << 40;
  shape.split_rows = 0;  // rows are never split over keys
  return shape;
}

BackwardWorkspace BackwardLayout(const Plan& plan, WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  const TileShape& shape = plan.shape;
  const int64_t channels = QueryChannels(problem);
  const int64_t rows = RoundUp(shape.rows, kWidestPanel);
  const int64_t keys = shape.cols + kWidestBlock;
  BackwardWorkspace place;
  place.slots = plan.slots;
  place.row_block = std::min(kGradRowBlock, rows);
  place.key_stride = StrideOf(channels);
  place.value_stride = StrideOf(problem.v_dim);
  place.panel_keys = shape.cols + 2 * kWidestBlock;
  place.staging_stride =
      StrideOf(std::max({channels, problem.v_dim, place.panel_keys}));
  const auto floats = [&](std::string_view name, int64_t count) {
    return layout.Reserve<float>(name, place.slots * RoundUp(count, kLine));
  };
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t behind = 4 * kWidestPanel;
  place.query = floats("queries", rows * channels + behind);
  place.query_rows = floats("query rows", rows * place.key_stride);
  place.grad_query = floats("grad queries", rows * place.key_stride);
  place.grad_out = floats("grad outputs", rows * problem.v_dim + behind);
  place.grad_out_rows = floats("grad output rows", rows * place.value_stride);
  place.row_facts = floats("row max, row sum, delta, inner", 4 * rows);
  place.keys = floats("keys", keys * place.key_stride);
  place.values = floats("values", keys * place.value_stride);
  LayOutSums(plan, place, layout);
  const int64_t swept = place.swept_steps * shape.cols + kWidestBlock;
  place.grad_keys = floats("grad keys", swept * place.key_stride);
  place.grad_values = floats("grad values", swept * place.value_stride);
  place.probs =
      floats("weights and grad scores", 2 * place.row_block * place.panel_keys);
  place.staging = floats("rows between layouts", 4 * place.staging_stride);
  place.bits = layout.Reserve<uint32_t>(
      "visible and kept keys",
      place.slots * 2 * (keys / 32 + 2) * kWidestPanel);
  place.lanes = layout.Reserve<QueryRow>("rows", place.slots * rows);
  place.grad_lanes =
      layout.Reserve<GradRow>("rows of gradients", place.slots * rows);
  place.seen = layout.Reserve<Range>("seen keys", place.slots * rows);
  place.has_nonfinite =
      layout.Reserve<uint8_t>("odd panels", place.slots * rows);
  place.bias_sums =
      layout.Reserve<double>("grad bias", BiasGradient::SumsOf(problem));
  return place;
}

void BackwardWorkspace::Fill(std::byte* workspace, int64_t slot,
                             BackwardTile& tile) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / slots;
    return region.In(workspace).data() + slot * size;
  };
  BackwardScratch& scratch = tile.scratch;
  scratch.query_rows = own(query_rows);
  scratch.grad_query = own(grad_query);
  scratch.grad_out_rows = own(grad_out_rows);
  scratch.grad_out = own(grad_out);
  scratch.values = own(values);
  const int64_t rows = row_facts.count / slots / 4;
  scratch.max = own(row_facts);
  scratch.inv_sum = scratch.max + rows;
  scratch.delta = scratch.inv_sum + rows;
  scratch.sum_p_dp = scratch.delta + rows;
  scratch.probs = own(probs);
  scratch.grad_scores = scratch.probs + probs.count / slots / 2;
  scratch.seen = own(seen);
  scratch.has_nonfinite = own(has_nonfinite);
  scratch.lanes = own(grad_lanes);
  scratch.grad_keys = own(grad_keys);
  scratch.grad_values = own(grad_values);
  scratch.panel_keys = panel_keys;
  ForwardScratch& scores = tile.scores.scratch;
  scores = {};
  scores.query = own(query);
  scores.out = scratch.probs;
  scores.max = scores.sum = scratch.max;
  scores.keys = own(keys);
  scores.scores = scratch.probs;
  scores.staging = own(staging);
  scores.visible = own(bits);
  scores.kept = scores.visible + bits.count / slots / 2;
  scores.lanes = own(lanes);
  scores.key_stride = key_stride;
  scores.staging_stride = staging_stride;
}

float* BackwardWorkspace::KeySums(std::byte* workspace, int64_t n) const {
  return key_sums.In(workspace).data() + n % sums * (key_sums.count / sums);
}

float* BackwardWorkspace::ValueSums(std::byte* workspace, int64_t n) const {
  return value_sums.In(workspace).data() + n % sums * (value_sums.count / sums);
}

}  // namespace flashacl::cpu
