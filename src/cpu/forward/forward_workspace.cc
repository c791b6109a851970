// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/forward/forward_workspace.h"

#include <algorithm>
#include <span>

#include "cpu/forward/forward_kernel.h"
#include "cpu/share_tuning.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/tile_costs.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {

int64_t MaxRowsWithin(const AttentionProblem& problem, const Sequence& sequence,
                      Range sequence_rows) {
  const bool known = problem.lengths.queries == Lengths::Device::kNone;
  const int64_t most = sequence_rows.last - 1;
  const int64_t rows =
      known ? sequence.rows() : std::min(sequence.rows(), most);
  return sequence_rows.first <= rows && rows <= most ? rows : 0;
}

PackedRows PackedRowsOf(const AttentionProblem& problem, Range sequence_rows) {
  PackedRows packed;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t rows = MaxRowsWithin(problem, sequence, sequence_rows);
    packed.all += rows * problem.heads;
    packed.most = std::max(packed.most, rows * problem.group());
  }
  return packed;
}

namespace {

// Splits of probs that are rounded cannot be combined. Where all rows are few,
// more splits than rows say may be worth their memory.
void SplitRows(const AttentionProblem& problem, const PackedRows& packed,
               TileShape& shape) {
  shape.split_keys = RoundUp(kSplitKeys, shape.cols);
  shape.split_rows = problem.has(Slot::kWeightScale) ? 0 : kMaxSplitRows;
  shape.split_open_rows = shape.split_rows;
  const bool many = packed.most > kMaxSplitRows && packed.all < kManyRows;
  if (shape.split_rows == 0 || !many) return;
  const int64_t num_splits = CeilDiv(kManyRows, packed.all);
  shape.split_open_rows = kManyRows;
  shape.split_keys =
      RoundUp(std::max(kManyRowsSplitKeys,
                       CeilDiv(problem.lengths.max_columns(), num_splits)),
              shape.cols);
}

// Of sequences of `most` packed rows or fewer that are split every
// `split_keys`.
int64_t MaxSplitRowsOfFew(const AttentionProblem& problem, int64_t most,
                          int64_t split_keys) {
  if (problem.lengths.keys == Lengths::Device::kEnds) {
    // All sequences share one axis of keys, beside their prefixes. One that is
    // split has more than split_keys of them, so there are few, and each has a
    // split of less than split_keys at the end.
    int64_t keys = problem[Slot::kKey].dims[1];
    for (const Sequence& one : problem.lengths.sequences) keys += one.prefix;
    return 2 * CeilDiv(keys, split_keys) * most * problem.kv_heads;
  }
  int64_t split_rows = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t num_splits = CeilDiv(sequence.columns(), split_keys);
    if (num_splits <= 1) continue;
    const int64_t rows = std::min(sequence.rows() * problem.group(), most);
    split_rows += rows * num_splits * problem.kv_heads;
  }
  return split_rows;
}

// Of many rows, whatever their lengths: fewer than kManyRows, each in at most
// as many splits as make kManyRows of them, of kManyRowsSplitKeys or more.
int64_t MaxSplitRowsOfMany(const AttentionProblem& problem) {
  const int64_t splits =
      CeilDiv(problem.lengths.max_columns(), kManyRowsSplitKeys);
  if (splits <= 1) return 0;
  const int64_t rows = PackedRowsOf(problem, TileShape::kAnyRows).all;
  return std::min(2 * kManyRows, rows * splits);
}

}  // namespace

