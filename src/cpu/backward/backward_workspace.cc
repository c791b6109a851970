// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/backward/backward_workspace.h"

#include <algorithm>
#include <utility>

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

// As many accumulators as may be of use and are not too large.
void ReserveAccumulators(const AttentionProblem& problem,
                         const TileShape& shape, BackwardWorkspace& workspace,
                         WorkspaceLayout& layout) {
  // Lengths that only the stream knows may cut rows in any way.
  const bool known = SequencesAreKnown(problem);
  const Extents extents = ExtentsOf(problem, known ? shape.rows : 0);
  if (extents.most_columns == 0) return;
  const int64_t columns = extents.most_columns + kWidestBlock;
  const double each =
      4 * static_cast<double>(columns) *
      static_cast<double>(workspace.key_stride + workspace.value_stride);
  const auto fitting =
      static_cast<int64_t>(SumBytes(problem, extents.all_rows) / each);
  if (fitting == 0) {
    workspace.sweeps_twice = true;
    workspace.swept_steps = kSweptSteps;
    return;
  }
  workspace.interleaved =
      std::min({workspace.workers, kMaxInterleaved, fitting});
  const int64_t groups = problem.lengths.count() * problem.kv_heads;
  workspace.accumulators = std::min(
      {workspace.interleaved + workspace.interleaved / 2 + 1, groups, fitting});
  workspace.key_accumulators = layout.Reserve<float>(
      "sums of grad keys",
      workspace.accumulators * columns * workspace.key_stride);
  workspace.value_accumulators = layout.Reserve<float>(
      "sums of grad values",
      workspace.accumulators * columns * workspace.value_stride);
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

BackwardWorkspace ReserveBackward(const AttentionProblem& problem,
                                  const TileShape& shape, int64_t workers,
                                  WorkspaceLayout& layout) {
  const int64_t channels = QueryChannels(problem);
  const int64_t rows = RoundUp(shape.rows, kWidestPanel);
  const int64_t keys = shape.cols + kWidestBlock;
  BackwardWorkspace workspace;
  workspace.workers = workers;
  workspace.row_block = std::min(kGradRowBlock, rows);
  workspace.key_stride = StrideOf(channels);
  workspace.value_stride = StrideOf(problem.v_dim);
  const int64_t key_stride = workspace.key_stride;
  const int64_t value_stride = workspace.value_stride;
  BackwardScratch sizes{};
  sizes.panel_keys = shape.cols + 2 * kWidestBlock;
  ScoreScratch score_sizes{};
  score_sizes.key_stride = key_stride;
  score_sizes.staging_stride =
      StrideOf(std::max({channels, problem.v_dim, sizes.panel_keys}));
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t past = 4 * kWidestPanel;
  using S = ScoreScratch;
  using B = BackwardScratch;
  ScratchLayout<S> scores(score_sizes, workers);
  ScratchLayout<B> scratch(sizes, workers);
  scores.Add("queries", {&S::query}, rows * channels + past, layout);
  scratch.Add("query rows", {&B::queries_by_row}, rows * key_stride, layout);
  scratch.Add("grad queries", {&B::grad_query}, rows * key_stride, layout);
  scratch.Add("grad outputs", {&B::grad_out}, rows * problem.v_dim + past,
              layout);
  scratch.Add("grad output rows", {&B::grad_out_rows}, rows * value_stride,
              layout);
  scratch.Add("row max, row sum, delta, sum of p dp",
              {&B::max, &B::inv_sum, &B::delta, &B::sum_p_dp}, rows, layout);
  scores.Add("keys", {&S::keys}, keys * key_stride, layout);
  scratch.Add("values", {&B::values}, keys * value_stride, layout);
  ReserveAccumulators(problem, shape, workspace, layout);
  const int64_t swept = workspace.swept_steps * shape.cols + kWidestBlock;
  scratch.Add("grad keys", {&B::grad_keys}, swept * key_stride, layout);
  scratch.Add("grad values", {&B::grad_values}, swept * value_stride, layout);
  scratch.Add("probs and grad scores", {&B::probs, &B::grad_scores},
              workspace.row_block * sizes.panel_keys, layout);
  scores.Add("rows between layouts", {&S::staging},
             4 * score_sizes.staging_stride, layout);
  scores.Add("visible and kept keys", {&S::visible, &S::kept},
             (keys / 32 + 2) * kWidestPanel, layout);
  scores.Add("rows", {&S::query_rows}, rows, layout);
  scratch.Add("rows of gradients", {&B::grad_rows}, rows, layout);
  scratch.Add("seen keys", {&B::seen}, rows, layout);
  scratch.Add("panels that are not finite", {&B::has_nonfinite}, rows, layout);
  workspace.bias_sums =
      layout.Reserve<double>("grad bias", BiasGradient::SumsOf(problem));
  workspace.scores = std::move(scores);
  workspace.scratch = std::move(scratch);
  return workspace;
}

void BackwardWorkspace::Fill(std::byte* memory, int64_t worker,
                             BackwardTile& tile) const {
  tile.scratch = scratch.At(memory, worker);
  tile.scores.scratch = scores.At(memory, worker);
}

float* BackwardWorkspace::KeyAccumulator(std::byte* memory, int64_t n) const {
  return key_accumulators.In(memory).data() +
         n % accumulators * (key_accumulators.count / accumulators);
}

float* BackwardWorkspace::ValueAccumulator(std::byte* memory, int64_t n) const {
  return value_accumulators.In(memory).data() +
         n % accumulators * (value_accumulators.count / accumulators);
}

}  // namespace flashacl::cpu
