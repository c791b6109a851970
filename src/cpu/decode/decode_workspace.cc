// SPDX-License-Identifier: Apache-2.0
// Everything of a tile but its splits is a few dozen KiB.
#include "cpu/decode/decode_workspace.h"

#include <algorithm>
#include <span>
#include <utility>

#include "cpu/share_tuning.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

int64_t WholeVectors(int64_t channels) { return RoundUp(channels, kMaxLanes); }

// Whether tiles may multiply rows of 8 bits as integers: what TakesBytes in
// decode_bytes-inl.h and LoadInt16Queries in decode_int16-inl.h ask about
// types. How many rows do so is the processor's.
bool MayTakeBytes(const AttentionProblem& problem) {
  const std::span<const TensorSpec> keys = KvTensors(problem, Slot::kKey);
  const DType query = problem[Slot::kQuery].dtype;
  return problem.rope_dim == 0 &&
         (query == DType::kF16 || query == DType::kBf16) && !keys.empty() &&
         keys[0].dtype == DType::kI8;
}

// The most heads of a bundle, where as few bundles as can be have `most` or
// fewer, as evenly as can be.
int64_t EvenBundle(int64_t heads, int64_t most) {
  return CeilDiv(heads, CeilDiv(heads, most));
}

// How many kv heads' tiles may go side by side.
int64_t MostHeads(const AttentionProblem& problem, int64_t rows) {
  const std::span<const TensorSpec> keys = KvTensors(problem, Slot::kKey);
  const std::span<const TensorSpec> values =
      problem.kv.value_is_key ? keys : KvTensors(problem, Slot::kValue);
  if (keys.empty()) return 1;
  const TensorSpec& key = keys[0];
  // Those of all heads at one position lie within one row.
  const auto together = [&](const TensorSpec& spec) {
    return spec.channel_block == 0 &&
           spec.strides[2] * problem.kv_heads <= spec.strides[1];
  };
  if (!together(key) || !together(values[0])) return 1;
  // Tiles of a bundle find a row where the first does, so many bytes farther.
  const auto as_prefix = [&](Slot slot, std::span<const TensorSpec> own) {
    return !problem.has(slot) ||
           std::ranges::all_of(own, [&](const TensorSpec& one) {
             return one.strides[2] == problem[slot].strides[2];
           });
  };
  if (!as_prefix(Slot::kKeyPrefix, keys) ||
      !as_prefix(Slot::kValuePrefix, values)) {
    return 1;
  }
  const int64_t bytes =
      ElementFormat(key).BytesOf(problem.qk_dim + problem.v_dim);
  const int64_t most_bytes =
      IsQuantised(key.dtype) ? kDecodeHeadBundleBytes8 : kDecodeHeadBundleBytes;
  const int64_t fitting = most_bytes / std::max<int64_t>(bytes, 1);
  const int64_t of_rows = std::clamp(kDecodeBundleRows / rows,
                                     kDecodeHeadsOfManyRows, kDecodeHeadBundle);
  return EvenBundle(problem.kv_heads, std::clamp(fitting, int64_t{1}, of_rows));
}

}  // namespace

TileShape DecodeTileShape(const AttentionProblem& problem,
                          Range sequence_rows) {
  TileShape shape;
  shape.sequence_rows = sequence_rows;
  shape.rows = std::max<int64_t>(PackedRowsOf(problem, sequence_rows).most, 1);
  shape.row_unit = 1;
  shape.cols = kDecodeKeys;
  shape.split_keys = kFewRowsSplitKeys;
  shape.split_rows = shape.rows;
  shape.split_open_rows = 0;
  return shape;
}

int64_t MostDecodeTiles(const AttentionProblem& problem, Range sequence_rows) {
  int64_t tiles = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    if (MaxRowsWithin(problem, sequence, sequence_rows) == 0) continue;
    tiles += problem.kv_heads * CeilDiv(sequence.columns(), kFewRowsSplitKeys);
  }
  return tiles;
}

int64_t SplitsOfPiece(int64_t tiles, int64_t heads, int64_t workers) {
  const int64_t others = std::max<int64_t>(workers - 1, 1);
  return std::clamp(tiles / (heads * kSplitPiecesPerWorker * others),
                    int64_t{1}, kMostSplitsOfPiece);
}

PieceShape DecodePiece(const AttentionProblem& problem, int64_t rows,
                       int64_t tiles, int64_t workers) {
  // Every worker should have some to do.
  const int64_t others = std::max<int64_t>(workers - 1, 1);
  const int64_t shared = tiles / (kBundlesPerWorker * others);
  const int64_t heads =
      std::max<int64_t>(std::min(MostHeads(problem, rows), shared), 1);
  return {.heads = heads, .splits = SplitsOfPiece(tiles, heads, workers)};
}

DecodeWorkspace ReserveDecode(const AttentionProblem& problem,
                              const TileShape& shape,
                              const DecodeSharing& sharing,
                              WorkspaceLayout& layout) {
  const int64_t channels = problem.score_dim();
  const int64_t v_dim = problem.v_dim;
  const int64_t rows = RoundUp(shape.rows, 4);
  const int64_t tiles = sharing.tiles_per_worker;
  const int64_t count = sharing.workers * tiles;
  ScoreScratch sizes{};
  sizes.key_stride = OddLines(std::max(WholeVectors(channels), v_dim));
  sizes.staging_stride =
      OddLines(std::max({channels, v_dim, kDecodeKeys}) + kMaxLanes);
  using S = ScoreScratch;
  using F = ForwardScratch;
  using D = DecodeScratch;
  ScratchLayout<S> score(sizes, count);
  ScratchLayout<F> forward({}, count);
  ScratchLayout<D> decode({}, count);
  score.Add("queries", {&S::query}, rows * WholeVectors(channels), layout);
  forward.Add("outputs", {&F::out}, rows * WholeVectors(v_dim), layout);
  forward.Add("row max and row sum", {&F::max, &F::sum},
              RoundUp(rows, kMaxLanes), layout);
  decode.Add("key offsets", {&D::key_offsets}, rows, layout);
  if (problem.has(Slot::kKeyRowScale) || problem.has(Slot::kValueRowScale)) {
    decode.Add("sums beside row scales", {&D::query_sums, &D::value_sums}, rows,
               layout);
  }
  if (MayTakeBytes(problem)) {
    decode.Add("digits of queries", {&D::query_digits},
               rows / 4 * ByteQueryWords(channels), layout);
  }
  forward.Add("scores", {&F::scores}, rows * kDecodeScores, layout);
  forward.Add("channel factors", {&F::quant}, 4 * (channels + v_dim), layout);
  score.Add("rows", {&S::query_rows}, 2 * rows, layout);
  // A worker's tiles are computed in turn and share the rest.
  score.Add("keys", {&S::keys}, (kDecodeKeys + 1) * sizes.key_stride, layout,
            tiles);
  score.Add("rows between layouts", {&S::staging}, 4 * sizes.staging_stride,
            layout, tiles);
  score.Add("visible and kept keys", {&S::visible, &S::kept},
            rows * (kDecodeKeys / 32 + 1), layout, tiles);
  return {{std::move(score), std::move(forward)}, std::move(decode)};
}

}  // namespace flashacl::cpu
