// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/forward/forward_workspace.h"

#include <algorithm>
#include <utility>

#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kWidestPanel = 32;  // rows, on any instruction set
constexpr int64_t kLine = 16;         // floats of a cache line

// Room for channels in blocks, which may pass the last by less than 8.
int64_t ValueRoom(int64_t v_dim) { return RoundUp(v_dim, 4) + 8; }

// An odd number of cache lines: rows then spread over all sets of a cache.
int64_t OddLines(int64_t floats) {
  const int64_t lines = CeilDiv(floats, kLine);
  return (lines | 1) * kLine;
}

int64_t QueryChannels(const AttentionProblem& problem) {
  return problem.qk_dim + problem.rope_dim;
}

// Packed rows of all sequences and kv heads, and of the longest sequence.
struct PackedRows {
  int64_t all = 0;
  int64_t most = 0;
};

PackedRows PackedRowsOf(const AttentionProblem& problem) {
  PackedRows rows;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t packed = sequence.rows() * problem.group();
    rows.all += packed * problem.kv_heads;
    rows.most = std::max(rows.most, packed);
  }
  return rows;
}

}  // namespace

TileShape ForwardTileShape(const AttentionProblem& problem,
                           const DeviceInfo& device) {
  const auto cache = static_cast<double>(device.l2_bytes);
  const int64_t row_bytes = 4 * (QueryChannels(problem) + problem.v_dim);
  const auto fitting = [&](double bytes, int64_t most, int64_t unit) {
    const int64_t count =
        static_cast<int64_t>(bytes) / std::max<int64_t>(row_bytes, 1);
    return std::max(unit, std::min(count, most) / unit * unit);
  };
  TileShape shape;
  shape.row_unit = kRowUnit;
  shape.rows =
      fitting(std::min(kRowShare * cache, kMaxRowBytes), kMaxRows, kRowUnit);
  const PackedRows packed = PackedRowsOf(problem);
  while (shape.rows > kMinRows && packed.all / shape.rows < kMinTiles) {
    shape.rows /= 2;
  }
  shape.rows = std::max(kRowUnit, RoundUp(shape.rows, kRowUnit));
  shape.rows =
      std::min(shape.rows, std::max(kRowUnit, RoundUp(packed.most, kRowUnit)));
  shape.cols = fitting(kColumnShare * cache, kMaxColumns, kColumnUnit);
  shape.split_keys = kSplitKeys;
  // Weights that are rounded cannot be merged.
  shape.split_rows = problem.has(Slot::kWeightScale) ? 0 : kMaxSplitRows;
  return shape;
}

int64_t MaxSplitRows(const AttentionProblem& problem, const TileShape& shape) {
  const int64_t most = std::min(shape.rows, shape.split_rows);
  if (problem.lengths.keys == Lengths::Device::kEnds) {
    // All sequences share one axis of keys. One that is split has more than
    // split_keys of them, so there are few, and each has a part of less than
    // split_keys at the end.
    const int64_t keys = problem[Slot::kKey].dims[1];
    return 2 * CeilDiv(keys, shape.split_keys) * most * problem.kv_heads;
  }
  int64_t split_rows = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t num_splits = CeilDiv(sequence.columns(), shape.split_keys);
    if (num_splits <= 1) continue;
    const int64_t rows = std::min(sequence.rows() * problem.group(), most);
    split_rows += rows * num_splits * problem.kv_heads;
  }
  return split_rows;
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
                                    : MaxSplitRows(problem, shape);
}

TiledWorkspace ReserveForward(const AttentionProblem& problem,
                              const TileShape& shape, int64_t split_rows,
                              int64_t workers, WorkspaceLayout& layout) {
  const int64_t channels = QueryChannels(problem);
  const int64_t rows = RoundUp(shape.rows, kWidestPanel);
  const int64_t columns = shape.cols + kColumnUnit;
  const int64_t factors = 2 * (channels + problem.v_dim);
  ScoreScratch sizes{};
  sizes.key_stride = OddLines(std::max(channels, ValueRoom(0)) + 8);
  sizes.staging_stride = OddLines(
      std::max({channels, ValueRoom(problem.v_dim), columns}) + kWidestPanel);
  // A block's last key may be followed by part of a vector.
  TiledScratch tiled_sizes{};
  tiled_sizes.value_keys = shape.cols + kColumnUnit;
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t past = 4 * kWidestPanel;
  using S = ScoreScratch;
  using F = ForwardScratch;
  using T = TiledScratch;
  ScratchLayout<S> score(sizes, workers);
  ScratchLayout<F> forward({}, workers);
  ScratchLayout<T> tiled(tiled_sizes, workers);
  score.Add("queries", {&S::query}, rows * channels + past, layout);
  forward.Add("outputs", {&F::out}, rows * ValueRoom(problem.v_dim) + past,
              layout);
  forward.Add("row max and row sum", {&F::max, &F::sum}, rows, layout);
  score.Add("keys", {&S::keys}, columns * sizes.key_stride, layout);
  tiled.Add("values", {&T::values},
            tiled_sizes.value_keys * ValueRoom(problem.v_dim), layout);
  forward.Add("scores", {&F::scores}, columns * kWidestPanel, layout);
  score.Add("rows between layouts", {&S::staging}, 4 * sizes.staging_stride,
            layout);
  forward.Add("channel factors", {&F::quant}, factors, layout);
  tiled.Add("channel factors of the next tile", {&T::next_quant}, factors,
            layout);
  score.Add("visible and kept keys", {&S::visible, &S::kept},
            (columns / 32 + 2) * kWidestPanel, layout);
  score.Add("rows", {&S::query_rows}, rows, layout);
  tiled.Add("rows of the next tile", {&T::next_query_rows}, rows, layout);
  const Region<float> splits =
      layout.Reserve<float>("splits", split_rows * (problem.v_dim + 2));
  return {{std::move(score), std::move(forward), splits}, std::move(tiled)};
}

}  // namespace flashacl::cpu