TileShape ForwardTileShape(const AttentionProblem& problem,
                           const DeviceInfo& device, Range sequence_rows) {
  const auto cache = static_cast<double>(device.l2_bytes);
  const int64_t row_bytes = 4 * (problem.score_dim() + problem.v_dim);
  TileShape shape;
  shape.sequence_rows = sequence_rows;
  shape.row_unit = kRowUnit;
  shape.rows = CountThatFits(std::min(kRowShare * cache, kMaxRowBytes),
                             row_bytes, kMaxRows, kRowUnit);
  const PackedRows packed = PackedRowsOf(problem, sequence_rows);
  const bool matrices = HasMatrixCode(device) && TileMatrixTerms(problem) > 0;
  const int64_t min_tiles =
      std::min(matrices ? kEnoughMatrixTiles : kEnoughTiles,
               kTilesPerWorker * device.workers);
  while (shape.rows > kMinRows && packed.all / shape.rows < min_tiles) {
    shape.rows /= 2;
  }
  shape.rows = std::max(kRowUnit, RoundUp(shape.rows, kRowUnit));
  shape.rows =
      std::min(shape.rows, std::max(kRowUnit, RoundUp(packed.most, kRowUnit)));
  shape.cols = matrices ? CountThatFits(kMatrixColumnShare * cache, row_bytes,
                                        kMaxMatrixColumns, kMatrixColumnUnit)
                        : CountThatFits(kColumnShare * cache, row_bytes,
                                        kMaxColumns, kColumnUnit);
  SplitRows(problem, packed, shape);
  return shape;
}

TileShape SharedTileShape(const AttentionProblem& problem,
                          const TileShape& shape, int64_t workers) {
  const TileCosts costs(problem);
  const Extent extent{problem.lengths.sequences, &problem.mask,
                      problem.kv_heads, problem.group()};
  const int64_t rows = PackedRowsOf(problem, shape.sequence_rows).all;
  const bool many_tiles = rows >= kManyTiles * workers * shape.rows;
  if (workers == 1 || many_tiles || shape.rows <= kMinShareRows) return shape;
  TileShape best = shape;
  double least = 0;
  int64_t last_rows = 0;
  // So many tiles for each worker; 0: those that fit the caches.
  for (const int64_t tiles : {0, 1, 2, 3, 4, 6, 8}) {
    TileShape next = shape;
    if (tiles > 0) {
      next.rows = std::clamp(RoundUp(CeilDiv(rows, tiles * workers), kRowUnit),
                             kMinShareRows, shape.rows);
      if (next.rows == last_rows) continue;
    }
    last_rows = next.rows;
    const Schedule schedule = BuildSchedule(extent, next);
    if (tiles == 0 && schedule.count() >= kManyTiles * workers) return shape;
    Rehearsal rehearsal(workers);
    Rehearse(costs, schedule, PieceShape{}, rehearsal);
    const Balance balance = rehearsal.result();
    if (tiles > 0 && balance.elapsed >= least) continue;
    best = next;
    least = balance.elapsed;
    if (balance.busy() >= kMinBusy) break;
  }
  return best;
}

// Shorter sequences may be split where these are not, and into smaller parts,
// as what many rows are is a matter of all of them. So few rows are taken to be
// split as finely as any shape has it.
int64_t MaxSplitRows(const AttentionProblem& problem,
                     std::span<const TileShape> shapes) {
  int64_t few_rows = 0, split_keys = kSplitKeys;
  bool many = false;
  for (const TileShape& shape : shapes) {
    few_rows = std::max(few_rows, shape.split_rows);
    split_keys = std::min(split_keys, shape.split_keys);
    many = many || shape.split_open_rows > 0;
  }
  return MaxSplitRowsOfFew(problem, few_rows, split_keys) +
         (many ? MaxSplitRowsOfMany(problem) : 0);
}

Schedule KnownSchedule(const AttentionProblem& problem,
                       const TileShape& shape) {
  if (!SequencesAreKnown(problem)) return {};
  return BuildSchedule({problem.lengths.sequences, &problem.mask,
                        problem.kv_heads, problem.group()},
                       shape);
}

int64_t SplitRowsOf(const AttentionProblem& problem, const Schedule& schedule,
                    const TileShape& shape) {
  return SequencesAreKnown(problem) ? schedule.split_rows()
                                    : MaxSplitRows(problem, {&shape, 1});
}

namespace {

// Of a row in its panel (ScoreTile::query_floats), at most.
int64_t QueryFloats(const AttentionProblem& problem) {
  const ForwardKernels kernels = Forward();
  const bool three_terms =
      QueriesTakeKeyScales(problem) && TileMatrixTerms(problem) > 0 &&
      ChoosePairDots(kernels.has_pair_dots, kernels.matrices) ==
          PairDots::kMatrices;
  return problem.score_dim() + (three_terms ? problem.qk_dim : 0);
}

}  // namespace

