// SPDX-License-Identifier: Apache-2.0
// Everything of a tile but its parts is a few dozen KiB.
#include "cpu/decode/decode_workspace.h"

#include <algorithm>

#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kMaxLanes = 16;  // floats of a vector, on any processor

int64_t WholeVectors(int64_t channels) { return RoundUp(channels, kMaxLanes); }

// An odd number of cache lines: rows then spread over all sets of a cache.
int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, kMaxLanes) | 1) * kMaxLanes;
}

}  // namespace

int64_t MaxPackedRows(const AttentionProblem& problem) {
  int64_t most = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    most = std::max(most, sequence.rows() * problem.group());
  }
  return most;
}

TileShape DecodeTileShape(const AttentionProblem& problem) {
  TileShape shape;
  shape.rows = std::max<int64_t>(MaxPackedRows(problem), 1);
  shape.row_unit = 1;
  shape.cols = kDecodeColumns;
  shape.split_keys = kDecodeSplitKeys;
  shape.split_rows = shape.rows;
  return shape;
}

int64_t HeadBundleOf(const AttentionProblem& problem) {
  const bool listed =
      problem.kv.rows == KvSource::Rows::kList && !problem.kv.key_list.empty();
  const TensorSpec& key = listed ? problem.kv.key_list[0] : problem[Slot::kKey];
  const TensorSpec& value = problem.kv.value_is_key ? key
                            : listed                ? problem.kv.value_list[0]
                                                    : problem[Slot::kValue];
  // Those of all heads at one position lie within one row.
  const auto together = [&](const TensorSpec& spec) {
    return spec.strides[2] * problem.kv_heads <= spec.strides[1];
  };
  if (!together(key) || !together(value)) return 1;
  const int64_t bytes = (problem.qk_dim + problem.v_dim) * SizeOf(key.dtype);
  const int64_t room =
      SizeOf(key.dtype) == 1 ? kDecodeHeadBundleBytes8 : kDecodeHeadBundleBytes;
  const int64_t fitting = room / std::max<int64_t>(bytes, 1);
  int64_t tiles = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    tiles += problem.kv_heads * CeilDiv(sequence.columns(), kDecodeSplitKeys);
  }
  // Every worker should have some to do.
  const int64_t most =
      std::min({fitting, kDecodeHeadBundle, problem.kv_heads, tiles / 8});
  return std::max<int64_t>(most, 1);
}

ForwardWorkspace DecodeLayout(const Plan& plan, WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  const int64_t channels = problem.qk_dim + problem.rope_dim;
  const int64_t v_dim = problem.v_dim;
  const int64_t rows = RoundUp(plan.shape.rows, 4);
  ForwardWorkspace place;
  place.slots = plan.slots;
  place.tiles_per_worker = HeadBundleOf(problem);
  const int64_t workers = place.slots / place.tiles_per_worker;
  place.key_stride = OddLines(std::max(WholeVectors(channels), v_dim));
  place.staging_stride =
      OddLines(std::max({channels, v_dim, kDecodeColumns}) + kMaxLanes);
  const auto floats = [&](std::string_view name, int64_t slots, int64_t count) {
    return layout.Reserve<float>(name, slots * RoundUp(count, kMaxLanes));
  };
  const auto own = [&](std::string_view name, int64_t count) {
    return floats(name, place.slots, count);
  };
  place.query = own("queries", rows * WholeVectors(channels));
  place.out = own("outputs", rows * WholeVectors(v_dim));
  place.states = own("row max and row sum", 2 * RoundUp(rows, kMaxLanes));
  place.key_offsets = own("key offsets", rows);
  place.scores = own("scores", rows * kDecodeScores);
  place.quant = own("channel factors", 4 * (channels + v_dim));
  place.lanes = layout.Reserve<QueryRow>("rows", place.slots * 2 * rows);
  place.keys = floats("keys", workers, (kDecodeColumns + 1) * place.key_stride);
  place.staging =
      floats("rows between layouts", workers, 4 * place.staging_stride);
  place.bits = layout.Reserve<uint32_t>(
      "visible and kept keys", workers * 2 * rows * (kDecodeColumns / 32 + 1));
  const int64_t split_rows = SequencesAreKnown(problem)
                                 ? plan.schedule.split_rows()
                                 : MaxSplitRows(problem, plan.shape);
  place.splits = layout.Reserve<float>("splits", split_rows * (v_dim + 2));
  return place;
}

}  // namespace flashacl::cpu
