// SPDX-License-Identifier: Apache-2.0
// Cuts a forward problem into tiles, gives each its scratch memory and
// addresses, and leaves the arithmetic to the vector code.
#include <utility>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_tiles.h"
#include "cpu/forward/prepared_tiles.h"
#include "cpu/implementations.h"
#include "cpu/streams.h"
#include "cpu/support.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kForward);
}

}  // namespace

ForwardTiles::ForwardTiles(const AttentionProblem& problem,
                           const DeviceInfo& device, Range sequence_rows,
                           WorkspaceLayout& layout)
    : ForwardTiles(problem, device,
                   ForwardTileShape(problem, device, sequence_rows), layout) {}

ForwardTiles::ForwardTiles(const AttentionProblem& problem,
                           const DeviceInfo& device, const TileShape& most,
                           WorkspaceLayout& layout)
    : matrix_terms_(TileMatrixTerms(problem)),
      streams_(StreamsResults(problem, device)),
      shape_(SharedTileShape(problem, most, device.workers)),
      schedule_(KnownSchedule(problem, shape_)),
      workspace_(ReserveForward(problem, most, device.workers, layout)) {}

ForwardTiles::Launch::Launch(const ForwardTiles& tiles,
                             const ForwardOperands& operands, std::byte* memory,
                             float* splits)
    : matrix_terms_(tiles.matrix_terms_),
      streams_(tiles.streams_),
      workspace_(tiles.workspace_),
      operands_(operands),
      schedule_(tiles.schedule_, operands, tiles.shape_),
      memory_(memory),
      splits_(splits) {}

void ForwardTiles::Launch::Attend(int64_t worker,
                                  FunctionRef<int64_t()> take) const {
  const ForwardKernels kernels = Forward();
  const int64_t count = schedule_->count();
  int64_t n = take();
  if (n == count) return;
  ScoreScratch score = workspace_.score.At(memory_, worker);
  ForwardScratch forward = workspace_.forward.At(memory_, worker);
  TiledScratch tiled = workspace_.tiled.At(memory_, worker);
  const PackedValues values{tiled.values, tiled.value_keys};
  const PairDots dots =
      ChoosePairDots(kernels.has_pair_dots,
                     matrix_terms_ > 0 ? kernels.matrices : MatrixCode::kNone);
  const auto tile_of = [&] {
    ForwardTile tile =
        operands_.TileOf(*schedule_, n, {score, forward, splits_});
    UsePairs(dots, tile);
    tile.streams = streams_;
    return tile;
  };
  ForwardTile tile = tile_of();
  while (true) {
    n = take();
    std::swap(score.query_rows, tiled.next_query_rows);
    std::swap(forward.quant, tiled.next_quant);
    if (n == count) break;
    const ForwardTile next = tile_of();
    kernels.attend(tile, values, &next);
    tile = next;
  }
  kernels.attend(tile, values, nullptr);
  if (streams_) kernels.flush();
}

void ForwardTiles::Launch::Combine(int64_t worker,
                                   FunctionRef<int64_t()> take) const {
  const ForwardKernels kernels = Forward();
  const ScoreScratch score = workspace_.score.At(memory_, worker);
  const ForwardScratch forward = workspace_.forward.At(memory_, worker);
  const int64_t count = schedule_->count();
  for (int64_t n = take(); n < count; n = take()) {
    const Tile cut = schedule_->At(n);
    if (cut.num_splits == 1 || cut.split != 0) continue;
    kernels.combine(operands_.TileOf(*schedule_, n, {score, forward, splits_}),
                    cut.num_splits);
  }
}

}  // namespace cpu

const Implementation kCpuForward{
    .name = "cpu/forward",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTiles<cpu::ForwardTiles>>};

}  // namespace flashacl
