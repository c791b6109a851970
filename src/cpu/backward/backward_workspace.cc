// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/backward/backward_workspace.h"

#include <algorithm>

#include "cpu/backward/bias_gradient.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/share_tuning.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kMaxBlock = 12;  // keys of one block, on any instruction set
constexpr int64_t kMinPanelRows = 8;  // likewise

// The most columns of a sequence whose rows are in several tiles.
int64_t SharedColumns(const AttentionProblem& problem, const TileShape& shape) {
  // Lengths that only the stream knows may cut rows in any way.
  const int64_t tile_rows = SequencesAreKnown(problem) ? shape.rows : 0;
  int64_t most = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    if (sequence.rows() * problem.group() <= tile_rows) continue;
    most = std::max(most, sequence.columns());
  }
  return most;
}

// What accumulators may take at most.
double AccumulatorBytes(const AttentionProblem& problem) {
  const double grad_query = 4 * static_cast<double>(PackedRowsOf(problem).all) *
                            static_cast<double>(problem.score_dim());
  return std::clamp(4 * grad_query, kMinSumBytes, kMaxSumBytes);
}

// As many accumulators as may be of use and are not too large.
void ReserveAccumulators(const AttentionProblem& problem,
                         const TileShape& shape, BackwardWorkspace& workspace,
                         WorkspaceLayout& layout) {
  const int64_t shared = SharedColumns(problem, shape);
  if (shared == 0) return;
  const int64_t columns = shared + kMaxBlock;
  const double each =
      4 * static_cast<double>(columns) *
      static_cast<double>(workspace.key_stride + workspace.value_stride);
  const auto fitting = static_cast<int64_t>(AccumulatorBytes(problem) / each);
  if (fitting == 0) {
    workspace.sweeps_twice = true;
    workspace.swept_steps = kSweptSteps;
    return;
  }
  workspace.interleaved =
      std::min({workspace.workers,
                std::max(kMaxInterleaved, workspace.workers / kWorkersPerHead),
                fitting});
  const int64_t heads = problem.lengths.count() * problem.kv_heads;
  workspace.accumulators = std::min(
      {workspace.interleaved + workspace.interleaved / 2 + 1, heads, fitting});
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
  const int64_t channels = problem.score_dim() + problem.v_dim;
  const int64_t terms = HasMatrixCode(device) ? MatrixTerms(problem) : 0;
  TileShape shape;
  shape.row_unit = kRowUnit;
  // Of matrices queries and gradients of outputs are streamed, twice, of
  // `terms` numbers of bf16, and gradients of queries: half of the channels.
  shape.rows =
      terms == 0
          ? CountThatFits(kMaxGradRowBytes, 10 * channels, kMaxGradRows,
                          kRowUnit)
          : CountThatFits(
                kMatrixGradRowShare * static_cast<double>(device.l2_bytes),
                (4 * terms + 2) * channels, kMaxGradRows, kGradRowBlock);
  // Tiles are whole blocks: sums are of the same blocks whatever their tiles.
  if (shape.rows > kGradRowBlock) {
    shape.row_unit = kGradRowBlock;
    shape.rows -= shape.rows % kGradRowBlock;
  }
  const PackedRows packed = PackedRowsOf(problem);
  shape.rows =
      std::min(shape.rows, std::max(kRowUnit, RoundUp(packed.most, kRowUnit)));
  // What may be rounded is judged by step, so their steps stay.
  const bool large = terms == 0 && !RoundsProbsToBf16(problem) &&
                     device.l2_bytes >= kLargeSecondCache;
  shape.cols = CountThatFits(
      kGradColumnShare * static_cast<double>(device.l2_bytes), 8 * channels,
      large ? kMaxGradColumnsOfLarge : kMaxGradColumns, kColumnUnit);
  shape.split_keys = int64_t{1} << 40;
  shape.split_rows = shape.split_open_rows = 0;  // rows are never split
  shape.by_head = true;  // which are summed up in the order of its tiles
  return shape;
}

TileShape SharedGradTileShape(const AttentionProblem& problem,
                              const TileShape& shape, int64_t workers) {
  TileShape shared = shape;
  const int64_t wanted = kGradTilesPerWorker * workers;
  while (shared.rows > kGradRowBlock &&
         PackedRowsOf(problem).all / shared.rows < wanted) {
    shared.rows = RoundUp(shared.rows / 2, kGradRowBlock);
  }
  return shared;
}

