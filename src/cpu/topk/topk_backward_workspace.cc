// SPDX-License-Identifier: Apache-2.0
// Sizes from heads, channels, lists, keys and caches.
#include "cpu/topk/topk_backward_workspace.h"

#include <algorithm>

#include "cpu/element_format.h"
#include "cpu/pair_format.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

bool WantsKeys(const AttentionProblem& problem) {
  return problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
}

bool WantsValues(const AttentionProblem& problem) {
  return problem.has(Slot::kGradValue) && !problem.kv.value_is_key;
}

// Whether everything that scores and dp multiply may stay pairs of channels.
bool OperandsArePairs(const AttentionProblem& problem) {
  const auto pairs = [&](Slot slot, int64_t channels) {
    return ArePairs(ElementFormat(problem[slot]), channels);
  };
  const bool ropes =
      problem.rope_dim == 0 || (pairs(Slot::kQueryRope, problem.rope_dim) &&
                                pairs(Slot::kKeyRope, problem.rope_dim));
  const Slot value = problem.kv.value_is_key ? Slot::kKey : Slot::kValue;
  return ropes && pairs(Slot::kQuery, problem.qk_dim) &&
         pairs(Slot::kKey, problem.qk_dim) && pairs(value, problem.v_dim) &&
         pairs(Slot::kGradOut, problem.v_dim);
}

// Floats of the queries, or gradients of outputs, of one position by blocks;
// where they are saved as pairs half of that is not used, as plans are the same
// on all processors.
int64_t BlockFloats(const AttentionProblem& problem, int64_t channels) {
  return RoundUp(channels, kMaxPanelRows) * problem.group();
}

// Words of the same as pairs of heads, for matrix registers.
int64_t PairWords(const AttentionProblem& problem,
                  const TopKBackwardTiling& tiling, int64_t channels) {
  if (!tiling.packs_words) return 0;
  return RoundUp(channels, kMaxPanelRows) *
         RoundUp(problem.group(), kHeadBlock) / 2;
}

// As many positions as kSavedPdsBytes hold. Gradients are added up position by
// position, so where a stage has whole lists it may have one for each worker;
// where it has a part of each, what it is decides on bits.
int64_t StagePositions(const AttentionProblem& problem,
                       const TopKBackwardTiling& tiling, int64_t workers) {
  const int64_t positions =
      std::max<int64_t>(problem.lengths.all_rows() * problem.kv_heads, 1);
  const int64_t saved_floats = 2 * tiling.split_keys * tiling.head_stride +
                               BlockFloats(problem, problem.score_dim()) +
                               BlockFloats(problem, problem.v_dim) +
                               PairWords(problem, tiling, problem.score_dim()) +
                               PairWords(problem, tiling, problem.v_dim);
  int64_t fitting =
      std::min(kSavedPdsBytes / (4 * saved_floats), kMaxStagePositions);
  if (tiling.num_splits == 1) {
    if (fitting > workers) fitting -= fitting % workers;
    fitting = std::max(fitting, workers);
  }
  return std::min(std::max(fitting, kMinStagePositions), positions);
}

// Sets what depends on the rows of keys: kv blocks, d blocks and batches.
void TileSums(const AttentionProblem& problem, const DeviceInfo& device,
              TopKBackwardTiling& tiling) {
  const int64_t longest = std::max<int64_t>(problem.lengths.max_columns(), 1);
  const int64_t all = problem.lengths.all_columns() * problem.kv_heads;
  const int64_t channels = problem.score_dim();
  const int64_t value_channels = WantsValues(problem) ? problem.v_dim : 0;
  // Rows of a kv block of which a position lists kKeysPerKvBlock.
  const int64_t sparsity = CeilDiv(longest, tiling.split_keys);
  tiling.kv_block_rows =
      std::min(kKeysPerKvBlock * sparsity, RoundUp(longest, 16));
  tiling.kv_blocks = CeilDiv(longest, tiling.kv_block_rows);
  const int64_t most =
      RoundUp(std::max(channels, value_channels), kMaxPanelRows);
  const double bytes = std::min(
      kDBlockShare * static_cast<double>(device.l2_bytes), kMaxDBlockBytes);
  tiling.d_block_channels =
      CountThatFits(bytes, 4 * tiling.kv_block_rows,
                    std::max(most, kMaxPanelRows), kMaxPanelRows);
  if (WantsKeys(problem)) {
    tiling.key_d_blocks = CeilDiv(channels, tiling.d_block_channels);
  }
  tiling.value_d_blocks = CeilDiv(value_channels, tiling.d_block_channels);
  const int64_t row_bytes =
      4 * std::max<int64_t>(tiling.d_blocks() * tiling.d_block_channels, 1);
  tiling.batch_rows =
      std::clamp(all, longest, std::max(longest, kKvGradBytes / row_bytes));
}

