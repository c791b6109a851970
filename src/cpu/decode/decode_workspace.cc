// SPDX-License-Identifier: Apache-2.0
// Everything of a tile but its parts is a few dozen KiB.
#include "cpu/decode/decode_workspace.h"

#include <algorithm>

#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl::cpu {
namespace {

constexpr int64_t kMostLanes = 16;  // floats of a vector, on any processor

int64_t WholeVectors(int64_t channels) { return RoundUp(channels, kMostLanes); }

// An odd number of cache lines: rows then spread over all sets of a cache.
int64_t OddLines(int64_t floats) {
  return (CeilDiv(floats, kMostLanes) | 1) * kMostLanes;
}

}  // namespace

int64_t MostPackedRows(const AttentionProblem& problem) {
  int64_t most = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    most = std::max(most, sequence.rows() * problem.group());
  }
  return most;
}

TileShape DecodeTileShape(const AttentionProblem& problem) {
  TileShape shape;
  shape.rows = std::max<int64_t>(MostPackedRows(problem), 1);
  shape.row_unit = 1;
  shape.cols = kDecodeColumns;
  shape.part_cols = kDecodePartColumns;
  shape.part_rows = shape.rows;
  return shape;
}

int64_t BundleOf(const AttentionProblem& problem) {
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
      SizeOf(key.dtype) == 1 ? kDecodeBundleBytes8 : kDecodeBundleBytes;
  const int64_t fitting = room / std::max<int64_t>(bytes, 1);
  int64_t tiles = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    tiles += problem.kv_heads * CeilDiv(sequence.columns(), kDecodePartColumns);
  }
  // Every worker should have some to do.
  const int64_t most =
      std::min({fitting, kDecodeBundle, problem.kv_heads, tiles / 8});
  return std::max<int64_t>(most, 1);
}

ForwardPlace DecodeLayout(const Plan& plan, WorkspaceLayout& layout) {
  const AttentionProblem& problem = plan.problem;
  const int64_t channels = problem.qk_dim + problem.rope_dim;
  const int64_t v_dim = problem.v_dim;
  const int64_t rows = RoundUp(plan.shape.rows, 4);
  ForwardPlace place;
  place.slots = plan.slots;
  place.sharers = BundleOf(problem);
  const int64_t workers = place.slots / place.sharers;
  place.key_stride = OddLines(std::max(WholeVectors(channels), v_dim));
  place.stage_stride =
      OddLines(std::max({channels, v_dim, kDecodeColumns}) + kMostLanes);
  const auto floats = [&](std::string_view name, int64_t slots, int64_t count) {
    return layout.Reserve<float>(name, slots * RoundUp(count, kMostLanes));
  };
  const auto own = [&](std::string_view name, int64_t count) {
    return floats(name, place.slots, count);
  };
  place.query = own("queries", rows * WholeVectors(channels));
  place.out = own("outputs", rows * WholeVectors(v_dim));
  place.states = own("row max and row sum", 2 * RoundUp(rows, kMostLanes));
  place.key_offsets = own("key offsets", rows);
  place.scores = own("scores", rows * kDecodeScores);
  place.codec = own("channel factors", 4 * (channels + v_dim));
  place.lanes = layout.Reserve<Lane>("rows", place.slots * 2 * rows);
  place.keys = floats("keys", workers, (kDecodeColumns + 1) * place.key_stride);
  place.stage = floats("rows between layouts", workers, 4 * place.stage_stride);
  place.bits = layout.Reserve<uint32_t>(
      "visible and kept keys", workers * 2 * rows * (kDecodeColumns / 32 + 1));
  const int64_t part_rows = SequencesAreKnown(problem)
                                ? plan.schedule.part_rows()
                                : MostPartRows(problem, plan.shape);
  place.parts = layout.Reserve<float>("parts", part_rows * (v_dim + 2));
  return place;
}

}  // namespace flashacl::cpu