namespace {

void AddRoundedOperands(BackwardWorkspace& workspace,
                        const BackwardScratch& sizes, int64_t step_keys,
                        WorkspaceLayout& layout) {
  using B = BackwardScratch;
  ScratchLayout<B>& scratch = workspace.scratch;
  scratch.Add("pairs of probs and grad scores",
              {&B::prob_row_pairs, &B::grad_row_pairs},
              workspace.row_block * sizes.panel_keys / 2, layout);
  scratch.Add("pairs of grad scores of a panel", {&B::grad_key_pairs},
              (step_keys / 2 + 1) * kMaxPanelRows, layout);
}

void AddMatrixOperands(const AttentionProblem& problem,
                       BackwardWorkspace& workspace,
                       const BackwardScratch& sizes, int64_t rows,
                       int64_t step_keys, WorkspaceLayout& layout) {
  using B = BackwardScratch;
  ScratchLayout<B>& scratch = workspace.scratch;
  const int64_t keys = step_keys + kKeysOverrun;
  const int64_t terms = workspace.matrix_terms;
  scratch.Add("pairs of query rows", {&B::query_row_pairs},
              terms * rows / 2 * workspace.key_stride, layout);
  scratch.Add("pairs of grad output rows", {&B::grad_out_row_pairs},
              terms * rows / 2 * workspace.value_stride, layout);
  scratch.Add("keys by channel", {&B::keys_by_channel},
              terms * problem.score_dim() * sizes.channel_stride, layout);
  if (terms > 1) {
    scratch.Add("terms of output rows", {&B::out_terms},
                kMaxPanelRows * workspace.value_stride, layout);
  }
  scratch.Add("words of probs and grad scores",
              {&B::prob_words, &B::grad_words}, keys * sizes.word_stride,
              layout);
  scratch.Add("words of grad scores of a panel", {&B::grad_key_words},
              keys * kMaxPanelRows, layout);
  scratch.Add("grad queries by channel", {&B::grad_query_panels},
              rows * problem.score_dim(), layout);
}

}  // namespace

BackwardWorkspace ReserveBackward(const AttentionProblem& problem,
                                  const TileShape& shape, int64_t workers,
                                  WorkspaceLayout& layout, int matrix_terms) {
  const int64_t rows = RoundUp(shape.rows, kMaxPanelRows);
  BackwardWorkspace workspace;
  workspace.matrix_terms = matrix_terms;
  workspace.workers = workers;
  workspace.row_block = std::min(kGradRowBlock, rows);
  workspace.key_stride = PanelStride(problem.score_dim());
  workspace.value_stride = PanelStride(problem.v_dim);
  const int64_t key_stride = workspace.key_stride;
  const int64_t value_stride = workspace.value_stride;
  BackwardScratch sizes{};
  sizes.value_stride = value_stride;
  sizes.panel_keys = shape.cols + kKeysOverrun;
  sizes.block_words = workspace.row_block / 2;
  sizes.word_stride = OddLines(2 * sizes.block_words);
  sizes.channel_stride = MatrixStride(shape.cols);
  ScoreScratch score_sizes{};
  score_sizes.key_stride = key_stride;
  score_sizes.staging_stride = PanelStride(
      std::max({problem.score_dim(), problem.v_dim, sizes.panel_keys}));
  workspace.scores = ReserveScores(problem, score_sizes, shape.rows, shape.cols,
                                   workers, layout);
  using B = BackwardScratch;
  ScratchLayout<B>& scratch = workspace.scratch = {sizes, workers};
  scratch.Add("query rows", {&B::queries_by_row}, rows * key_stride, layout);
  scratch.Add("grad queries", {&B::grad_query}, rows * key_stride, layout);
  scratch.Add("grad outputs", {&B::grad_out},
              rows * problem.v_dim + kPanelOverrun, layout);
  scratch.Add("grad output rows", {&B::grad_out_rows}, rows * value_stride,
              layout);
  scratch.Add("row max, row sum, delta, sum of p dp",
              {&B::max, &B::inv_sum, &B::delta, &B::sum_p_dp}, rows, layout);
  if (problem[Slot::kKey].dtype == DType::kBf16 || matrix_terms > 0) {
    scratch.Add("key rows", {&B::key_rows}, shape.cols * key_stride, layout);
  }
  scratch.Add("values", {&B::values},
              (shape.cols + kKeysOverrun) * value_stride, layout);
  ReserveAccumulators(problem, shape, workspace, layout);
  const int64_t swept = workspace.swept_steps * shape.cols + kMaxBlock;
  scratch.Add("grad keys", {&B::grad_keys}, swept * key_stride, layout);
  scratch.Add("grad values", {&B::grad_values}, swept * value_stride, layout);
  scratch.Add("probs and grad scores", {&B::probs, &B::grad_scores},
              workspace.row_block * sizes.panel_keys, layout);
  if (RoundsProbsToBf16(problem)) {
    AddRoundedOperands(workspace, sizes, shape.cols, layout);
  }
  if (matrix_terms > 0) {
    AddMatrixOperands(problem, workspace, sizes, rows, shape.cols, layout);
  }
  scratch.Add("seen keys", {&B::seen}, rows, layout);
  scratch.Add("rows of the next tile", {&B::next_query_rows},
              workspace.row_block, layout);
  scratch.Add("facts of panels", {&B::facts}, rows / kMinPanelRows, layout);
  workspace.bias_sums =
      layout.Reserve<double>("grad bias", BiasGradient::SumsOf(problem));
  return workspace;
}

KvSums BackwardWorkspace::Accumulator(std::byte* memory, int64_t n,
                                      int64_t key) const {
  const auto of = [&](const Region<float>& region, int64_t stride) {
    return region.In(memory).data() +
           n % accumulators * (region.count / accumulators) + key * stride;
  };
  return {of(key_accumulators, key_stride),
          of(value_accumulators, value_stride)};
}

KvSums BackwardWorkspace::WorkerSums(const BackwardTile& tile,
                                     int64_t key) const {
  return {tile.backward.grad_keys + key * key_stride,
          tile.backward.grad_values + key * value_stride};
}

void BackwardWorkspace::Clear(const KvSums& sums, int64_t keys) const {
  std::fill_n(sums.keys, keys * key_stride, 0.0f);
  std::fill_n(sums.values, keys * value_stride, 0.0f);
}

}  // namespace flashacl::cpu