ScratchLayout<TopKBackwardScratch> ReserveScratch(
    const AttentionProblem& problem, const TopKBackwardTiling& tiling,
    int64_t workers, WorkspaceLayout& layout, bool matrices) {
  using S = TopKBackwardScratch;
  const int64_t heads = tiling.padded_heads;
  const int64_t keys =
      tiling.step_keys + (matrices ? kKeysOverrun : kColumnUnit);
  S sizes{};
  if (!problem.kv.value_is_key) sizes.value_stride = RowStride(problem.v_dim);
  sizes.channel_stride = MatrixStride(tiling.step_keys);
  ScratchLayout<S> scratch(sizes, workers);
  scratch.Add("gradients of outputs", {&S::grad_out},
              heads * problem.v_dim + kPanelOverrun, layout);
  scratch.Add("row statistics", {&S::max, &S::inv_sum, &S::delta}, heads,
              layout);
  scratch.Add("values", {&S::values}, keys * sizes.value_stride, layout);
  // Also where keys stay pairs, as plans are the same on all processors.
  if (problem[Slot::kKey].dtype == DType::kBf16) {
    scratch.Add("key rows", {&S::key_rows}, keys * TopKKeyStride(problem),
                layout);
  }
  scratch.Add("scores", {&S::scores}, keys * kMaxPanelRows, layout);
  scratch.Add("gradients of scores", {&S::ds}, keys * kMaxPanelRows, layout);
  scratch.Add("gradients between layouts", {&S::grad_staging},
              4 * TopKStagingStride(problem), layout);
  if (matrices) {
    scratch.Add("keys by channel", {&S::keys_by_channel},
                problem.score_dim() * sizes.channel_stride, layout);
  }
  scratch.Add("columns as listed", {&S::columns}, tiling.split_keys, layout);
  return scratch;
}

ScratchLayout<SavedPds> ReserveSaved(const AttentionProblem& problem,
                                     const TopKBackwardTiling& tiling,
                                     WorkspaceLayout& layout) {
  using P = SavedPds;
  // Blocks of keys may read up to so many rows past the last.
  constexpr int64_t kBlockOverrun = 16;
  const int64_t probs =
      (tiling.split_keys + kBlockOverrun) * tiling.head_stride;
  ScratchLayout<P> saved({}, 2 * tiling.stage_positions);
  saved.Add("saved: probs", {&P::probs}, probs, layout);
  saved.Add("saved: gradients of scores", {&P::grad_scores}, probs, layout);
  saved.Add("saved: queries", {&P::query},
            BlockFloats(problem, problem.score_dim()), layout);
  saved.Add("saved: gradients of outputs", {&P::grad_out},
            BlockFloats(problem, problem.v_dim), layout);
  saved.Add("saved: columns", {&P::columns}, tiling.split_keys, layout);
  saved.Add("saved: kv blocks", {&P::kv_block_ends}, tiling.kv_blocks, layout);
  if (!tiling.packs_words) return saved;
  const int64_t head_blocks = CeilDiv(problem.group(), kHeadBlock);
  saved.Add("saved: pairs of queries", {&P::query_pairs},
            PairWords(problem, tiling, problem.score_dim()), layout);
  saved.Add("saved: pairs of gradients of outputs", {&P::grad_out_pairs},
            PairWords(problem, tiling, problem.v_dim), layout);
  saved.Add("saved: which rows fit", {&P::rows_fit}, head_blocks, layout);
  saved.Add("saved: what is words", {&P::is_words},
            CeilDiv(tiling.split_keys, tiling.step_keys) * head_blocks, layout);
  return saved;
}

}  // namespace

// Values that are keys have more channels after them, which a matrix must not
// take in.
PairDots TopKBackwardDots(const AttentionProblem& problem) {
  if (!OperandsArePairs(problem)) return PairDots::kNone;
  const TopKBackwardKernels kernels = TopKBackward();
  const bool whole =
      !problem.kv.value_is_key || problem.v_dim % kMatrixNumbers == 0;
  return whole && TakesMatrices(problem, kernels)
             ? PairDots::kMatrices
             : ChoosePairDots(kernels.has_pair_dots);
}

TopKBackwardTiling TopKBackwardTilingOf(const AttentionProblem& problem,
                                        const DeviceInfo& device,
                                        bool matrices) {
  TopKBackwardTiling tiling;
  tiling.step_keys = TopKStepKeys(problem, device);
  const int64_t listed_keys = std::max<int64_t>(MaxListedKeys(problem), 1);
  tiling.num_splits = CeilDiv(listed_keys, kMaxStageKeys);
  tiling.split_keys = CeilDiv(listed_keys, tiling.num_splits);
  tiling.padded_heads = RoundUp(problem.group(), kMaxPanelRows);
  // Of fewer heads matrices would be half empty, which was slower than floats.
  tiling.packs_words = matrices && problem.group() > kHeadBlock / 2;
  tiling.head_stride =
      RoundUp(problem.group(), tiling.packs_words ? kHeadBlock : kMaxLanes);
  tiling.stage_positions = StagePositions(problem, tiling, device.workers);
  TileSums(problem, device, tiling);
  return tiling;
}

TopKBackwardWorkspace ReserveTopKBackward(const AttentionProblem& problem,
                                          const TopKBackwardTiling& tiling,
                                          int64_t workers,
                                          WorkspaceLayout& layout,
                                          bool matrices) {
  TopKBackwardWorkspace workspace;
  workspace.score = ReserveTopKScores(problem, problem.group(),
                                      tiling.step_keys, workers, layout);
  workspace.scratch =
      ReserveScratch(problem, tiling, workers, layout, matrices);
  workspace.saved = ReserveSaved(problem, tiling, layout);
  workspace.grad_query_floats = RoundUp(
      tiling.padded_heads * BlocksRoom(problem.score_dim()) + kPanelOverrun,
      kLineFloats);
  workspace.grad_queries = layout.Reserve<float>(
      "gradients of queries",
      tiling.stage_positions * workspace.grad_query_floats);
  workspace.d_block_floats =
      OddLines(tiling.batch_rows * tiling.d_block_channels);
  workspace.sums = layout.Reserve<float>(
      "gradients of keys", tiling.d_blocks() * workspace.d_block_floats);
  return workspace;
}

}  // namespace flashacl::cpu