ScratchLayout<ScoreScratch> ReserveScores(const AttentionProblem& problem,
                                          const ScoreScratch& sizes,
                                          int64_t rows, int64_t keys,
                                          int64_t workers,
                                          WorkspaceLayout& layout) {
  using S = ScoreScratch;
  const int64_t key_rows = keys + kKeysOverrun;
  ScratchLayout<S> score(sizes, workers);
  score.Add("queries", {&S::query},
            RoundUp(rows, kMaxPanelRows) * QueryFloats(problem) + kPanelOverrun,
            layout);
  score.Add("keys", {&S::keys}, key_rows * sizes.key_stride, layout);
  score.Add("rows between layouts", {&S::staging}, 4 * sizes.staging_stride,
            layout);
  if (!problem.kv.gathers()) {  // all rows see the keys of a list
    score.Add("visible and kept keys", {&S::visible, &S::kept},
              (key_rows / 32 + 2) * kMaxPanelRows, layout);
  }
  score.Add("rows", {&S::query_rows}, rows, layout);
  return score;
}

ScratchLayout<ForwardScratch> ReserveOutputs(const AttentionProblem& problem,
                                             int64_t rows, int64_t keys,
                                             int64_t workers,
                                             WorkspaceLayout& layout) {
  using F = ForwardScratch;
  const int64_t lanes = RoundUp(rows, kMaxPanelRows);
  ScratchLayout<F> forward({}, workers);
  forward.Add("outputs", {&F::out},
              lanes * BlocksRoom(problem.v_dim) + kPanelOverrun, layout);
  forward.Add("row max and row sum", {&F::max, &F::sum}, lanes, layout);
  forward.Add("scores", {&F::scores}, (keys + kKeysOverrun) * kMaxPanelRows,
              layout);
  forward.Add("channel factors", {&F::quant},
              2 * (problem.score_dim() + problem.v_dim), layout);
  return forward;
}

// Before two terms of values are there, or integers, rows of a panel of keys
// are.
int64_t MatrixValuesRoom(const AttentionProblem& problem, int64_t step_keys) {
  const int64_t terms = TileMatrixTerms(problem);
  if (terms == 0) return 0;
  const bool integers = AreIntegers(KvTensors(problem, Slot::kKey));
  const int64_t rows = terms == 2 ? kMaxPanelRows
                       : integers ? kMaxPanelRows / 2
                                  : 0;
  return problem.v_dim * (terms * MatrixStride(step_keys) + rows);
}

TiledWorkspace ReserveForward(const AttentionProblem& problem,
                              const TileShape& shape, int64_t workers,
                              WorkspaceLayout& layout) {
  const int64_t channels = problem.score_dim();
  ScoreScratch sizes{};
  sizes.key_stride = RowStride(std::max<int64_t>(channels, 8));
  // The last vector of a block may pass its last key.
  TiledScratch tiled_sizes{};
  tiled_sizes.value_keys = shape.cols + kColumnUnit;
  sizes.staging_stride = OddLines(
      std::max({channels, BlocksRoom(problem.v_dim), tiled_sizes.value_keys}) +
      kMaxPanelRows);
  TiledWorkspace workspace;
  workspace.score =
      ReserveScores(problem, sizes, shape.rows, shape.cols, workers, layout);
  workspace.forward =
      ReserveOutputs(problem, shape.rows, shape.cols, workers, layout);
  using T = TiledScratch;
  ScratchLayout<T>& tiled = workspace.tiled = {tiled_sizes, workers};
  tiled.Add("values", {&T::values},
            std::max(tiled_sizes.value_keys * BlocksRoom(problem.v_dim),
                     MatrixValuesRoom(problem, shape.cols)),
            layout);
  tiled.Add("channel factors of the next tile", {&T::next_quant},
            2 * (channels + problem.v_dim), layout);
  tiled.Add("rows of the next tile", {&T::next_query_rows}, shape.rows, layout);
  return workspace;
}

Region<float> ReserveSplits(const AttentionProblem& problem, int64_t split_rows,
                            WorkspaceLayout& layout) {
  return layout.Reserve<float>("splits", split_rows * (problem.v_dim + 2));
}

}  // namespace flashacl::cpu
