// SPDX-License-Identifier: Apache-2.0
// Which problems have few rows, and how their keys are cut.
#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "base/check.h"
#include "cpu/decode/decode_kernel.h"
#include "cpu/decode/decode_tiles.h"
#include "cpu/decode/few_rows.h"
#include "cpu/forward/prepared_tiles.h"
#include "cpu/half_dots.h"
#include "cpu/implementations.h"
#include "cpu/int16_dots.h"
#include "cpu/shared_conversions.h"
#include "cpu/support.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status HasAtMost(int64_t most, const AttentionProblem& problem) {
  const int64_t rows = PackedRowsOf(problem).most;
  if (rows <= most) return {};
  return Unsupported("{} packed rows per kv head are more than {}", rows, most);
}

Status Supports(const AttentionProblem& problem, const DeviceInfo& device) {
  FLASHACL_RETURN_IF_ERROR(SupportsFewRows(problem, device));
  return HasAtMost(kDecodeRows, problem);
}

Status Suits(const AttentionProblem& problem, const DeviceInfo& device) {
  return HasAtMost(MostFewRows(problem, device), problem);
}

}  // namespace

Status SupportsFewRows(const AttentionProblem& problem,
                       const DeviceInfo& device) {
  FLASHACL_RETURN_IF_ERROR(kCpuForward.supports(problem, device));
  if (problem.has(Slot::kWeightScale)) {
    return Unsupported("weights that are rounded need all scores beforehand");
  }
  const Slot value_scale =
      problem.kv.value_is_key ? Slot::kKeyScale : Slot::kValueScale;
  if (problem.has(Slot::kKeep) && problem.has(value_scale)) {
    return Unsupported("8-bit values with dropout");
  }
  return {};
}

DecodeProducts DecodeProducts::Choose(bool whole_matrices, bool allows_int16) {
  const DecodeKernels kernels = Decode();
  DecodeProducts products;
  products.dots =
      ChoosePairDots(kernels.has_pair_dots,
                     whole_matrices ? kernels.matrices : MatrixCode::kNone);
  products.byte_dots = ChooseByteDots(kernels.has_byte_dots, kernels.matrices);
  products.half_dots = ChooseHalfDots(kernels.has_half_dots);
  if (allows_int16) {
    products.int16_dots =
        ChooseInt16Dots(kernels.has_int16_dots, products.byte_dots);
  }
  products.shares_conversions =
      ChooseSharedConversions(kernels.has_shared_conversions);
  return products;
}

DecodeArgs DecodeProducts::ArgsOf(const ForwardTile& tile,
                                  const DecodeScratch& scratch) const {
  DecodeArgs args{tile,      scratch,    byte_dots,
                  half_dots, int16_dots, shares_conversions};
  UsePairs(dots, args.tile);
  return args;
}

DecodeTiles::DecodeTiles(const AttentionProblem& problem,
                         const DeviceInfo& device, Range sequence_rows,
                         WorkspaceLayout& layout)
    : shape_(DecodeTileShape(problem, sequence_rows)),
      schedule_(KnownSchedule(problem, shape_)),
      whole_matrices_(MatrixTerms(problem) == 1),
      allows_int16_(problem.score.half_probs),
      kv_heads_(problem.kv_heads),
      workers_(device.workers),
      piece_(DecodePiece(problem, shape_.rows,
                         SequencesAreKnown(problem)
                             ? schedule_.count()
                             : MostDecodeTiles(problem, sequence_rows),
                         workers_)),
      workspace_(ReserveDecode(
          problem, shape_,
          {.workers = device.workers, .tiles_per_worker = piece_.heads},
          layout)) {}

DecodeTiles::Launch::Launch(const DecodeTiles& tiles,
                            const ForwardOperands& operands, std::byte* memory,
                            float* splits)
    : tiles_(tiles),
      operands_(operands),
      schedule_(tiles.schedule_, operands, tiles.shape_),
      piece_{.heads = tiles.piece_.heads,
             .splits = SplitsOfPiece(schedule_->count(), tiles.piece_.heads,
                                     tiles.workers_)},
      products_(
          DecodeProducts::Choose(tiles.whole_matrices_, tiles.allows_int16_)),
      memory_(memory),
      splits_(splits) {}

DecodeArgs DecodeTiles::Launch::TileOf(int64_t n, int64_t worker,
                                       int64_t i) const {
  const DecodeWorkspace& workspace = tiles_.workspace_;
  const int64_t own = worker * piece_.heads + i;
  return products_.ArgsOf(
      operands_.TileOf(*schedule_, n,
                       {workspace.score.At(memory_, own),
                        workspace.forward.At(memory_, own), splits_}),
      workspace.decode.At(memory_, own));
}

void DecodeTiles::Launch::AttendPiece(int64_t n, int64_t worker) const {
  const Tile cut = schedule_->At(n);
  const int64_t splits = piece_.SplitsFrom(cut);
  if (splits == 0) return;
  const Range cols{cut.cols.first, schedule_->At(n + splits - 1).cols.last};
  const int64_t count = std::min(piece_.heads, tiles_.kv_heads_ - cut.kv_head);
  // Not initialised: the 23 KiB of the most tiles took longer than a bundle of
  // one tile of few keys.
  union Room {
    Room() {}
    std::array<DecodeArgs, kDecodeHeadBundle> tiles;
  } room;
  static_assert(std::is_trivially_destructible_v<DecodeArgs>);
  for (int64_t i = 0; i < count; ++i) {
    DecodeArgs& args = room.tiles[static_cast<size_t>(i)];
    std::construct_at(&args, TileOf(n + i * cut.num_splits, worker, i));
    FLASHACL_DCHECK(splits == 1 || args.tile.split_out != nullptr);
    args.tile.cols = cols;
  }
  Decode().attend(room.tiles.data(), count, tiles_.shape_.split_keys);
}

void DecodeTiles::Launch::Attend(int64_t worker,
                                 FunctionRef<int64_t()> take) const {
  const int64_t count = schedule_->count();
  for (int64_t n = take(); n < count; n = take()) {
    AttendPiece(n, worker);
  }
}

void DecodeTiles::Launch::Combine(int64_t worker,
                                  FunctionRef<int64_t()> take) const {
  const int64_t count = schedule_->count();
  for (int64_t n = take(); n < count; n = take()) {
    const Tile cut = schedule_->At(n);
    if (cut.num_splits == 1 || cut.split != 0) continue;
    Decode().combine(TileOf(n, worker, 0).tile, cut.num_splits);
  }
}

}  // namespace cpu

const Implementation kCpuDecode{
    .name = "cpu/decode",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTiles<cpu::DecodeTiles>>,
    .suits = cpu::Suits};

}  // namespace flashacl
