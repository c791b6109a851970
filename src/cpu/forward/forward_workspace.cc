// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles from sizes of caches, and of scratch memory from both.
#include "cpu/forward/forward_workspace.h"

#include <algorithm>

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

ForwardWorkspace ForwardLayout(const Plan& plan, WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  const TileShape& shape = plan.shape;
  const int64_t channels = QueryChannels(problem);
  const int64_t rows = RoundUp(shape.rows, kWidestPanel);
  const int64_t columns = shape.cols + kColumnUnit;
  ForwardWorkspace place;
  place.slots = plan.slots;
  place.key_stride = OddLines(std::max(channels, ValueRoom(0)) + 8);
  // A block's last key may be followed by part of a vector.
  place.value_keys = shape.cols + kColumnUnit;
  place.staging_stride = OddLines(
      std::max({channels, ValueRoom(problem.v_dim), columns}) + kWidestPanel);
  // Blocks of four channels pass the end of the last panel by up to three.
  const int64_t behind = 4 * kWidestPanel;
  const auto floats = [&](std::string_view name, int64_t count) {
    return layout.Reserve<float>(name, place.slots * RoundUp(count, kLine));
  };
  place.query = floats("queries", rows * channels + behind);
  place.out = floats("outputs", rows * ValueRoom(problem.v_dim) + behind);
  place.states = floats("row max and row sum", 2 * rows);
  place.keys = floats("keys", columns * place.key_stride);
  place.values = floats("values", place.value_keys * ValueRoom(problem.v_dim));
  place.scores = floats("scores", columns * kWidestPanel);
  place.staging = floats("rows between layouts", 4 * place.staging_stride);
  place.quant = floats("channel factors", 4 * (channels + problem.v_dim));
  place.bits = layout.Reserve<uint32_t>(
      "visible and kept keys",
      place.slots * 2 * (columns / 32 + 2) * kWidestPanel);
  place.lanes = layout.Reserve<QueryRow>("rows", place.slots * 2 * rows);
  const int64_t split_rows = SequencesAreKnown(problem)
                                 ? plan.schedule.split_rows()
                                 : MaxSplitRows(problem, shape);
  place.splits =
      layout.Reserve<float>("splits", split_rows * (problem.v_dim + 2));
  return place;
}

ForwardScratch ForwardWorkspace::Scratch(std::byte* workspace,
                                         int64_t slot) const {
  const auto own = [&](const auto& region) {
    const int64_t size = region.count / slots;
    return region.In(workspace).data() + slot * size;
  };
  const int64_t workers = slots / tiles_per_worker;
  const auto shared = [&](const auto& region) {
    const int64_t size = region.count / workers;
    return region.In(workspace).data() + slot / tiles_per_worker * size;
  };
  ForwardScratch scratch;
  scratch.query = own(query);
  scratch.out = own(out);
  scratch.max = own(states);
  scratch.sum = scratch.max + states.count / slots / 2;
  scratch.keys = shared(keys);
  scratch.values = own(values);
  scratch.scores = own(scores);
  scratch.staging = shared(staging);
  scratch.key_offset = own(key_offsets);
  scratch.quant = own(quant);
  scratch.next_quant = scratch.quant + quant.count / slots / 2;
  scratch.visible = shared(bits);
  scratch.kept = scratch.visible + bits.count / workers / 2;
  scratch.lanes = own(lanes);
  scratch.next_query_rows = scratch.lanes + lanes.count / slots / 2;
  scratch.key_stride = key_stride;
  scratch.value_keys = value_keys;
  scratch.staging_stride = staging_stride;
  return scratch;
}

}  // namespace flashacl::cpu
